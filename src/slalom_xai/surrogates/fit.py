"""Fitting a SLALOM: damped Gauss-Newton on values and importances together.

The objective, with row weights q that sum to one and p columns:

    sum_i q_i |F(x_i) - f_i|^2  +  prior * Var(f) |s - m|^2 / p  +  VALUE_PRIOR * prior |v - mean f|^2 / p

where m is 0 for units (or their offsets) and log n for a sink, which competes with all n units at once.

Classes share importances, so given a step in s the values of each class solve the same
linear system: one factor of the value block serves all classes, and what remains is a
Schur complement in s alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.slalom import SlalomSurrogate, averages, columns, importance_jacobian, weights

VALUE_PRIOR = 1e-2
LARGEST_STEP = 3.0


@dataclass(frozen=True)
class Fit:
    """A fitted SLALOM.

    Attributes:
        surrogate: the fitted function, importances summing to 0 over the units.
        residuals: (m, C), prediction minus output on the fitted rows.
        iterations: Gauss-Newton steps taken.
        converged: whether the objective stopped falling before the step limit.
        row_weights: (m,), as used, summing to one.
        prior: the penalty on importances, as given.
    """

    surrogate: SlalomSurrogate
    residuals: Tensor
    iterations: int
    converged: bool
    row_weights: Tensor
    prior: float


@dataclass(frozen=True)
class _Problem:
    """What stays fixed during a fit: counts over columns (m, p), outputs (m, C), weights (m,)."""

    counts: Tensor
    outputs: Tensor
    row_weights: Tensor
    importance_centre: Tensor  # (p,), what importances shrink to
    heads: int
    importance_penalty: float
    value_penalty: float

    @property
    def mean(self) -> Tensor:
        return self.row_weights @ self.outputs

    @property
    def value_centre(self) -> Tensor:
        """What values shrink to, per head: heads add, so each takes its part of the mean."""
        return self.mean / self.heads


@dataclass(frozen=True)
class _State:
    """A point of the search with what the next step needs; P = heads * columns."""

    values: Tensor  # (K, p, C)
    importances: Tensor  # (K, p)
    shares: Tensor  # (m, K, p)
    heads: Tensor  # (m, K, C)
    residuals: Tensor  # (m, C)
    objective: float


def fit_slalom(
    counts: Tensor,
    outputs: Tensor,
    *,
    row_weights: Tensor | None = None,
    sink: bool = True,
    prior: float = 1e-3,
    heads: int = 1,
    offsets: Tensor | None = None,
    start: SlalomSurrogate | None = None,
    max_iterations: int = 60,
    tolerance: float = 1e-7,
) -> Fit:
    """Fits a SLALOM to outputs on rows.

    Args:
        counts: (m, n), how often each unit occurs in each row.
        outputs: (m, C), what the model answered.
        row_weights: (m,), positive; equal by default.
        sink: whether a column that is always present is fitted too.
        prior: ridge on the importances in units of the outputs' variance.
        heads: how many softmax averages are added.
        offsets: (n,), importances to shrink to and to start from; 0 by default.
        start: where to begin; otherwise all importances 0 and values by least squares.
        max_iterations: steps at most.
        tolerance: stop when a step lowers the objective by less than this fraction.
    """
    problem = _problem(counts, outputs, row_weights, sink, prior, heads, offsets)
    state = _initial(problem, start)
    damping, converged, iterations = 1e-2, False, 0
    while not converged and iterations < max_iterations:
        iterations += 1
        moved, damping = _step(problem, state, damping)
        converged = moved is None or state.objective - moved.objective < tolerance * state.objective
        state = moved or state
    surrogate = SlalomSurrogate.from_columns(state.values, state.importances, sink)
    return Fit(surrogate, state.residuals, iterations, converged, problem.row_weights, prior)


def _problem(
    counts: Tensor, outputs: Tensor, row_weights: Tensor | None, sink: bool, prior: float, heads: int, offsets: Tensor | None = None
) -> _Problem:
    row_weights = torch.ones_like(outputs[:, 0]) if row_weights is None else row_weights
    row_weights = row_weights / row_weights.sum()
    mean = row_weights @ outputs
    variance = float((row_weights[:, None] * (outputs - mean) ** 2).sum())
    centre = torch.zeros_like(counts[0]) if offsets is None else offsets - offsets.mean()
    if sink:
        centre = torch.cat([centre, torch.logsumexp(centre, dim=0)[None]])
    size = heads * len(centre)
    # A constant model has no variance but rounding; any large scale then gives equal importances.
    penalty = prior * (variance if variance > 1e-20 * float((outputs**2).mean()) else 1.0) / size
    return _Problem(columns(counts, sink), outputs, row_weights, centre, heads, penalty, VALUE_PRIOR * prior / size)


def _evaluate(problem: _Problem, values: Tensor, importances: Tensor) -> _State:
    shares = weights(problem.counts, importances)
    heads = averages(shares, values)
    residuals = heads.sum(dim=1) - problem.outputs
    objective = (
        (problem.row_weights[:, None] * residuals**2).sum()
        + problem.importance_penalty * ((importances - problem.importance_centre) ** 2).sum()
        + problem.value_penalty * ((values - problem.value_centre) ** 2).sum()
    )
    return _State(values, importances, shares, heads, residuals, float(objective))


def _initial(problem: _Problem, start: SlalomSurrogate | None) -> _State:
    if start is not None:
        return _evaluate(problem, start.column_values(), start.column_importances())
    size, classes = problem.counts.shape[1], problem.outputs.shape[1]
    importances = problem.importance_centre.repeat(problem.heads, 1)
    if problem.heads > 1:  # equal heads would stay equal: a fixed, small tilt parts them
        tilt = torch.linspace(-1, 1, size, dtype=importances.dtype, device=importances.device)
        importances = importances + 0.5 * torch.cos(torch.arange(problem.heads, device=tilt.device)[:, None] * (tilt + 2.0))
    shares = weights(problem.counts, importances).flatten(1)
    gram = shares.T @ (problem.row_weights[:, None] * shares)
    gram.diagonal().add_(1e-4 * gram.diagonal().mean())
    target = shares.T @ (problem.row_weights[:, None] * (problem.outputs - problem.mean))
    values = problem.value_centre + torch.linalg.solve(gram, target).reshape(problem.heads, size, classes)
    return _evaluate(problem, values, importances)


@dataclass(frozen=True)
class _Curvature:
    """Gauss-Newton blocks over P = K p flattened columns, penalties included.

    Attributes:
        value: (P, P), the same for every class.
        cross: (C, P, P), importances by values.
        importance: (P, P), with the direction of a common shift per head held by a unit of curvature.
    """

    value: Tensor
    cross: Tensor
    importance: Tensor


def _curvature(problem: _Problem, state: _State) -> tuple[_Curvature, Tensor]:
    """The blocks, and the importance Jacobian (m, P, C) they were made from."""
    shares = state.shares.flatten(1)
    jacobian = importance_jacobian(state.shares, state.values, state.heads).flatten(1, 2)
    weighted = problem.row_weights[:, None] * shares
    value = shares.T @ weighted
    cross = torch.stack([jacobian[:, :, c].T @ weighted for c in range(jacobian.shape[2])])
    importance = sum(
        (jacobian[:, :, c].T @ (problem.row_weights[:, None] * jacobian[:, :, c]) for c in range(jacobian.shape[2])),
        start=torch.zeros_like(value),
    )
    scale = float(importance.diagonal().mean()) + problem.importance_penalty
    size = problem.counts.shape[1]
    for head in range(problem.heads):
        block = slice(head * size, (head + 1) * size)
        importance[block, block] += scale / size
    value.diagonal().add_(problem.value_penalty)
    importance.diagonal().add_(problem.importance_penalty)
    return _Curvature(value, cross, importance), jacobian


def _step(problem: _Problem, state: _State, damping: float) -> tuple[_State | None, float]:
    """One accepted step and the next damping; no state where no damping helps."""
    curvature, jacobian = _curvature(problem, state)
    weighted = problem.row_weights[:, None] * state.residuals
    value_slope = state.shares.flatten(1).T @ weighted + problem.value_penalty * (state.values - problem.value_centre).flatten(0, 1)
    slope = (
        torch.einsum("mpc,mc->p", jacobian, weighted)
        + problem.importance_penalty * (state.importances - problem.importance_centre).flatten()
    )
    for _ in range(10):
        solution = _solve(curvature, value_slope, slope, damping)
        if solution is not None:
            values = state.values - solution[0].reshape(state.values.shape)
            importances = state.importances - solution[1].reshape(state.importances.shape).clamp(-LARGEST_STEP, LARGEST_STEP)
            moved = _evaluate(problem, values, importances)
            if moved.objective < state.objective:
                return moved, max(damping / 5, 1e-9)
        damping *= 4
    return None, damping


def _solve(curvature: _Curvature, value_slope: Tensor, slope: Tensor, damping: float) -> tuple[Tensor, Tensor] | None:
    """The damped step (P, C) in values and (P,) in importances, or None where the system is not definite."""
    value = curvature.value.clone()
    value.diagonal().mul_(1 + damping)
    factor, failed = torch.linalg.cholesky_ex(value)
    if bool(failed):
        return None
    across = [torch.cholesky_solve(block.T, factor) for block in curvature.cross]
    schur = curvature.importance.clone()
    schur.diagonal().mul_(1 + damping)
    right = slope.clone()
    for c, (block, solved) in enumerate(zip(curvature.cross, across, strict=True)):
        schur = schur - block @ solved
        right = right - solved.T @ value_slope[:, c]
    schur_factor, failed = torch.linalg.cholesky_ex(schur)
    if bool(failed):
        return None
    step = torch.cholesky_solve(right[:, None], schur_factor)[:, 0]
    own = torch.cholesky_solve(value_slope, factor)
    values = torch.stack([own[:, c] - solved @ step for c, solved in enumerate(across)], dim=1)
    return values, step


@dataclass(frozen=True)
class Influence:
    """How each fitted row moved the parameters: the root of a sandwich covariance.

    The covariance of parameters a and b is the sum over rows of the product of their
    influences, so an error of any score needs only the score's derivatives.

    Attributes:
        values: (m, P, C).
        importances: (m, P), with a common shift of all importances projected out over the units.
    """

    values: Tensor
    importances: Tensor


def influence(counts: Tensor, outputs: Tensor, fit: Fit) -> Influence:
    """Row influences at the optimum of ``fit``, widened for the parameters it spent."""
    surrogate = fit.surrogate
    heads = surrogate.values.shape[0]
    problem = _problem(counts, outputs, fit.row_weights, surrogate.has_sink, fit.prior, heads)
    state = _evaluate(problem, surrogate.column_values(), surrogate.column_importances())
    curvature, jacobian = _curvature(problem, state)
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
    scaled = problem.row_weights[:, None] * state.residuals  # (m, C)
    shares = state.shares.flatten(1)
    own = [shares * scaled[:, c : c + 1] for c in range(scaled.shape[1])]
    score = torch.einsum("mpc,mc->mp", jacobian, scaled) - sum(
        (rows @ solved for rows, solved in zip(own, across, strict=True)), start=torch.zeros_like(shares)
    )
    importances = torch.cholesky_solve(score.T, schur_factor).T
    values = torch.stack(
        [torch.cholesky_solve(rows.T, factor).T - importances @ solved.T for rows, solved in zip(own, across, strict=True)], dim=2
    )
    widening = _widening(problem, schur_factor, factor, len(across), len(counts))
    centred = _centred(importances.reshape(len(counts), heads, -1), surrogate.units).flatten(1)
    return Influence(values * widening, centred * widening)


def _widening(problem: _Problem, schur_factor: Tensor, factor: Tensor, classes: int, rows: int) -> float:
    """sqrt(rows / (rows - parameters spent)); a parameter held by its prior is not spent.

    NaN where the parameters use up the rows: residuals then say nothing about errors.
    """
    held = problem.importance_penalty * float(torch.cholesky_inverse(schur_factor).diagonal().sum())
    held += classes * problem.value_penalty * float(torch.cholesky_inverse(factor).diagonal().sum())
    spent = (classes + 1) * factor.shape[0] - problem.heads - held
    equations = rows * classes
    return math.sqrt(equations / (equations - spent)) if equations - spent > 0.5 else math.nan


def _centred(importances: Tensor, units: int) -> Tensor:
    return importances - importances[..., :units].mean(dim=-1, keepdim=True)


def inverse_variance(residuals: Tensor, deleted: Tensor) -> Tensor:
    """Row weights (m,) from a residual variance that is a power of the number deleted.

    The power comes from a line through the log mean squared residuals of equally filled
    groups of rows. It stays within [0, 4], so that far rows never outweigh near ones.
    """
    squared = (residuals**2).sum(dim=1)
    size = torch.log(deleted.to(squared) + 0.5)
    order = size.argsort(stable=True)
    groups = torch.tensor_split(order, min(12, max(2, len(order) // 20)))
    x = torch.stack([size[group].mean() for group in groups])
    y = torch.stack([squared[group].mean() for group in groups]).clamp(min=1e-30).log()
    spread = ((x - x.mean()) ** 2).sum()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / spread) if float(spread) > 1e-12 else 0.0
    raw = torch.exp(-min(max(slope, 0.0), 4.0) * size)
    return raw / raw.mean()
