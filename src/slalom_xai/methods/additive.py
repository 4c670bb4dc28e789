"""Additive surrogates: one score per unit, which is taken away when the unit is.

What it has to do: regress the changes ``f(all) - f(row)`` on what each row removed. The scores phi
solve

    min over phi of   sum_i q_i | f(all) - f(x_i) - (1 - n_i)' phi |^2  +  ridge * level * |phi|^2

where q are row weights, n_i the counts of row i and level the mean diagonal of the Gram matrix. No
intercept: the fit passes through the whole text. Cross-validation chooses the ridge.

Why it is done this way: the Gram matrix of removals R = 1 - N follows from products of the counts,
with which rows of few units are fast (``counts``):

    R' Q R  =  q 1 1' - a 1' - 1 a' + N' Q N,        a = N' Q 1,   q = sum_i q_i

A fold is left out by subtracting its products, so no regression reads the rows again.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.methods.counts import Counts, Rows, rows_of, table_of


@dataclass(frozen=True)
class RidgeSettings:
    """Constants of the regression.

    Attributes:
        ridges: penalties that cross-validation chooses from, relative to the mean diagonal of the
            Gram matrix: from nearly none to as strong as the rows, in steps of ten.
        least_ridge: added to each, absolute: keeps a matrix of zeros definite.
        folds: of the cross-validation.
        one_fold_from: units. In longer texts one fold alone chooses, because each takes a
            factorisation of an (n, n) matrix for every ridge.
        together_up_to: units. Up to so many, all ridges are solved as one batch. Beyond, the
            copies of the matrix take more memory than the batch saves time.
        most_leverage: residuals are divided by 1 - leverage; a row that is fitted almost alone
            would make this zero.
    """

    ridges: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    least_ridge: float = 1e-12
    folds: int = 5
    one_fold_from: int = 1_000
    together_up_to: int = 500
    most_leverage: float = 0.99


RIDGE_REGRESSION = RidgeSettings()


@dataclass(frozen=True)
class AdditiveSurrogate:
    """``F(x) = f(all) - sum of the scores of what x leaves out``.

    Attributes:
        unit_scores: (n, C).
        full: (C,), the model's own output on the whole text.
    """

    unit_scores: Tensor
    full: Tensor

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.unit_scores.shape[0]

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        return self.full - (1 - counts.to(self.unit_scores)) @ self.unit_scores

    def empty(self) -> Tensor:
        """F(empty), (C,)."""
        return self.full - self.unit_scores.sum(dim=0)

    def cpu(self) -> AdditiveSurrogate:
        """The same function on the CPU."""
        return AdditiveSurrogate(self.unit_scores.cpu(), self.full.cpu())


@dataclass(frozen=True)
class AdditiveFit:
    """A ridge regression of changes on removals.

    Attributes:
        surrogate: the fitted scores.
        ridge: the penalty that cross-validation chose, relative to the mean diagonal.
        counts: (m, n), the rows.
        outputs: (m, C), what the model answered.
        row_weights: (m,), as used, summing to one.
        factor: (n, n), the Cholesky factor of the penalised Gram matrix.
        whole_variance: (C,), of the output on the whole text, where the model is noisy.
        settings: as given.
    """

    surrogate: AdditiveSurrogate
    ridge: float
    counts: Counts
    outputs: Tensor
    row_weights: Tensor
    factor: Tensor
    whole_variance: Tensor | None = None
    settings: RidgeSettings = RIDGE_REGRESSION

    @functools.cached_property
    def _pull(self) -> Tensor:
        """(m, n): how far the scores move with one more in a row's change."""
        removed = 1 - table_of(self.counts)
        return self.row_weights[:, None] * (removed @ torch.cholesky_inverse(self.factor))

    @functools.cached_property
    def left_out(self) -> Tensor:
        """(m, C), what is predicted for each row, had it not been used; the penalty as it is."""
        counts = table_of(self.counts)
        leverage = (self._pull * (1 - counts)).sum(dim=1).clamp(max=self.settings.most_leverage)
        residuals = self.surrogate.predict(counts) - self.outputs
        return self.outputs + residuals / (1 - leverage)[:, None]

    @functools.cached_property
    def standard_errors(self) -> Tensor:
        """(n, C), from a sandwich covariance with residuals widened by their leverage."""
        variance = (self._pull**2).T @ (self.left_out - self.outputs) ** 2
        if self.whole_variance is not None:  # every change is measured from the whole text
            variance = variance + self._pull.sum(dim=0)[:, None] ** 2 * self.whole_variance
        return variance.sqrt()


@dataclass(frozen=True)
class _Products:
    """Weighted products of what rows removed.

    Attributes:
        gram: R'QR, (n, n).
        target: R'Q times the changes, (n, C).
        kept: (n,), weighted squares of the counts; 0 where no row keeps a unit.
    """

    gram: Tensor
    target: Tensor
    kept: Tensor

    @classmethod
    def of(cls, rows: Rows, changes: Tensor, row_weights: Tensor) -> _Products:
        """Of rows with changes (m, C) and weights (m,)."""
        weighed = torch.cat([row_weights[:, None], row_weights[:, None] * changes], dim=1)
        sums = rows.transposed_matmul(weighed[None])[0]  # (n, 1 + C)
        total = weighed.sum(dim=0)  # (1 + C,)
        kept, gram = sums[:, 0], rows.gram(row_weights[None, None])[0, 0]
        removed = gram + (total[0] - kept - kept[:, None])
        return cls(removed, total[1:] - sums[:, 1:], gram.diagonal())

    @classmethod
    def from_folds(cls, parts: Sequence[_Products]) -> _Products:
        """Of all rows, from those of folds."""
        first = parts[0]
        gram, target, kept = first.gram, first.target, first.kept
        for part in parts[1:]:
            gram, target, kept = gram + part.gram, target + part.target, kept + part.kept
        return cls(gram, target, kept)


@dataclass(frozen=True)
class _Fold:
    """The rows of one fold, their changes (m, C) and weights (m,), and their products."""

    rows: Rows
    changes: Tensor
    row_weights: Tensor
    products: _Products


def fit_additive(
    counts: Counts,
    outputs: Tensor,
    full: Tensor,
    weights: Tensor | None = None,
    settings: RidgeSettings = RIDGE_REGRESSION,
) -> AdditiveFit:
    """Ridge regression of ``f(all) - f(row)`` on what each row removed, without an intercept.

    Args:
        counts: (m, n) counts kept in each row, in random order.
        outputs: (m, C) model outputs.
        full: (C,) output on the whole text, through which the fit passes exactly.
        weights: (m,) row weights; equal by default.
        settings: numbers that need no attention. The penalty minimises the weighted error over
            the folds; in long texts over one of them.
    """
    row_weights = torch.ones_like(outputs[:, 0]) if weights is None else weights
    row_weights = row_weights / row_weights.sum()
    parts = _folds(counts, full - outputs, row_weights, settings.folds)
    products = _Products.from_folds([part.products for part in parts])
    ridge = _best_ridge(parts, products, settings)
    gram = products.gram
    penalty = ridge * gram.diagonal().mean() + settings.least_ridge
    factor = torch.linalg.cholesky(gram + torch.diag_embed(penalty.expand(len(gram))))
    return AdditiveFit(
        surrogate=AdditiveSurrogate(torch.cholesky_solve(products.target, factor), full),
        ridge=ridge,
        counts=counts,
        outputs=outputs,
        row_weights=row_weights,
        factor=factor,
        settings=settings,
    )


def _folds(counts: Counts, changes: Tensor, row_weights: Tensor, folds: int) -> list[_Fold]:
    """Every so many-th row is one fold."""
    folds = max(1, min(folds, len(counts)))
    parts = []
    for k in range(folds):
        some = slice(k, None, folds)
        rows = rows_of(counts[some])
        products = _Products.of(rows, changes[some], row_weights[some])
        parts.append(_Fold(rows, changes[some], row_weights[some], products))
    return parts


def _best_ridge(folds: list[_Fold], whole: _Products, settings: RidgeSettings) -> float:
    """The ridge with the least error on folds that were left out."""
    ridges = settings.ridges
    if len(folds) == 1:
        return ridges[0]
    units, columns = whole.target.shape
    tested = folds if units <= settings.one_fold_from else folds[:1]
    errors = whole.target.new_zeros(len(ridges))
    for fold in tested:
        left_out = fold.products
        gram, target = whole.gram - left_out.gram, whole.target - left_out.target
        scores = _solutions(gram, target, whole.kept == 0, settings)  # (ridges, n, C)
        kept = fold.rows.matmul(scores.movedim(0, 1).flatten(1)[None])[0]
        kept = kept.reshape(-1, len(ridges), columns)  # (m, ridges, C)
        removed = scores.sum(dim=1) - kept
        missed = (fold.changes[:, None] - removed) ** 2
        errors += fold.row_weights @ missed.sum(dim=2)
    return ridges[int(errors.argmin())]


def _solutions(gram: Tensor, target: Tensor, never: Tensor, settings: RidgeSettings) -> Tensor:
    """Scores (ridges, n, C) under each penalty.

    Units that no row keeps, such as further occurrences of a word that was asked about once, are
    all alike and have equal scores. One of them, times the square root of their number, stands for
    all of them.

    Args:
        gram: (n, n).
        target: (n, C).
        never: (n,), whether no row keeps the unit.
        settings: the penalties.
    """
    mean_diagonal = gram.diagonal().mean()
    ridges = torch.tensor(settings.ridges, dtype=gram.dtype, device=gram.device)
    penalties = ridges * mean_diagonal + settings.least_ridge
    many = int(never.sum())
    if many < 2:
        return _solved(gram, target, penalties, settings)
    first = int(never.int().argmax())
    stands = ~never
    stands[first] = True
    number = stands.cumsum(dim=0) - 1
    index = torch.where(never, number[first], number)  # (n,), what stands for each unit
    length = torch.where(never, math.sqrt(many), 1.0).to(gram)[stands]
    gram = gram[stands][:, stands] * length * length[:, None]
    solutions = _solved(gram, target[stands] * length[:, None], penalties, settings)
    return (solutions / length[:, None])[:, index]


def _solved(gram: Tensor, target: Tensor, penalties: Tensor, settings: RidgeSettings) -> Tensor:
    """Solutions (ridges, n, C) for each penalty; all at once where the matrices are small."""
    together = len(penalties) if len(gram) <= settings.together_up_to else 1
    solutions = []
    for start in range(0, len(penalties), together):
        some = penalties[start : start + together]
        penalised = gram.repeat(len(some), 1, 1)
        penalised.diagonal(dim1=1, dim2=2).add_(some[:, None])
        factor, _ = torch.linalg.cholesky_ex(penalised)
        solutions.append(torch.cholesky_solve(target.expand(len(some), -1, -1), factor))
    return torch.cat(solutions)


# Sparse pairwise surrogates: a score per unit, and one for each of a few pairs.
#
# With d = 1 - n for counts n,
#
#     F(x) = f(all) - sum_i d_i main_i - sum over pairs of d_i d_j joint_ij.
#
# ``pairs`` finds the few pairs that matter.
#
# Shapes: m rows, n units, C columns (explained outputs), P pairs.


@dataclass(frozen=True)
class PairsSurrogate:
    """``F(x) = f(all) - what x lacks, unit by unit - what it lacks of pairs``.

    A pair counts where both of its units are missing. One more copy of a unit adds the unit's own
    part, as in a linear explanation, and nothing of its pairs.

    Attributes:
        mains: (n, C), what removing each unit alone takes away.
        pairs: (P, 2), the units of each pair, as numbers from 0 on.
        joints: (P, C), what removing both takes away beyond that.
        full: (C,), the model's own output on the whole text.
    """

    mains: Tensor
    pairs: Tensor
    joints: Tensor
    full: Tensor

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.mains.shape[0]

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        missing = 1 - counts.to(self.mains)
        return self.full - missing @ self.mains - self._together(missing) @ self.joints

    def _together(self, missing: Tensor) -> Tensor:
        """How much of both units of each pair is missing, (m, P)."""
        return removed_together(missing.clamp(min=0), self.pairs.long())

    @property
    def unit_scores(self) -> Tensor:
        """The Shapley values, (n, C): each unit's own part and half of what its pairs take."""
        halves = self.joints.repeat(2, 1) / 2
        return self.mains.index_add(0, self.pairs.T.reshape(-1).long(), halves)

    def empty(self) -> Tensor:
        """F(empty), (C,)."""
        return self.full - self.mains.sum(dim=0) - self.joints.sum(dim=0)

    def cpu(self) -> PairsSurrogate:
        """The same function on the CPU."""
        return PairsSurrogate(
            self.mains.cpu(), self.pairs.cpu(), self.joints.cpu(), self.full.cpu()
        )


def removed_together(missing: Tensor, pairs: Tensor) -> Tensor:
    """How much of both units of pairs (P, 2) is missing from rows, (m, P).

    Args:
        missing: (m, n), 1 where a unit is missing.
        pairs: (P, 2), whole numbers.
    """
    return missing[:, pairs[:, 0]] * missing[:, pairs[:, 1]]
