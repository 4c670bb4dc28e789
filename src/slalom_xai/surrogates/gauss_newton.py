"""Gauss-Newton on values and importances together: the problem, its curvature and one damped step.

Classes share importances, so given a step in s the values of each class solve the same linear system: one factor of the value block
serves all classes, and what remains is a Schur complement in s alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.slalom import averages, columns, importance_jacobian, weights

VALUE_PRIOR = 1e-3
LARGEST_STEP = 3.0
ADDITIVE_SINK = 10.0  # the additive head's sink outweighs all units together by this


@dataclass(frozen=True)
class Extras:
    """What a fit has beyond heads and a sink.

    Attributes:
        anchored: compare changes from the first row, the whole text.
        additive: add a head of equal importances with a heavy sink.
        length_penalty: ridge on the offsets by length, for row weights that sum to one; None: no such offsets.
    """

    anchored: bool = False
    additive: bool = False
    length_penalty: float | None = None


PLAIN = Extras()


@dataclass(frozen=True)
class Problem:
    """What stays fixed during a fit: counts over columns (m, p), outputs (m, C), weights (m,)."""

    counts: Tensor
    outputs: Tensor
    row_weights: Tensor
    importance_centre: Tensor  # (K, p), what importances shrink to
    free: int  # heads whose importances are fitted; an additive head comes after them
    importance_penalty: float
    value_penalty: Tensor  # (K, 1, 1)
    anchored: bool
    length: Tensor | None  # (m,), how many units each row keeps
    shrink: Tensor | None  # (n + 1,), what a sum of weighted residuals of one length is multiplied by to give the offset

    @property
    def mean(self) -> Tensor:
        """The weighted mean of the outputs, (C,)."""
        return self.row_weights @ self.outputs

    @property
    def value_centre(self) -> Tensor:
        """What values shrink to, (K, 1, C): heads add, so each takes its part of the mean; an additive head starts from nothing."""
        heads = len(self.importance_centre)
        share = torch.zeros(heads, 1, 1, dtype=self.outputs.dtype, device=self.outputs.device)
        share[: self.free] = 1 / self.free
        return share * self.mean

    def from_anchor(self, rows: Tensor) -> Tensor:
        """Rows (m, ...) as differences from the first, where the fit is anchored."""
        return rows - rows[:1] if self.anchored else rows

    def offsets(self, rows: Tensor) -> Tensor:
        """What each length's offset would take of rows (m, k), (n + 1, k)."""
        assert self.length is not None
        assert self.shrink is not None
        sums = rows.new_zeros(len(self.shrink), rows.shape[1]).index_add_(0, self.length, self.row_weights[:, None] * rows)
        return self.shrink[:, None] * sums

    def beyond_length(self, rows: Tensor) -> Tensor:
        """Rows (m, k) less what offsets by length take of them."""
        return rows if self.length is None else rows - self.offsets(rows)[self.length]

    def weighed(self, rows: Tensor) -> Tensor:
        """Rows (m, k) times the matrix of the inner product: weights, with length offsets eliminated."""
        return self.row_weights[:, None] * self.beyond_length(rows)


@dataclass(frozen=True)
class State:
    """A point of the search with what the next step needs; P = heads * columns."""

    values: Tensor  # (K, p, C)
    importances: Tensor  # (K, p)
    shares: Tensor  # (m, K, p)
    heads: Tensor  # (m, K, C)
    residuals: Tensor  # (m, C), from the anchor
    objective: float


def make_problem(
    counts: Tensor,
    outputs: Tensor,
    row_weights: Tensor | None,
    sink: bool,
    prior: float,
    heads: int,
    offsets: Tensor | None,
    extras: Extras,
) -> Problem:
    """The problem of a fit, with its penalties; the arguments are those of ``fit_slalom``."""
    row_weights = torch.ones_like(outputs[:, 0]) if row_weights is None else row_weights
    row_weights = row_weights / row_weights.sum()
    mean = row_weights @ outputs
    variance = float((row_weights[:, None] * (outputs - mean) ** 2).sum())
    units = torch.zeros_like(counts[0]) if offsets is None else offsets - offsets.mean()
    centre = torch.cat([units, torch.logsumexp(units, dim=0)[None]]) if sink else units
    size = (heads + extras.additive) * len(centre)
    # A constant model has no variance but rounding; any large scale then gives equal importances.
    penalty = prior * (variance if variance > 1e-20 * float((outputs**2).mean()) else 1.0) / size
    value_penalty = torch.full((heads + extras.additive, 1, 1), VALUE_PRIOR * prior / size, dtype=outputs.dtype, device=outputs.device)
    centres = centre.repeat(heads, 1)
    if extras.additive:  # its values are larger than others by what its sink outweighs
        value_penalty[-1] /= (1 + ADDITIVE_SINK) ** 2
        heavy = torch.cat([units, (torch.logsumexp(units, dim=0) + math.log(ADDITIVE_SINK))[None]])
        centres = torch.cat([centres, heavy[None]])
    length = shrink = None
    if extras.length_penalty is not None:
        length = counts.sum(dim=1).round().long()
        weight = torch.zeros(counts.shape[1] + 1, dtype=outputs.dtype, device=outputs.device).index_add_(0, length, row_weights)
        shrink = 1 / (weight + extras.length_penalty)
        shrink[[0, -1]] = 0.0  # nothing is known of an empty text, and the whole text is where offsets start
    return Problem(columns(counts, sink), outputs, row_weights, centres, heads, penalty, value_penalty, extras.anchored, length, shrink)


def evaluate(problem: Problem, values: Tensor, importances: Tensor) -> State:
    """The state at values (K, p, C) and importances (K, p)."""
    shares = weights(problem.counts, importances)
    heads = averages(shares, values)
    residuals = problem.from_anchor(heads.sum(dim=1) - problem.outputs)
    objective = (
        (residuals * problem.weighed(residuals)).sum()
        + problem.importance_penalty * ((importances - problem.importance_centre) ** 2).sum()
        + (problem.value_penalty * (values - problem.value_centre) ** 2).sum()
    )
    return State(values, importances, shares, heads, residuals, float(objective))


@dataclass(frozen=True)
class Curvature:
    """Gauss-Newton blocks over the flattened columns of all heads, penalties included.

    Attributes:
        value: (P, P), the same for every class.
        cross: (C, S, P), importances of the S fitted columns by values.
        importance: (S, S), with the direction of a common shift per head held by a unit of curvature.
    """

    value: Tensor
    cross: Tensor
    importance: Tensor


@dataclass(frozen=True)
class Derivatives:
    """By values, (m, P), the same for every class, and by importances, (C, m, S); both from the anchor."""

    values: Tensor
    importances: Tensor


def derivatives_at(problem: Problem, state: State) -> Derivatives:
    """Of the predictions, at a state."""
    free = problem.free
    jacobian = importance_jacobian(state.shares[:, :free], state.values[:free], state.heads[:, :free]).flatten(1, 2)
    return Derivatives(problem.from_anchor(state.shares.flatten(1)), problem.from_anchor(jacobian).permute(2, 0, 1))


def curvature_of(problem: Problem, derivatives: Derivatives) -> Curvature:
    """Of the objective, by Gauss and Newton."""
    weighted = problem.weighed(derivatives.values)
    value = derivatives.values.T @ weighted
    cross = torch.stack([jacobian.T @ weighted for jacobian in derivatives.importances])
    importance = torch.stack([jacobian.T @ problem.weighed(jacobian) for jacobian in derivatives.importances]).sum(dim=0)
    size = problem.counts.shape[1]
    scale = float(importance.diagonal().mean()) + problem.importance_penalty
    for head in range(problem.free):
        block = slice(head * size, (head + 1) * size)
        importance[block, block] += scale / size
    if problem.anchored:  # no row tells a constant added to all values
        value[:size, :size] += float(value.diagonal()[:size].mean()) / size
    value.diagonal().add_(problem.value_penalty.expand(-1, size, 1).flatten())
    importance.diagonal().add_(problem.importance_penalty)
    return Curvature(value, cross, importance)


def step_from(problem: Problem, state: State, damping: float) -> tuple[State | None, float]:
    """One accepted step and the next damping; no state where no damping helps."""
    derivatives = derivatives_at(problem, state)
    curvature = curvature_of(problem, derivatives)
    weighted = problem.weighed(state.residuals)
    away = problem.value_penalty * (state.values - problem.value_centre)
    value_slope = derivatives.values.T @ weighted + away.flatten(0, 1)
    shift = (state.importances - problem.importance_centre)[: problem.free].flatten()
    slope = torch.einsum("cms,mc->s", derivatives.importances, weighted) + problem.importance_penalty * shift
    for _ in range(10):
        solution = _solve(curvature, value_slope, slope, damping)
        if solution is not None:
            values = state.values - solution[0].reshape(state.values.shape)
            importances = state.importances.clone()
            importances[: problem.free] -= solution[1].reshape(problem.free, -1).clamp(-LARGEST_STEP, LARGEST_STEP)
            moved = evaluate(problem, values, importances)
            if moved.objective < state.objective:
                return moved, max(damping / 5, 1e-9)
        damping *= 4
    return None, damping


def _solve(curvature: Curvature, value_slope: Tensor, slope: Tensor, damping: float) -> tuple[Tensor, Tensor] | None:
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
