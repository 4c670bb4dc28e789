"""The formula of a SLALOM: a softmax-weighted average of values, over units, heads and a sink.

    F_c(x) = sum_k [ sum_j n_j w_jk v_jkc + w_0k v_0kc ] / [ sum_j n_j w_jk + w_0k ] + o_c(n)

    w = exp(s),   n = sum_j n_j

Unit j occurs n_j times in the row x. Each head k averages the values v under the weights exp(s),
where s are the importances. The sink 0 is always present. The offset o, often 0, depends on nothing
but the number of units kept. One head without a sink and without o is the paper's SLALOM (Eq. 4).

``TwoScores`` is the same for one head whose values were measured. A reader sees its numbers.

The functions here treat the sink as one more **slot** whose count is one. A row is then a vector of
p counts, one per slot, and a head has one value (per column c) and one importance per slot.

This module is the reference. It is written to be read, and it is what predictions and figures use.
Where it would be too slow there are fast forms, each tested against this module in
``tests/unit/test_fast_forms.py``:

* ``mask_rows`` predicts many rows without repeats, for choices and tests;
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
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.interactions import Interactions


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
class TwoScores:
    """What a reader sees of a method that measures values: their average under the importances.

        G(x) = [ sum_j n_j w_j v_j + m(x) w_0 v_0 ] / [ sum_j n_j w_j + m(x) w_0 ],   w = exp(s)

    Here v_j is the model's own answer to the text filled with unit j, and the sink 0 stands for
    what is missing: m(x) is the share of units that the row lacks. Where nothing is missing, as in
    a text filled with one unit, or half with one and half with another, G is the plain average.

    Attributes:
        values: (n, C), measured.
        importances: (n,), fitted, summing to 0.
        sink_value: (C,), fitted.
        sink_importance: (), fitted.
    """

    values: Tensor
    importances: Tensor
    sink_value: Tensor
    sink_importance: Tensor

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.values.shape[0]

    @property
    def average(self) -> SlalomSurrogate:
        """The same where nothing is missing: the paper's SLALOM, without a sink."""
        return SlalomSurrogate(self.values[None], self.importances[None])

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        counts = counts.to(self.values)
        importances = torch.cat([self.importances, self.sink_importance[None]])
        values = torch.cat([self.values, self.sink_value[None]])
        shares = weights(slots(counts, sink=True, of_missing=True), importances[None])
        return averages(shares, values[None])[:, 0]

    def of_column(self, column: int) -> TwoScores:
        """One column of it."""
        here = slice(column, column + 1)
        return replace(self, values=self.values[:, here], sink_value=self.sink_value[here])

    def cpu(self) -> TwoScores:
        """The same function on the CPU."""
        parts: dict[str, Any] = {name: part.cpu() for name, part in vars(self).items()}
        return TwoScores(**parts)


@dataclass(frozen=True)
class SlalomSurrogate:
    """A SLALOM with any number of heads and columns, with or without a sink.

    With ``two_scores``, values and importances are read from these, and the heads correct what
    they predict where units are missing (``predict``).

    Attributes:
        values: (K, n, C).
        importances: (K, n), those of each head summing to ``gamma`` over the units.
        sink_values: (K, C), or None without a sink.
        sink_importances: (K,), or None without a sink.
        length_offsets: (n + 1, C), what is added for the number of units kept. It is 0 for no
            unit and for all units. None adds nothing.
        two_scores: measured values and the importances fitted to them; None where values and
            importances are those of the heads.
        repeats: (n, C), what ``two_scores`` misses of one more copy of each unit; None where
            nobody asked.
        correction: a process that predicts deletions with a share of the heads; None where the
            heads predict alone.
        interactions: pairs of units whose joint effect ``two_scores`` misses; None where none are
            known. They add nothing to predictions, which have them from ``correction``.
    """

    values: Tensor
    importances: Tensor
    sink_values: Tensor | None = None
    sink_importances: Tensor | None = None
    length_offsets: Tensor | None = None
    two_scores: TwoScores | None = None
    repeats: Tensor | None = None
    correction: Correction | None = None
    interactions: Interactions | None = None

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

        With ``two_scores`` G, the heads H, or what corrects them, are for deletions only. A row x
        with repeats is predicted from the row x' that has each unit at most once:

            F(x) = G(x) + r [ H(x') - G(x') + sum_j c_j d_j ],    c_j = 2 (1 - 1/n_j) where n_j > 1

        The correction loses its say as copies take over: r is the share of units after the first
        that are no copies, 1 without repeats and 0 in a text filled with one unit. What one more
        copy of a unit does is d_j (``repeats``); many copies do at most twice that.

        Args:
            counts: (m, n).

        Returns:
            (m, C).
        """
        counts = counts.to(self.values)
        if self.two_scores is None:
            return self._corrected(counts)
        once = counts.clamp(max=1)
        deletions = self._corrected(once)
        kept, distinct = counts.sum(dim=1), once.sum(dim=1)
        repeated = kept > distinct
        if not bool(repeated.any()):
            return deletions
        correction = deletions - self.two_scores.predict(once)
        if self.repeats is not None:
            copies = 2 * (1 - 1 / counts.clamp(min=1))
            correction = correction + copies @ self.repeats
        share = (distinct - 1) / torch.where(repeated, kept - 1, 1.0)
        predicted = self.two_scores.predict(counts) + share[:, None] * correction
        return torch.where(repeated[:, None], predicted, deletions)

    def _corrected(self, counts: Tensor) -> Tensor:
        """What heads and their correction predict for rows of counts, (m, n) -> (m, C)."""
        predicted = self._by_heads(counts)
        if self.correction is None:
            return predicted
        return self.correction.applied(predicted, counts)

    def _by_heads(self, counts: Tensor) -> Tensor:
        """What the heads predict for rows of counts, (m, n) -> (m, C)."""
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

    @property
    def read_from(self) -> SlalomSurrogate:
        """What values and importances are read from: itself, or the average of the two scores."""
        if self.two_scores is None:
            return self
        return self.two_scores.average

    def empty(self) -> Tensor:
        """F(empty), (C,): the sink's value, or 0 without a sink, and what corrects it."""
        by_heads = self.values.new_zeros(self.values.shape[2])
        if self.sink_values is not None:
            by_heads = self.sink_values.sum(dim=0)
        if self.correction is None:
            return by_heads
        return self.correction.applied(by_heads[None], by_heads.new_zeros(1, self.units))[0]

    def of_column(self, column: int) -> SlalomSurrogate:
        """One column of it, as a function with one output."""
        here = slice(column, column + 1)
        alone = replace(self, values=self.values[:, :, here])
        if self.sink_values is not None:
            alone = replace(alone, sink_values=self.sink_values[:, here])
        if self.length_offsets is not None:
            alone = replace(alone, length_offsets=self.length_offsets[:, here])
        if self.two_scores is not None:
            alone = replace(alone, two_scores=self.two_scores.of_column(column))
        if self.repeats is not None:
            alone = replace(alone, repeats=self.repeats[:, here])
        if self.correction is not None:
            alone = replace(alone, correction=self.correction.of_column(column))
        if self.interactions is not None:
            alone = replace(alone, interactions=self.interactions.of_column(column))
        return alone

    def cpu(self) -> SlalomSurrogate:
        """The same function on the CPU."""
        given = {name: part for name, part in vars(self).items() if part is not None}
        moved: dict[str, Any] = {name: part.cpu() for name, part in given.items()}
        return SlalomSurrogate(**moved)
