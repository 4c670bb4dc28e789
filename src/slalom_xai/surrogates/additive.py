"""Additive surrogates: one score per unit, taken away when the unit is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


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
        standard_errors: (n, C), from a sandwich covariance with residuals widened by their leverage.
    """

    surrogate: AdditiveSurrogate
    ridge: float
    standard_errors: Tensor


def fit_additive(counts: Tensor, outputs: Tensor, full: Tensor, weights: Tensor | None = None, folds: int = 5) -> AdditiveFit:
    """Ridge regression of ``f(all) - f(row)`` on what each row removed, without an intercept.

    Args:
        counts: (m, n) counts kept in each row, in random order.
        outputs: (m, C) model outputs.
        full: (C,) output on the whole text, through which the fit passes exactly.
        weights: (m,) row weights; equal by default.
        folds: the penalty minimises the weighted error over this many folds.
    """
    removed = 1 - counts
    changes = full - outputs
    row_weights = torch.ones_like(outputs[:, 0]) if weights is None else weights
    row_weights = row_weights / row_weights.sum()
    ridge = _cross_validated_ridge(removed, changes, row_weights, min(folds, len(counts)))
    solver = _ridge_inverse(removed, row_weights, ridge)
    scores = solver @ (removed.T @ (row_weights[:, None] * changes))
    residuals = changes - removed @ scores
    pull = (row_weights[:, None] * removed) @ solver
    leverage = (pull * removed).sum(dim=1).clamp(max=0.99)
    spread = (pull**2).T @ (residuals / (1 - leverage)[:, None]) ** 2
    return AdditiveFit(AdditiveSurrogate(scores, full), ridge, spread.sqrt())


def _ridge_inverse(removed: Tensor, row_weights: Tensor, ridge: float) -> Tensor:
    gram = removed.T @ (row_weights[:, None] * removed)
    gram.diagonal().add_(ridge * gram.diagonal().mean() + 1e-12)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram))


def _cross_validated_ridge(removed: Tensor, changes: Tensor, row_weights: Tensor, folds: int) -> float:
    """The penalty with the least weighted error on left-out folds; one eigenbasis serves all penalties."""
    if folds < 2:
        return RIDGES[0]
    fold = torch.arange(len(removed), device=removed.device) % folds
    errors = torch.zeros(len(RIDGES), dtype=changes.dtype)
    for k in range(folds):
        inside, outside = fold != k, fold == k
        gram = removed[inside].T @ (row_weights[inside, None] * removed[inside])
        target = removed[inside].T @ (row_weights[inside, None] * changes[inside])
        eigenvalues, basis = torch.linalg.eigh(gram)
        rotated, test = basis.T @ target, removed[outside] @ basis
        scale = gram.diagonal().mean()
        for index, ridge in enumerate(RIDGES):
            residuals = changes[outside] - test @ (rotated / (eigenvalues.clamp(min=0) + ridge * scale + 1e-12)[:, None])
            errors[index] += float((row_weights[outside, None] * residuals**2).sum())
    return RIDGES[int(errors.argmin())]
