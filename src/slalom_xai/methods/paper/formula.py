"""The formula of a SLALOM: a softmax-weighted average of values, over units, heads and a sink.

    F_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ],   w = exp(s)

Unit j occurs n_j times in the row x. Each head k averages the values v under the weights exp(s),
where s are the importances. The sink 0 is always present. One head without a sink is the paper's
SLALOM (Eq. 4); only files of earlier versions have several heads.

The main method's formula is another one, ``slalom.formula``; this one is the paper's, and its
theory's.

The functions here treat the sink as one more **slot** whose count is one. A row is then a vector of
p counts, one per slot, and a head has one value (per column c) and one importance per slot.

This module is the reference. It is written to be read, and it is what predictions and figures use.
Where it would be too slow there are fast forms, each tested against this module in
``tests/unit/test_fast_forms.py``:

* ``fit`` predicts all rows of several texts at once and uses the derivatives of the formula;
* ``count_tables.ShortRows`` sums rows that differ in few units without a table of counts;
* ``scores`` has closed forms of single scores;
* ``shapley`` sums over all subsets by an integral.

Shapes: m rows, n units, p slots, K heads, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError


def slots(counts: Tensor, sink: bool) -> Tensor:
    """Counts over units (m, n) as counts over slots (m, p): a sink is one more entry, the last."""
    if not sink:
        return counts
    return torch.cat([counts, counts.new_ones(len(counts), 1)], dim=1)


def weights(counts: Tensor, importances: Tensor) -> Tensor:
    """The share of each slot in each row.

    Args:
        counts: (m, p).
        importances: (K, p).

    Returns:
        (m, K, p), summing to one over the slots. A row whose counts are all zero gives NaN.
    """
    raw = counts[:, None, :] * torch.exp(importances - importances.amax(dim=1, keepdim=True))
    return raw / raw.sum(dim=2, keepdim=True)


def averages(shares: Tensor, values: Tensor) -> Tensor:
    """Each head's prediction: (m, K, p) shares, (K, p, C) values -> (m, K, C)."""
    return torch.einsum("mkp,kpc->mkc", shares, values)


@dataclass(frozen=True)
class SlalomSurrogate:
    """A SLALOM with any number of heads and columns, with or without a sink.

    Attributes:
        values: (K, n, C).
        importances: (K, n), those of each head summing to ``gamma`` over the units.
        sink_values: (K, C), or None without a sink.
        sink_importances: (K,), or None without a sink.
    """

    values: Tensor
    importances: Tensor
    sink_values: Tensor | None = None
    sink_importances: Tensor | None = None

    def normalise(self, gamma: float = 0.0) -> SlalomSurrogate:
        """The same function with importances that sum to ``gamma`` over the units."""
        shift = (gamma - self.importances.sum(dim=1)) / self.importances.shape[1]
        sink = self.sink_importances
        if sink is not None:
            sink = sink + shift
        return replace(self, importances=self.importances + shift[:, None], sink_importances=sink)

    @property
    def has_sink(self) -> bool:
        """Whether something is always there beside the units."""
        return self.sink_values is not None

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.values.shape[1]

    def slot_values(self) -> Tensor:
        """Values over slots, (K, p, C)."""
        if self.sink_values is None:
            return self.values
        return torch.cat([self.values, self.sink_values[:, None]], dim=1)

    def slot_importances(self) -> Tensor:
        """Importances over slots, (K, p)."""
        if self.sink_importances is None:
            return self.importances
        return torch.cat([self.importances, self.sink_importances[:, None]], dim=1)

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions for rows of counts: zeros delete units, fractions remove softly (Eq. 5).

        Args:
            counts: (m, n).

        Returns:
            (m, C).
        """
        counts = counts.to(self.values)
        if not self.has_sink and bool((counts.sum(dim=1) == 0).any()):
            raise InputError(
                "a row keeps no unit, and this SLALOM has no sink to say what an empty text gives:"
                " keep at least one unit"
            )
        shares = weights(slots(counts, self.has_sink), self.slot_importances())
        return averages(shares, self.slot_values()).sum(dim=1)

    def empty(self) -> Tensor:
        """F(empty), (C,): the sink's value, or 0 without a sink."""
        if self.sink_values is None:
            return self.values.new_zeros(self.values.shape[2])
        return self.sink_values.sum(dim=0)

    def of_column(self, column: int) -> SlalomSurrogate:
        """One column of it, as a function with one output."""
        here = slice(column, column + 1)
        alone = replace(self, values=self.values[:, :, here])
        if self.sink_values is not None:
            alone = replace(alone, sink_values=self.sink_values[:, here])
        return alone

    def cpu(self) -> SlalomSurrogate:
        """The same function on the CPU."""
        given = {name: part for name, part in vars(self).items() if part is not None}
        moved: dict[str, Any] = {name: part.cpu() for name, part in given.items()}
        return SlalomSurrogate(**moved)
