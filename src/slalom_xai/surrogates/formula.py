"""The formula of a SLALOM: a softmax-weighted average of values, over units, heads and a sink.

    F_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ] + o_c(n)

    w = exp(s),   n = sum_j n_j

Unit j occurs n_j times in the row x. Each head k averages the values v under the weights exp(s),
where s are the importances. The sink 0 is always present. The offset o, often 0, depends on nothing
but the number of units kept. One head without a sink and without o is the paper's SLALOM (Eq. 4).

The main method's formula is another one, ``slalom.formula``; this one is the paper's, and its
theory's.

The functions here treat the sink as one more **slot** whose count is one. A row is then a vector of
p counts, one per slot, and a head has one value (per column c) and one importance per slot.

This module is the reference. It is written to be read, and it is what predictions and figures use.
Where it would be too slow there are fast forms, each tested against this module in
``tests/unit/test_fast_forms.py``:

* ``projection`` predicts all rows of several texts at once, from sums over slots;
* ``count_tables.ShortRows`` sums rows of few units without a table of counts;
* ``curvature`` and ``sandwich`` use the derivatives of the formula;
* ``scores`` has closed forms of single scores and of their derivatives;
* ``exact_shapley`` sums over all subsets by an integral.

Shapes: m rows, n units, p slots, K heads, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError


def slots(counts: Tensor, sink: bool, of_missing: bool = False) -> Tensor:
    """Counts over units (m, n) as counts over slots (m, p): a sink is one more entry, the last.

    Args:
        counts: (m, n).
        sink: whether there is one.
        of_missing: the sink stands for what is missing, and its count is the share of units that
            are; otherwise it is always there, and its count is one.
    """
    if not sink:
        return counts
    last = counts.new_ones(len(counts), 1)
    if of_missing:
        last = (1 - counts.mean(dim=1, keepdim=True)).clamp(min=0)
    return torch.cat([counts, last], dim=1)


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
        length_offsets: (n + 1, C), what is added for the number of units kept. It is 0 for no
            unit and for all units. None adds nothing.
    """

    values: Tensor
    importances: Tensor
    sink_values: Tensor | None = None
    sink_importances: Tensor | None = None
    length_offsets: Tensor | None = None

    def normalised(self, gamma: float = 0.0) -> SlalomSurrogate:
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
        kept = counts.sum(dim=1)
        if not self.has_sink and bool((kept == 0).any()):
            raise InputError(
                "a row keeps no unit, and this SLALOM has no sink to say what an empty text gives:"
                " keep at least one unit"
            )
        shares = weights(slots(counts, self.has_sink), self.slot_importances())
        heads = averages(shares, self.slot_values())
        return heads.sum(dim=1) + self.length_effect(kept)

    def length_effect(self, kept: Tensor) -> Tensor:
        """What the number of units kept adds.

        It is linear between whole numbers. Beyond the whole text it stays what it is there.

        Args:
            kept: (m,).

        Returns:
            (m, C).
        """
        if self.length_offsets is None:
            return self.values.new_zeros(len(kept), self.values.shape[2])
        last = len(self.length_offsets) - 1
        below = kept.clamp(max=last).floor()
        part = (kept.clamp(max=last) - below)[:, None]
        above = (below + 1).clamp(max=last)
        lower = self.length_offsets[below.long()]
        upper = self.length_offsets[above.long()]
        return (1 - part) * lower + part * upper

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
        if self.length_offsets is not None:
            alone = replace(alone, length_offsets=self.length_offsets[:, here])
        return alone

    def cpu(self) -> SlalomSurrogate:
        """The same function on the CPU."""
        given = {name: part for name, part in vars(self).items() if part is not None}
        moved: dict[str, Any] = {name: part.cpu() for name, part in given.items()}
        return SlalomSurrogate(**moved)
