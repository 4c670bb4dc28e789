"""Additive surrogates: one score per unit, taken away when the unit is."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts, Rows, rows_of_one, table_of

RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
LONG = 1_000  # units from which a penalty is chosen by one fold alone: each takes a factor of a matrix of that size


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
        factor: (n, n), of the penalised Gram matrix.
        whole_variance: (C,), of the output on the whole text, where the model is noisy.
    """

    surrogate: AdditiveSurrogate
    ridge: float
    counts: Counts
    outputs: Tensor
    row_weights: Tensor
    factor: Tensor
    whole_variance: Tensor | None = None

    @functools.cached_property
    def standard_errors(self) -> Tensor:
        """(n, C), from a sandwich covariance with residuals widened by their leverage."""
        counts = table_of(self.counts)
        removed = 1 - counts
        residuals = self.surrogate.predict(counts) - self.outputs
        pull = self.row_weights[:, None] * (removed @ torch.cholesky_inverse(self.factor))
        leverage = (pull * removed).sum(dim=1).clamp(max=0.99)
        variance = (pull**2).T @ (residuals / (1 - leverage)[:, None]) ** 2
        if self.whole_variance is not None:  # every change is measured from the whole text
            variance = variance + pull.sum(dim=0)[:, None] ** 2 * self.whole_variance
        return variance.sqrt()


def fit_additive(
    counts: Counts, outputs: Tensor, full: Tensor, weights: Tensor | None = None, folds: int = 5
) -> AdditiveFit:
    """Ridge regression of ``f(all) - f(row)`` on what each row removed, without an intercept.

    Args:
        counts: (m, n) counts kept in each row, in random order.
        outputs: (m, C) model outputs.
        full: (C,) output on the whole text, through which the fit passes exactly.
        weights: (m,) row weights; equal by default.
        folds: the penalty minimises the weighted error over this many folds; in long texts over one of them.
    """
    row_weights = torch.ones_like(outputs[:, 0]) if weights is None else weights
    row_weights = row_weights / row_weights.sum()
    changes = full - outputs
    folds = max(1, min(folds, len(counts)))
    rows = [rows_of_one(counts[k::folds]) for k in range(folds)]
    parts = [_products(rows[k], changes[k::folds], row_weights[k::folds]) for k in range(folds)]
    gram, target, kept = (
        functools.reduce(torch.add, of_folds) for of_folds in zip(*parts, strict=True)
    )
    ridge = RIDGES[0]
    if folds > 1:
        errors = torch.zeros(len(RIDGES), dtype=changes.dtype, device=changes.device)
        for k in range(folds if counts.shape[1] <= LONG else 1):
            solutions = _solutions(gram - parts[k][0], target - parts[k][1], kept == 0)
            present = (
                rows[k]
                .matmul(solutions.movedim(0, 1).flatten(1)[None])[0]
                .reshape(-1, len(RIDGES), target.shape[1])
            )  # (m, ridges, C)
            missed = (changes[k::folds, None] - (solutions.sum(dim=1) - present)) ** 2
            errors += row_weights[k::folds] @ missed.sum(dim=2)
        ridge = RIDGES[int(errors.argmin())]
    gram = gram + torch.diag_embed((ridge * gram.diagonal().mean() + 1e-12).expand(len(gram)))
    factor = torch.linalg.cholesky(gram)
    return AdditiveFit(
        AdditiveSurrogate(torch.cholesky_solve(target, factor), full),
        ridge,
        counts,
        outputs,
        row_weights,
        factor,
    )


def _products(rows: Rows, changes: Tensor, row_weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weighted products of what rows removed, with each other (n, n) and with the changes (n, C); of each column of counts, (n,).

    In counts N, with which rows of few units are fast, they are ``(1 - N)' Q (1 - N) = q 1 1' - a 1' - 1 a' + N' Q N``, ``a = N' Q 1``.
    """
    weighed = torch.cat([row_weights[:, None], row_weights[:, None] * changes], dim=1)
    sums, total = rows.transposed_matmul(weighed[None])[0], weighed.sum(dim=0)
    kept, gram = sums[:, 0], rows.gram(row_weights[None])[0]
    return gram + (total[0] - kept - kept[:, None]), total[1:] - sums[:, 1:], gram.diagonal()


def _solutions(gram: Tensor, target: Tensor, never: Tensor) -> Tensor:
    """Scores (ridges, n, C) under each penalty; all at once where the matrices are small.

    Units that no row keeps (n,), such as further occurrences of a word that was asked about once, are all alike and have equal scores:
    one column of their joint length stands for them.
    """
    level = gram.diagonal().mean()
    many = int(never.sum())
    if many > 1:
        first = int(never.int().argmax())
        stands = ~never
        stands[first] = True
        number = stands.cumsum(dim=0) - 1
        column = torch.where(never, number[first], number)  # of each unit
        length = torch.where(never, math.sqrt(many), 1.0).to(gram)[stands]
        gram, target = (
            gram[stands][:, stands] * length * length[:, None],
            target[stands] * length[:, None],
        )
    penalties = torch.tensor(RIDGES, dtype=gram.dtype, device=gram.device) * level + 1e-12
    together = len(RIDGES) if len(gram) <= LONG // 2 else 1
    found = []
    for start in range(0, len(RIDGES), together):
        some = penalties[start : start + together]
        penalised = gram.repeat(len(some), 1, 1)
        penalised.diagonal(dim1=1, dim2=2).add_(some[:, None])
        factor, _ = torch.linalg.cholesky_ex(penalised)
        found.append(torch.cholesky_solve(target.expand(len(some), -1, -1), factor))
    solutions = torch.cat(found)
    return solutions if many < 2 else (solutions / length[:, None])[:, column]
