"""The formula: a softmax-weighted average of values, over units, heads and a sink.

    F_c(x) = sum_k [ sum_j n_j w_jk v_jck + w_0k v_0ck ] / [ sum_j n_j w_jk + w_0k ] + o_c(sum_j n_j),   w = exp(s)

Units j occur n_j times in the row x; each head k averages their values v under weights
exp(s); the sink 0 is always present; o, often 0, depends on the number of units kept alone.
One head without a sink and without o is the paper's SLALOM (Eq. 4).

The functions here treat the sink as one more *column* whose count is one, so a row is a
vector of counts over columns, and a head has one value and one importance per column.
Fits, scores and plots all go through this module.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError


def columns(counts: Tensor, sink: bool) -> Tensor:
    """Counts over units (m, n) to counts over columns: with a sink, a last column of ones."""
    if not sink:
        return counts
    return torch.cat([counts, counts.new_ones(len(counts), 1)], dim=1)


def weights(counts: Tensor, importances: Tensor) -> Tensor:
    """The share of each column in each row: (m, p) counts, (K, p) importances -> (m, K, p).

    The shares of a row sum to one per head; a row whose counts are all zero gives NaN.
    """
    raw = counts[:, None, :] * torch.exp(importances - importances.amax(dim=1, keepdim=True))
    return raw / raw.sum(dim=2, keepdim=True)


def averages(shares: Tensor, values: Tensor) -> Tensor:
    """Each head's prediction: (m, K, p) shares, (K, p, C) values -> (m, K, C)."""
    return torch.einsum("mkp,kpc->mkc", shares, values)


def importance_jacobian(shares: Tensor, values: Tensor, heads: Tensor) -> Tensor:
    """Derivative of the prediction by the importances, (m, K, p, C).

    ``dF_c / ds_jk = a_jk (v_jck - F_kc)``; the derivative by the values is ``shares`` itself.
    """
    return shares[..., None] * (values[None] - heads[:, :, None, :])


@dataclass(frozen=True)
class SlalomSurrogate:
    """A SLALOM with any number of heads and classes, with or without a sink.

    Attributes:
        values: (K, n, C).
        importances: (K, n), each head's summing to ``gamma`` over the units.
        sink_values: (K, C), or None without a sink.
        sink_importances: (K,), or None without a sink.
        length_offsets: (n + 1, C), what is added for the number of units kept; 0 for none and for all. None: nothing is.
        nearest: the one-head SLALOM nearest to this one over the rows it was fitted to, where this has several heads.
    """

    values: Tensor
    importances: Tensor
    sink_values: Tensor | None = None
    sink_importances: Tensor | None = None
    length_offsets: Tensor | None = None
    nearest: SlalomSurrogate | None = None

    @classmethod
    def from_columns(
        cls, values: Tensor, importances: Tensor, sink: bool, gamma: float = 0.0
    ) -> SlalomSurrogate:
        """From values (K, p, C) and importances (K, p) over columns, shifted to sum to ``gamma``."""
        if not sink:
            return cls(values, importances).normalised(gamma)
        return cls(
            values[:, :-1], importances[:, :-1], values[:, -1], importances[:, -1]
        ).normalised(gamma)

    def normalised(self, gamma: float = 0.0) -> SlalomSurrogate:
        """The same function with importances that sum to ``gamma`` over the units."""
        shift = (gamma - self.importances.sum(dim=1)) / self.importances.shape[1]
        sink = None if self.sink_importances is None else self.sink_importances + shift
        return replace(self, importances=self.importances + shift[:, None], sink_importances=sink)

    @property
    def has_sink(self) -> bool:
        """Whether something is always there beside the units."""
        return self.sink_values is not None

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.values.shape[1]

    def column_values(self) -> Tensor:
        """Values over columns, (K, p, C)."""
        if self.sink_values is None:
            return self.values
        return torch.cat([self.values, self.sink_values[:, None]], dim=1)

    def column_importances(self) -> Tensor:
        """Importances over columns, (K, p)."""
        if self.sink_importances is None:
            return self.importances
        return torch.cat([self.importances, self.sink_importances[:, None]], dim=1)

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n): zeros delete, fractions remove softly (Eq. 5)."""
        counts = counts.to(self.values)
        if not self.has_sink and bool((counts.sum(dim=1) == 0).any()):
            raise InputError(
                "a row keeps no unit, and this SLALOM has no sink to say what an empty text gives: keep at least one unit"
            )
        shares = weights(columns(counts, self.has_sink), self.column_importances())
        return averages(shares, self.column_values()).sum(dim=1) + self.length_effect(
            counts.sum(dim=1)
        )

    def length_effect(self, kept: Tensor) -> Tensor:
        """What the number of units kept (m,) adds, (m, C): linear between whole numbers, and as for the whole text beyond it."""
        if self.length_offsets is None:
            return self.values.new_zeros(len(kept), self.values.shape[2])
        last = len(self.length_offsets) - 1
        below = kept.clamp(max=last).floor()
        part = (kept.clamp(max=last) - below)[:, None]
        above = (below + 1).clamp(max=last)
        return (1 - part) * self.length_offsets[below.long()] + part * self.length_offsets[
            above.long()
        ]

    @property
    def one_head(self) -> SlalomSurrogate:
        """Itself, or the nearest with one head: what values and importances are read from."""
        return self if self.nearest is None else self.nearest

    def empty(self) -> Tensor:
        """F(empty), (C,): the sink's value, or 0 without a sink."""
        if self.sink_values is None:
            return self.values.new_zeros(self.values.shape[2])
        return self.sink_values.sum(dim=0)

    def of_class(self, column: int) -> SlalomSurrogate:
        """One class of it, as a function with one output."""
        here = slice(column, column + 1)
        sink = None if self.sink_values is None else self.sink_values[:, here]
        lengths = None if self.length_offsets is None else self.length_offsets[:, here]
        nearest = None if self.nearest is None else self.nearest.of_class(column)
        return SlalomSurrogate(
            self.values[:, :, here], self.importances, sink, self.sink_importances, lengths, nearest
        )

    def cpu(self) -> SlalomSurrogate:
        """The same function on the CPU."""
        moved: dict[str, Any] = {
            name: None if entry is None else entry.cpu() for name, entry in vars(self).items()
        }
        return SlalomSurrogate(**moved)
