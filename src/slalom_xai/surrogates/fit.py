"""Fitting a SLALOM: damped Gauss-Newton on values and importances together.

The objective, with row weights q that sum to one and P columns over all heads:

    sum_i q_i |F(x_i) - f_i|^2  +  prior * Var(f) |s - m|^2 / P  +  VALUE_PRIOR * prior |v - mean f|^2 / P

where m is 0 for units (or their offsets) and log n for a sink, which competes with all n units at once.

Three things may be added. An **anchored** fit compares changes from the first row, the whole text, and passes through it. **Length
offsets** take up what depends on the number of units kept and on nothing else: models that number their positions answer differently
when everything moves up by one. Each offset is shrunk by its own ridge and eliminated exactly, which costs next to nothing since every
row has one length. An **additive head** has equal importances and a heavy sink: nearly linear, it takes what no average can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.gauss_newton import PLAIN, Extras, Problem, State, evaluate, make_problem, step_from
from slalom_xai.surrogates.slalom import SlalomSurrogate, weights


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
        extras: as given.
    """

    surrogate: SlalomSurrogate
    residuals: Tensor
    iterations: int
    converged: bool
    row_weights: Tensor
    prior: float
    extras: Extras = PLAIN


def fit_slalom(
    counts: Tensor,
    outputs: Tensor,
    *,
    row_weights: Tensor | None = None,
    sink: bool = True,
    prior: float = 1e-3,
    heads: int = 1,
    offsets: Tensor | None = None,
    extras: Extras = PLAIN,
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
        extras: an anchor, length offsets, an additive head.
        start: where to begin; otherwise all importances 0 and values by least squares. Its heads come first where it has fewer.
        max_iterations: steps at most.
        tolerance: stop when a step lowers the objective by less than this fraction.
    """
    problem = make_problem(counts, outputs, row_weights, sink, prior, heads, offsets, extras)
    state = _initial(problem, start)
    damping, converged, iterations = 1e-2, False, 0
    while not converged and iterations < max_iterations:
        iterations += 1
        moved, damping = step_from(problem, state, damping)
        converged = moved is None or state.objective - moved.objective < tolerance * state.objective
        state = moved or state
    values = state.values
    if problem.anchored:  # a constant moves between the values freely; this one passes through the whole text
        missing = outputs[0] - state.heads[0].sum(dim=0)
        values = torch.cat([values[:1] + missing, values[1:]])
    surrogate = SlalomSurrogate.from_columns(values, state.importances, sink)
    if problem.length is not None:
        surrogate = replace(surrogate, length_offsets=-problem.offsets(state.residuals))
    return Fit(surrogate, problem.beyond_length(state.residuals), iterations, converged, problem.row_weights, prior, extras)


def _initial(problem: Problem, start: SlalomSurrogate | None) -> State:
    size, classes = problem.counts.shape[1], problem.outputs.shape[1]
    importances = problem.importance_centre.clone()
    if problem.free > 1:  # equal heads would stay equal: a fixed, small tilt parts them
        tilt = torch.linspace(-1, 1, size, dtype=importances.dtype, device=importances.device)
        order = torch.arange(problem.free, device=tilt.device)[:, None]
        importances[: problem.free] += 0.5 * torch.cos(order * (tilt + 2.0))
    if start is not None:
        values = problem.value_centre.repeat(1, size, 1)
        values[1:] = 0.0  # heads beyond those given start from nothing
        given = start.column_values()
        values[: len(given)] = given
        importances[: len(given)] = start.column_importances()
        return evaluate(problem, values, importances)
    shares = problem.from_anchor(weights(problem.counts, importances).flatten(1))
    gram = shares.T @ problem.weighed(shares)
    gram.diagonal().add_(1e-4 * gram.diagonal().mean())
    target = shares.T @ problem.weighed(problem.from_anchor(problem.outputs - problem.mean))
    values = problem.value_centre + torch.linalg.solve(gram, target).reshape(-1, size, classes)
    return evaluate(problem, values, importances)
