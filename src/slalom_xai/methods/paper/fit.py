"""Fits the paper's SLALOM: many problems at once, each as if it were alone.

What it has to do: find importances s and values v over p slots (the units, and a sink last), so
that the formula F follows the model's outputs f_i on the rows x_i. With row weights q that sum to
one, minimise

    sum_i q_i |F(x_i) - f_i|^2
        +  prior * Var(f) * |s - m|^2 / p
        +  value_prior * prior * |v - mean f|^2 / p

The centre m is 0 for units and log n for a sink, which competes with all n units at once. The
second term decides between importances that explain the rows equally well. The third is there so
that the values of units that no row tells apart are determined at all.

Why it is done this way: at given importances, F is linear in v,

    F(x_i) = sum_j A_ij v_j,      A = diag(1/W) N diag(w),      w = exp(s),   W = N w

so the best v follows from one linear solution, and what is left to search is a function of s alone,
half as large and far less bent (variable projection, Golub and Pereyra 1973). With the products
<a, b> = N' diag(q a b / W^2) N, scaled by w on both sides, the curvature has the blocks

    VV = <1, 1>       SV_c = diag(v_c) <1, 1> - <F_c, 1>
    SS = sum_c  diag(v_c) <1, 1> diag(v_c) - diag(v_c) <1, F_c> - <F_c, 1> diag(v_c) + <F_c, F_c>

and the steps of Levenberg and Marquardt solve with SS - sum_c SV_c VV^-1 SV_c'. Columns share
importances, rows are short (``counts``), and no matrix of derivatives (m, p) is written.

Problems are padded with rows that weigh nothing and slots that never occur; a problem without a
sink has one that never occurs. Their values and importances stay at the centres.

Shapes: B problems, m rows, n units, p slots, C columns (explained outputs).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.methods.counts import Counts, Rows, rows_of, stacked_rows
from slalom_xai.methods.paper.formula import SlalomSurrogate


@dataclass(frozen=True)
class FitSettings:
    """Constants of the fits. They decide how fast a search ends and hardly where: see the tests.

    Attributes:
        value_prior: the ridge on values, as a fraction of the one on importances (no unit). Small,
            because values follow from the rows.
        no_variance: outputs whose variance is below this fraction of their mean square are a
            constant with rounding errors. It lies above the square of double precision, 5e-32,
            and far below what single-precision models give, 1e-14.
        first_damping: of the first step, relative to the diagonal of the curvature (no unit).
            Less is faster on easy texts and wastes a step on others.
        least_damping: below it damping makes no difference in double precision.
        heaviest_damping: a step damped by more moves nothing. Where it does not help, none does.
        increase: the damping is multiplied by this after a step that failed.
        decrease: it is divided by this after a step that kept more than ``well`` of its promise.
        slow_decrease: it is divided by this where more than ``fairly`` was kept.
        well: see ``decrease``; a fraction of the promised fall.
        fairly: see ``slow_decrease``; a fraction of the promised fall.
        largest_step: in an importance, a natural logarithm: e^3 is a factor of 20 in a weight.
        least_left: the least part of an importance's own curvature that damping is relative to.
            Where values can stand in for an importance, hardly any of its curvature is left.
        settled: where fewer than this part of the problems are still searched, the others leave.
        together: counts at most in a batch of texts. This is what fits into a processor's cache.
        similar: texts in a batch have at least this fraction of the units of the largest, so that
            padding costs little.
    """

    value_prior: float = 1e-3
    no_variance: float = 1e-20
    first_damping: float = 1e-2
    least_damping: float = 1e-9
    heaviest_damping: float = 100.0
    increase: float = 5.0
    decrease: float = 5.0
    slow_decrease: float = 1.5
    well: float = 0.75
    fairly: float = 0.4
    largest_step: float = 3.0
    least_left: float = 1e-6
    settled: float = 0.7
    together: int = 250_000
    similar: float = 0.75


FIT = FitSettings()


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
            off. Methods choose theirs by held-out rows.
        start: where importances begin; otherwise they begin where they are shrunk to.
        max_iterations: steps at most; it bounds the time of fits that creep.
        tolerance: stop when a step lowers the objective by less than this fraction. Halving or
            doubling the default does not show in predictions (see the tests).
    """

    counts: Counts
    outputs: Tensor
    row_weights: Tensor | None = None
    sink: bool = True
    prior: float = 1e-3
    start: SlalomSurrogate | None = None
    max_iterations: int = 60
    tolerance: float = 1e-7


@dataclass(frozen=True)
class Fit:
    """A fitted SLALOM.

    Attributes:
        surrogate: the fitted function, importances summing to 0 over the units.
        residuals: (m, C), prediction minus output on the fitted rows.
        converged: whether the objective stopped falling before the step limit.
        request: what was fitted.
    """

    surrogate: SlalomSurrogate
    residuals: Tensor
    converged: bool
    request: FitRequest


def fit_slalom(
    counts: Counts,
    outputs: Tensor,
    *,
    row_weights: Tensor | None = None,
    sink: bool = True,
    prior: float = FitRequest.prior,
    max_iterations: int = FitRequest.max_iterations,
    tolerance: float = FitRequest.tolerance,
) -> Fit:
    """Fits a SLALOM to outputs (m, C) on rows (m, n); the arguments are those of ``FitRequest``."""
    request = FitRequest(counts, outputs, row_weights, sink, prior, None, max_iterations, tolerance)
    return fit_many([request])[0]


def fit_many(requests: Sequence[FitRequest]) -> list[Fit]:
    """Fits SLALOMs, those that are alike and of similar size together; each as if it were alone."""
    fits: dict[int, Fit] = {}
    known: dict[tuple[int, bool], Rows] = {}  # candidates for one text share its rows
    for request in requests:
        key = id(request.counts), request.sink
        if key not in known:
            known[key] = rows_of(request.counts, [float(request.sink)])
    rows = [known[id(request.counts), request.sink] for request in requests]
    for batch in _batches(requests, rows):
        some = [requests[index] for index in batch]
        problem = make_problem(some, [rows[index] for index in batch])
        state, converged = _descend(problem, _start(problem, some))
        for place, index in enumerate(batch):
            fits[index] = _fit(requests[index], state, place, bool(converged[place]))
    return [fits[index] for index in range(len(requests))]


def fit_each(sets: Sequence[Sequence[FitRequest]]) -> list[list[Fit]]:
    """Fits SLALOMs in sets of several, such as one for each text."""
    fits = iter(fit_many([request for requests in sets for request in requests]))
    return [[next(fits) for _ in requests] for requests in sets]


def _batches(requests: Sequence[FitRequest], rows: Sequence[Rows]) -> Iterator[list[int]]:
    """Indices of requests that are fitted together: alike in kind, and worth padding."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, request in enumerate(requests):
        kind = type(rows[index]), request.outputs.shape[1], request.outputs.device
        alike.setdefault(kind, []).append(index)
    for indices in alike.values():
        indices.sort(key=lambda index: requests[index].counts.shape[::-1])
        batch: list[int] = []
        for index in indices:
            size, units = rows[index].cells, requests[index].counts.shape[1]
            if batch:
                small = requests[batch[0]].counts.shape[1] < FIT.similar * units
                most = max(size, *(rows[one].cells for one in batch))
                if small or (len(batch) + 1) * most > FIT.together:
                    yield batch
                    batch = []
            batch.append(index)
        yield batch


@dataclass(frozen=True)
class Problem:
    """What stays fixed during the fits.

    Attributes:
        rows: counts, (B, m, p).
        outputs: (B, m, C).
        row_weights: (B, m), summing to one for each problem.
        mean: (B, 1, C), of the outputs, which values shrink to.
        centre: (B, p), what importances shrink to.
        value_ridge: (B,).
        importance_ridge: (B,).
        real: (B, p), 1 where a slot occurs at all, 0 where it is padding.
        most: (B,), steps.
        tolerance: (B,).
    """

    rows: Rows
    outputs: Tensor
    row_weights: Tensor
    mean: Tensor
    centre: Tensor
    value_ridge: Tensor
    importance_ridge: Tensor
    real: Tensor
    most: Tensor
    tolerance: Tensor

    def pick(self, problems: Tensor) -> Problem:
        """Some of the problems."""
        rows, *rest = vars(self).values()
        return Problem(rows.pick(problems), *(part[problems] for part in rest))


@dataclass(frozen=True)
class State:
    """Where the searches stand: importances, the values that are best there, and what follows.

    Attributes:
        importances: (B, p).
        values: (B, p, C).
        weights: (B, p), exp of the importances, up to a factor.
        scales: (B, m), 1 / W.
        predicted: (B, m, C).
        product: (B, p, p), <1, 1>, not scaled.
        factor: (B, p, p), the Cholesky factor of the curvature in the values.
        objective: (B,); NaN where the curvature is not definite.
    """

    importances: Tensor
    values: Tensor
    weights: Tensor
    scales: Tensor
    predicted: Tensor
    product: Tensor
    factor: Tensor
    objective: Tensor

    def pick(self, problems: Tensor) -> State:
        """Where some of the searches stand."""
        return State(*(part[problems] for part in vars(self).values()))

    def replaced(self, chosen: Tensor, other: State) -> State:
        """Another state for the problems that are chosen, (B,)."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return State(
            *(
                torch.where(chosen.reshape(-1, *[1] * (old.ndim - 1)), new, old)
                for old, new in pairs
            )
        )


def make_problem(requests: Sequence[FitRequest], rows: Sequence[Rows]) -> Problem:
    """Stacks requests with their rows, which are of one form."""
    like = requests[0].outputs
    many = max(len(request.outputs) for request in requests)
    units = [request.counts.shape[1] for request in requests]
    size = max(units) + 1
    outputs = like.new_zeros(len(requests), many, like.shape[1])
    row_weights = like.new_zeros(len(requests), many)
    centre = like.new_zeros(len(requests), size)
    real = torch.zeros_like(centre)
    for index, (request, count) in enumerate(zip(requests, units, strict=True)):
        given = request.row_weights
        outputs[index, : len(request.outputs)] = request.outputs
        row_weights[index, : len(request.outputs)] = 1.0 if given is None else given
        centre[index, -1] = math.log(count)
        real[index, :count] = 1.0
        real[index, -1] = float(request.sink)
    row_weights /= row_weights.sum(dim=1, keepdim=True)
    mean = row_weights[:, None] @ outputs
    variance = (row_weights[..., None] * (outputs - mean) ** 2).sum(dim=(1, 2))
    # A constant model has no variance but rounding. Any large scale then gives equal importances.
    least = FIT.no_variance * (row_weights[..., None] * outputs**2).sum(dim=(1, 2))
    scale = torch.where(variance > least, variance, 1.0)
    prior = like.new_tensor([request.prior for request in requests]) / real.sum(dim=1)
    return Problem(
        rows=stacked_rows(rows, many, size),
        outputs=outputs,
        row_weights=row_weights,
        mean=mean,
        centre=centre,
        value_ridge=FIT.value_prior * prior,
        importance_ridge=prior * scale,
        real=real,
        most=like.new_tensor([request.max_iterations for request in requests]),
        tolerance=like.new_tensor([request.tolerance for request in requests]),
    )


def _start(problem: Problem, requests: Sequence[FitRequest]) -> State:
    """Where searches begin: at the centres, or where they are told to."""
    importances = problem.centre.clone()
    for own, request in zip(importances, requests, strict=True):
        if request.start is not None:
            own[: request.start.units] = request.start.importances[0]
            if request.start.sink_importances is not None:
                own[-1] = request.start.sink_importances[0]
    values = problem.mean.expand(-1, importances.shape[1], -1)
    return project(problem, importances, values)


def project(problem: Problem, importances: Tensor, values: Tensor) -> State:
    """The best values at given importances (B, p), from values (B, p, C) that are near them.

    They are solved for as a change, which keeps digits.
    """
    rows, q, ridge = problem.rows, problem.row_weights, problem.value_ridge[:, None]
    weights = torch.exp(importances - importances.amax(dim=1, keepdim=True))
    sums = rows.matmul(
        weights[..., None] * torch.cat([torch.ones_like(values[..., :1]), values], 2)
    )
    scales = 1 / sums[..., 0]
    predicted = sums[..., 1:] * scales[..., None]
    product = rows.gram((q * scales**2)[:, None])[:, 0]
    curvature = product * (weights[:, :, None] * weights[:, None])
    curvature.diagonal(dim1=1, dim2=2).add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(curvature)
    pull = (q * scales)[..., None] * (predicted - problem.outputs)
    from_mean = ridge[..., None] * (values - problem.mean)
    slope = weights[..., None] * rows.transposed_matmul(pull) + from_mean
    change = -torch.cholesky_solve(slope, factor)
    predicted = predicted + rows.matmul(weights[..., None] * change) * scales[..., None]
    values = values + change
    loss = (q[..., None] * (predicted - problem.outputs) ** 2).sum(dim=(1, 2))
    of_values = problem.value_ridge * ((values - problem.mean) ** 2).sum(dim=(1, 2))
    apart = ((importances - problem.centre) ** 2).sum(dim=1)
    objective = loss + problem.importance_ridge * apart + of_values
    objective = torch.where(failed == 0, objective, torch.nan)
    return State(importances, values, weights, scales, predicted, product, factor, objective)


@dataclass(frozen=True)
class Curvature:
    """In the importances, and how the values follow them.

    Attributes:
        schur: (B, p, p), with the direction of a common shift held.
        diagonal: (B, p), of ``schur`` but not too small: what damping is relative to.
        slope: (B, p), half the derivative of the objective.
        follow: (B, C, p, p), VV^-1 SV': how the best values follow the importances, up to the sign.
    """

    schur: Tensor
    diagonal: Tensor
    slope: Tensor
    follow: Tensor


def curvature_of(problem: Problem, state: State) -> Curvature:
    """Slope and curvature at a point of the search."""
    rows, q, heard = problem.rows, problem.row_weights, state.weights
    columns = state.values.shape[2]
    # Values and predictions may lose any constant: only their difference counts. This keeps digits.
    mean = q[:, None] @ state.predicted
    values, predicted = (state.values - mean).mT, (state.predicted - mean).mT  # (B, C, p or m)
    squares = predicted.square().sum(dim=1, keepdim=True)
    factors = (q * state.scales**2)[:, None] * torch.cat([predicted, squares], dim=1)
    products = rows.gram(factors)  # (B, C + 1, p, p)
    mixed, both = products[:, :columns], heard[:, :, None] * heard[:, None]
    plain = state.product[:, None] * values[:, :, None]  # <1, 1> diag(v_c)
    cross = both[:, None] * (plain - mixed)  # SV_c'
    crossed = values[..., None] * mixed
    own = (values[..., None] * plain - crossed - crossed.mT).sum(dim=1)
    own = both * (own + products[:, columns])
    own.diagonal(dim1=1, dim2=2).add_(problem.importance_ridge[:, None])
    before = own.diagonal(dim1=1, dim2=2).clone()
    # Adding one number to all importances changes nothing: that direction gets the mean curvature.
    hold = (before * problem.real).sum(dim=1) / problem.real.sum(dim=1) ** 2
    own += hold[:, None, None] * problem.real[:, :, None] * problem.real[:, None]
    follow = torch.cholesky_solve(cross, state.factor[:, None])
    schur = own - (cross.mT @ follow).sum(dim=1)
    least = FIT.least_left * before
    diagonal = schur.diagonal(dim1=1, dim2=2).clamp(min=least)
    pull = (q * state.scales)[..., None] * (state.predicted - problem.outputs)
    pull = torch.cat([pull, (pull * predicted.mT).sum(dim=2, keepdim=True)], dim=2)
    sums = rows.transposed_matmul(pull)  # (B, p, C + 1)
    slope = heard * ((values.mT * sums[..., :columns]).sum(dim=2) - sums[..., columns])
    slope = slope + problem.importance_ridge[:, None] * (state.importances - problem.centre)
    return Curvature(schur, diagonal, slope, follow)


def _descend(
    problem: Problem, state: State, damping: Tensor | None = None, steps: Tensor | None = None
) -> tuple[State, Tensor]:
    """Damped steps until no objective falls any more.

    Args:
        problem: what is fitted.
        state: where the searches begin.
        damping: (B,), of the next step.
        steps: (B,), that were taken before.

    Returns:
        where they end, and whether each ended by itself, (B,).
    """
    if damping is None or steps is None:
        damping = torch.full_like(state.objective, FIT.first_damping)
        steps = torch.zeros_like(damping)
    live = torch.ones_like(damping, dtype=torch.bool)
    converged = ~live
    curvature = curvature_of(problem, state)
    while True:
        new, promised = _step(problem, state, curvature, damping)
        fall = state.objective - new.objective
        better = live & (fall > 0)  # not where it is NaN
        kept = torch.where(promised > 0, fall / promised, 0.0)
        relaxed = torch.where(kept > FIT.fairly, damping / FIT.slow_decrease, damping)
        relaxed = torch.where(kept > FIT.well, damping / FIT.decrease, relaxed)
        relaxed = relaxed.clamp(min=FIT.least_damping)
        damping = torch.where(better, relaxed, damping * FIT.increase)
        little = problem.tolerance * state.objective
        nothing_left = (damping > FIT.heaviest_damping) | ((promised >= 0) & (promised < little))
        ended = live & torch.where(better, fall < little, nothing_left)
        converged, steps = converged | ended, steps + better
        live = live & ~ended & (steps < problem.most)
        state = new if bool(better.all()) else state.replaced(better, new)
        going = int(live.sum())
        if going == 0:
            return state, converged
        if going < FIT.settled * len(live):  # go on with those that have not ended
            rest = _descend(problem.pick(live), state.pick(live), damping[live], steps[live])
            for part, of_rest in zip(vars(state).values(), vars(rest[0]).values(), strict=True):
                part[live] = of_rest
            converged[live] = rest[1]
            return state, converged
        if bool((better & live).any()):
            curvature = curvature_of(problem, state)


def _step(
    problem: Problem, state: State, curvature: Curvature, damping: Tensor
) -> tuple[State, Tensor]:
    """The states after a step, and the fall of each objective that was promised, (B,)."""
    damped = curvature.schur.clone()
    damped.diagonal(dim1=1, dim2=2).add_(damping[:, None] * curvature.diagonal)
    factor, failed = torch.linalg.cholesky_ex(damped)
    step = torch.cholesky_solve(curvature.slope[..., None], factor)
    step = step.clamp(-FIT.largest_step, FIT.largest_step)
    step = torch.where((failed == 0)[:, None, None], step, torch.nan)
    bent = (step * (curvature.schur @ step)).sum(dim=(1, 2))
    step = step[..., 0]
    promised = 2 * (curvature.slope * step).sum(dim=1) - bent
    return project(problem, state.importances - step, state.values), promised


def _fit(request: FitRequest, state: State, place: int, converged: bool) -> Fit:
    """What came out of one search."""
    rows, units = request.counts.shape
    values, importances = state.values[place : place + 1], state.importances[place : place + 1]
    sink = (values[:, -1], importances[:, -1]) if request.sink else ()
    surrogate = SlalomSurrogate(values[:, :units], importances[:, :units], *sink).normalise()
    residuals = state.predicted[place, :rows] - request.outputs
    return Fit(surrogate, residuals, converged, request)
