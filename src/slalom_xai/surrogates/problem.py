"""The problem that a fit of a SLALOM solves: what it is asked for, and the same as tensors.

What it has to do: find importances s and values v of K heads over p slots, so that the SLALOM F of
``formula`` follows the model's answers f_i on the rows x_i. With row weights q that sum to one, and
n_v = K p, the objective is

    sum_i q_i |F(x_i) - f_i|^2
        +  prior * Var(f) * |s - m|^2 / n_v
        +  value_prior * prior * |v - mean f|^2 / n_v

The centre m is 0 for units (or their given offsets) and log n for a sink, which competes with all n
units at once. The second term decides between importances that explain the rows equally well. The
third is there so that the values of units that no row tells apart are determined at all.

Why it is not a plain regression: F is linear in v but not in s. ``projection`` makes use of that.

Several things may be added (``Extras``):

* An **anchored** fit compares changes from the first row, the whole text, and passes through it.
* **Length offsets** take up what depends on nothing but the number of units kept: models that
  number their positions answer differently when everything moves up by one. Each offset is shrunk
  by its own ridge and eliminated exactly. That costs next to nothing, since a row has one length.
* An **additive head** has equal importances and a heavy sink. It is nearly linear in the counts and
  takes what no average can.
* **Held** values were measured. A ridge that outweighs all rows keeps them where they are.

Several texts are fitted at once. ``assembly`` pads them to one size: with copies of their first row
that weigh nothing, and with slots that never occur.

A slot is a unit or the sink. Shapes: B texts, m rows, p slots, K heads, C columns (explained
outputs), L possible lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts, Rows
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.settings import FIT_SETTINGS, FitSettings


@dataclass(frozen=True)
class Extras:
    """What a fit has beyond heads and a sink.

    Attributes:
        anchored: compare changes from the first row, the whole text.
        additive: add a head of equal importances with a heavy sink.
        additive_ridge: the ridge on that head's values, as a multiple of the usual one.
        length_penalty: ridge on the offsets by length, for row weights that sum to one. None: the
            fit has no such offsets.
        held: (n, C), measured values of the units. The fit holds them and finds importances and
            a sink, which then stands for what is missing (``formula.TwoScores``). None: values
            are fitted.
    """

    anchored: bool = False
    additive: bool = False
    additive_ridge: float = 1.0
    length_penalty: float | None = None
    held: Tensor | None = None


PLAIN = Extras()


@dataclass(frozen=True)
class FitRequest:
    """All that a fit depends on.

    Attributes:
        counts: (m, n), how often each unit occurs in each row.
        outputs: (m, C), what the model answered.
        row_weights: (m,), positive; equal by default.
        sink: whether a slot that is always present is fitted too.
        prior: ridge on the importances in units of the outputs' variance. A stronger one moves
            importances that rows determine; with a weaker one, those that no row determines run
            off. The default is the weakest of ``Slalom.priors``, so that rows decide where they
            can. Methods choose theirs by held-out rows.
        heads: how many softmax averages are added.
        offsets: (n,), importances to shrink to and to start from; 0 by default.
        extras: an anchor, length offsets, an additive head.
        start: where importances begin; otherwise they begin where they are shrunk to. If it has
            fewer heads than are fitted, they are the first ones.
        max_iterations: steps at most; it bounds the time of fits that creep.
        tolerance: stop when a step lowers the objective by less than this fraction. Halving or
            doubling the default does not show in predictions (see the tests).
        give_up_above: a share of the outputs' variance. A fit that leaves more than this is of no
            use, so it need not be finished: it ends at the first step that lowers the objective by
            less than ``FitSettings.give_up_fall``, which is more than ``tolerance``. None: every
            fit is finished.
        settings: numbers that need no attention.
    """

    counts: Counts
    outputs: Tensor
    row_weights: Tensor | None = None
    sink: bool = True
    prior: float = 1e-3
    heads: int = 1
    offsets: Tensor | None = None
    extras: Extras = PLAIN
    start: SlalomSurrogate | None = None
    max_iterations: int = 60
    tolerance: float = 1e-7
    give_up_above: float | None = None
    settings: FitSettings = FIT_SETTINGS


@dataclass(frozen=True)
class Targets:
    """What the model answered.

    Attributes:
        outputs: (B, m, C).
        mean: (B, C), weighted over rows.
        variance: (B,), weighted over rows, all columns together.
    """

    outputs: Tensor
    mean: Tensor
    variance: Tensor


@dataclass(frozen=True)
class Padding:
    """Which slots belong to a text, and which only fill it up to the size of the largest.

    Attributes:
        sizes: (B,), how many slots belong to the text.
        real: (B, p), 1 where a slot belongs to the text, 0 where it is padding.
    """

    sizes: Tensor
    real: Tensor

    def pairs(self) -> Tensor:
        """1 where both slots belong to the text, (B, p, p)."""
        return self.real[:, :, None] * self.real[:, None]


@dataclass(frozen=True)
class Penalties:
    """The ridges of the objective.

    Attributes:
        importance_centre: (B, K, p), what importances shrink to.
        importance: (B,), the ridge on them.
        value_centre: (B, K, p, C), what values shrink to. Heads add, so each takes its part of
            the mean output; an additive head takes none.
        value: (B, K, p), the ridge on them.
    """

    importance_centre: Tensor
    importance: Tensor
    value_centre: Tensor
    value: Tensor


@dataclass(frozen=True)
class LengthOffsets:
    """Offsets by the number of units kept, eliminated from the problem.

    Minimised over an offset o of one length with ridge r, ``sum q_i (e_i + o)^2 + r o^2`` gives
    ``o = - sum q_i e_i / (sum q_i + r)``.

    Attributes:
        of_row: (B, m), how many units each row keeps.
        shrink: (B, L), ``1 / (sum q_i + r)`` for each length.
    """

    of_row: Tensor
    shrink: Tensor

    def sums(self, of_rows: Tensor) -> Tensor:
        """Sums over the rows of each length, (B, m, k) -> (B, L, k)."""
        index = self.of_row[..., None].expand(-1, -1, of_rows.shape[2])
        nothing = of_rows.new_zeros(len(of_rows), self.shrink.shape[1], of_rows.shape[2])
        return nothing.scatter_add_(1, index, of_rows)

    def spread(self, offsets: Tensor) -> Tensor:
        """The offset of each row, (B, L, k) -> (B, m, k)."""
        return offsets.gather(1, self.of_row[..., None].expand(-1, -1, offsets.shape[2]))


@dataclass(frozen=True)
class Problem:
    """What stays fixed during the fits of B texts.

    Attributes:
        rows: counts, (B, m, p).
        row_weights: (B, m), summing to one for each text.
        targets: what the model gave.
        penalties: the ridges.
        padding: which slots are real.
        free_heads: heads whose importances are fitted. An additive head comes after them.
        anchored: whether changes from the first row are compared.
        lengths: offsets by length, or None.
        least_left: see ``FitSettings``.
        sink_of_missing: whether the sink stands for what is missing.
    """

    rows: Rows
    row_weights: Tensor
    targets: Targets
    penalties: Penalties
    padding: Padding
    free_heads: int
    anchored: bool
    lengths: LengthOffsets | None
    least_left: float
    sink_of_missing: bool = False

    def from_anchor(self, of_rows: Tensor) -> Tensor:
        """Something by row, (B, m, k), as differences from the first row in anchored fits."""
        if not self.anchored:
            return of_rows
        return of_rows - of_rows[:, :1]

    def length_part(self, of_rows: Tensor) -> Tensor:
        """What the offset of each length would take of something by row: (B, m, k) -> (B, L, k)."""
        assert self.lengths is not None
        sums = self.lengths.sums(self.row_weights[..., None] * of_rows)
        return self.lengths.shrink[..., None] * sums

    def beyond_length(self, of_rows: Tensor) -> Tensor:
        """Something by row, (B, m, k), less what the offsets by length take of it."""
        if self.lengths is None:
            return of_rows
        return of_rows - self.lengths.spread(self.length_part(of_rows))

    def pull(self, residuals: Tensor) -> Tensor:
        """Half the derivative of the objective by each prediction.

        Args:
            residuals: (B, m, k), from the anchor.

        Returns:
            (B, m, k). The anchor is in every residual, so its row collects them all.
        """
        weighed = self.row_weights[..., None] * self.beyond_length(residuals)
        if self.anchored:
            weighed[:, 0] -= weighed.sum(dim=1)
        return weighed
