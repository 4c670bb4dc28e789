"""How each row moved a fit: the root of a sandwich covariance, and the weights that rows deserve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.gauss_newton import Problem, curvature_of, derivatives_at, evaluate, make_problem

MISFIT = 1.1  # residuals are misfit more than noise, and weights are estimated: errors found are larger than the sandwich's by about this
EVENNESS = 0.8  # rows are weighted by this power of their inverse variance: few deletions count for much, many are not forgotten


@dataclass(frozen=True)
class Influence:
    """How each fitted row moved the parameters: the root of a sandwich covariance.

    The covariance of parameters a and b is the sum over rows of the product of their
    influences, so an error of any score needs only the score's derivatives.

    Attributes:
        values: (m, P, C).
        importances: (m, P), with a common shift of all importances projected out over the units; 0 for an additive head.
    """

    values: Tensor
    importances: Tensor


def influence(counts: Tensor, outputs: Tensor, fit: Fit) -> Influence:
    """Row influences at the optimum of ``fit``, widened for the parameters it spent."""
    surrogate = fit.surrogate
    heads = len(surrogate.values) - fit.extras.additive
    problem = make_problem(counts, outputs, fit.row_weights, surrogate.has_sink, fit.prior, heads, None, fit.extras)
    state = evaluate(problem, surrogate.column_values(), surrogate.column_importances())
    derivatives = derivatives_at(problem, state)
    curvature = curvature_of(problem, derivatives)
    factor = torch.linalg.cholesky(curvature.value)
    across = [torch.cholesky_solve(block.T, factor) for block in curvature.cross]
    schur = curvature.importance - sum(
        (block @ solved for block, solved in zip(curvature.cross, across, strict=True)), start=torch.zeros_like(curvature.importance)
    )
    schur.diagonal().add_(1e-12 * schur.diagonal().mean().abs())
    schur_factor, failed = torch.linalg.cholesky_ex(schur)
    if bool(failed):
        schur.diagonal().add_(1e-8 * schur.diagonal().mean().abs() + 1e-300)
        schur_factor = torch.linalg.cholesky(schur)
    scaled = problem.row_weights[:, None] * problem.beyond_length(state.residuals)  # (m, C)
    shares = problem.beyond_length(derivatives.values)
    own = [shares * scaled[:, c : c + 1] for c in range(scaled.shape[1])]
    score = sum(
        (problem.beyond_length(j) * scaled[:, c : c + 1] for c, j in enumerate(derivatives.importances)),
        start=torch.zeros_like(derivatives.importances[0]),
    ) - sum((rows @ solved for rows, solved in zip(own, across, strict=True)), start=torch.zeros_like(derivatives.importances[0]))
    importances = torch.cholesky_solve(score.T, schur_factor).T
    values = torch.stack(
        [torch.cholesky_solve(rows.T, factor).T - importances @ solved.T for rows, solved in zip(own, across, strict=True)], dim=2
    )
    widening = _widening(problem, schur_factor, factor, len(across), len(counts))
    centred = _centred(importances.reshape(len(counts), heads, -1), surrogate.units).flatten(1)
    if fit.extras.additive:
        centred = torch.cat([centred, torch.zeros_like(problem.counts)], dim=1)
    return Influence(values * widening, centred * widening)


def _widening(problem: Problem, schur_factor: Tensor, factor: Tensor, classes: int, rows: int) -> float:
    """sqrt(rows / (rows - parameters spent)); a parameter held by its prior is not spent.

    NaN where the parameters use up the rows: residuals then say nothing about errors.
    """
    size = problem.counts.shape[1]
    held = problem.importance_penalty * float(torch.cholesky_inverse(schur_factor).diagonal().sum())
    penalties = problem.value_penalty.expand(-1, size, 1).flatten()
    held += classes * float((penalties * torch.cholesky_inverse(factor).diagonal()).sum())
    spent = classes * factor.shape[0] + schur_factor.shape[0] - problem.free - held
    if problem.length is not None and problem.shrink is not None:
        spent += classes * float((problem.shrink[problem.length] * problem.row_weights).sum())
    equations = rows * classes
    return MISFIT * math.sqrt(equations / (equations - spent)) if equations - spent > 0.5 else math.nan


def _centred(importances: Tensor, units: int) -> Tensor:
    return importances - importances[..., :units].mean(dim=-1, keepdim=True)


def inverse_variance(residuals: Tensor, deleted: Tensor) -> Tensor:
    """Row weights (m,) from how residuals grow with the number deleted.

    The log mean squared residuals of equally filled groups of rows are followed by a parabola in the log of the number deleted,
    within the range of the groups.
    """
    squared = (residuals**2).sum(dim=1)
    size = torch.log(deleted.to(squared) + 0.5)
    groups = torch.tensor_split(size.argsort(stable=True), min(12, max(2, len(size) // 20)))
    x = torch.stack([size[group].mean() for group in groups])
    y = torch.stack([squared[group].mean() for group in groups]).clamp(min=1e-30).log()
    powers = min(3, len(groups))
    design = torch.stack([x**power for power in range(powers)], dim=1)
    gram = design.T @ design
    gram.diagonal().add_(1e-9 * gram.diagonal().mean())
    curve = torch.linalg.solve(gram, design.T @ y)
    level = sum((curve[power] * size**power for power in range(powers)), start=torch.zeros_like(size)).clamp(y.min(), y.max())
    raw = torch.exp(-EVENNESS * level)
    return raw / raw.mean()


def length_penalty(fit: Fit, counts: Tensor) -> float:
    """The ridge on length offsets that their own spread calls for, from the residuals of a fit without or with them.

    With row weights that sum to one and residuals of mean weighted square s2, the mean residual of rows of one length varies by
    s2 / (m Q) by chance, Q being their weight together; what it varies beyond that is the variance of the offsets.
    """
    residuals, weight = fit.residuals, fit.row_weights
    length = counts.sum(dim=1).round().long()
    if fit.surrogate.length_offsets is not None:
        residuals = residuals - fit.surrogate.length_offsets[length]
    many = counts.shape[1] + 1
    total = torch.zeros(many, dtype=weight.dtype, device=weight.device).index_add_(0, length, weight)
    sums = residuals.new_zeros(many, residuals.shape[1]).index_add_(0, length, weight[:, None] * residuals)
    total[[0, -1]] = 0.0
    seen = total > 0
    if not bool(seen.any()):
        return math.inf
    chance = float((weight[:, None] * residuals**2).sum()) / residuals.shape[1] / len(weight)  # s2 / m
    mean = sums[seen] / total[seen, None]
    by_chance = chance / total[seen]
    certainty = 1 / (by_chance + by_chance.median()) ** 2
    spread = float((certainty * ((mean**2).mean(dim=1) - by_chance)).sum() / certainty.sum())
    return chance / spread if spread > 0 else math.inf
