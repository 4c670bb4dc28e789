"""Variable projection: at given importances, the values that are best for them.

What it has to do: minimise the objective of ``problem`` over importances s and values v.

Why it is done this way: given s, the predictions are linear in v,

    F_k(x_i) = sum_j A_ij v_jk,      A_ij = n_ij w_j / W_i,      w = exp(s),   W_i = sum_j n_ij w_j

so the best v follows from one least-squares solution (the normal equations below). What is left to
search is a function of s alone, half as large and far less bent than the function of both. This is
variable projection (Golub and Pereyra, 1973); ``curvature`` has the derivatives by s and ``search``
takes the steps.

The normal equations, with <.,.> the weighted product of ``scaled_counts``, r the ridge on v, centre
what v shrinks to, and pull half the derivative of the objective by each prediction (both are in
``problem``):

    (D <E, E> D + r) dv = - (D E' pull + r (v - centre)),     E = diag(1/W) N,     D = diag(w)

They are solved for a change dv of values that are known already, which keeps digits. All columns
share the matrix, so one Cholesky factor serves them all.

In an anchored fit, what is compared are changes from the anchor, the first row (the whole text). A
slot is a unit or the sink.

Shapes: B texts, m rows, p slots, K heads, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.problem import Problem
from slalom_xai.surrogates.scaled_counts import ScaledCounts, scale_counts, symmetric_products


@dataclass(frozen=True)
class State:
    """A point of the search: importances, the values that are best there, and what follows.

    Attributes:
        importances: (B, K, p).
        values: (B, K, p, C).
        weights: (B, K, p), exp of the importances, up to a factor per head.
        scaled: the matrices E of all heads; their scales (B, m, K) are 1 / W.
        blocks: (B, K, K, p, p), the products <E_k, E_j>.
        factor: (B, K p, K p), the Cholesky factor of the curvature in the values.
        head_predictions: (B, m, K, C), of each head; they add up to the prediction.
        residuals: (B, m, C), predictions less outputs; in an anchored fit, as differences from
            those of the first row.
        loss: (B,), the weighted sum of squared residuals.
        objective: (B,), the loss and the penalties; NaN where the curvature is not definite.
    """

    importances: Tensor
    values: Tensor
    weights: Tensor
    scaled: ScaledCounts
    blocks: Tensor
    factor: Tensor
    head_predictions: Tensor
    residuals: Tensor
    loss: Tensor
    objective: Tensor


def project(problem: Problem, importances: Tensor, values: Tensor, settled: bool = False) -> State:
    """The state at given importances.

    Args:
        problem: what is fitted.
        importances: (B, K, p).
        values: (B, K, p, C), where the solution for the values starts.
        settled: the values are known to be the best ones and are kept.
    """
    weights = torch.exp(importances - importances.amax(dim=2, keepdim=True))
    scales, head_predictions = _predicted(problem, weights, values)
    scaled = scale_counts(problem, scales)
    blocks = symmetric_products(problem, scaled, importances.shape[1])
    factor, failed = torch.linalg.cholesky_ex(_value_curvature(problem, weights, blocks))
    if not settled:
        residuals = _residuals(problem, head_predictions)
        slope = _value_slope(problem, weights, scales, values, residuals)
        change = -torch.cholesky_solve(slope, factor).reshape(values.shape)
        values = values + change
        moved = _moved(problem, weights, change, head_predictions.shape)
        head_predictions = head_predictions + moved * scales[..., None]
    residuals = _residuals(problem, head_predictions)
    loss = _loss(problem, residuals)
    of_importances, of_values = _penalty(problem, importances, values)
    objective = loss + of_importances + of_values
    return State(
        importances=importances,
        values=values,
        weights=weights,
        scaled=scaled,
        blocks=blocks,
        factor=factor,
        head_predictions=head_predictions,
        residuals=residuals,
        loss=loss,
        objective=torch.where(failed == 0, objective, torch.nan),
    )


def _predicted(problem: Problem, weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The formula for all rows at once, from one product with the counts.

    Returns:
        1 / W, (B, m, K), and each head's predictions, (B, m, K, C).
    """
    batch, heads, _, columns = values.shape
    weighed = _by_head_and_column(weights, values)
    sums = problem.rows.matmul(torch.cat([weights, weighed], dim=1).mT)  # (B, m, K + K C)
    scales = 1 / sums[..., :heads]
    totals = sums[..., heads:].reshape(batch, -1, heads, columns)
    return scales, totals * scales[..., None]


def _moved(problem: Problem, weights: Tensor, change: Tensor, shape: torch.Size) -> Tensor:
    """What a change of the values (B, K, p, C) adds to the sums over slots, (B, m, K, C)."""
    return problem.rows.matmul(_by_head_and_column(weights, change).mT).reshape(shape)


def _by_head_and_column(weights: Tensor, values: Tensor) -> Tensor:
    """Weights (B, K, p) times values (B, K, p, C), as (B, K C, p)."""
    return (weights[..., None] * values).movedim(3, 2).flatten(1, 2)


def _residuals(problem: Problem, head_predictions: Tensor) -> Tensor:
    """Predictions less outputs, from the anchor if there is one: (B, m, K, C) -> (B, m, C)."""
    return problem.from_anchor(head_predictions.sum(dim=2) - problem.targets.outputs)


def _loss(problem: Problem, residuals: Tensor) -> Tensor:
    """The weighted squares of residuals (B, m, C), length offsets eliminated: (B,)."""
    beyond_length = problem.beyond_length(residuals)
    return (problem.row_weights[..., None] * residuals * beyond_length).sum(dim=(1, 2))


def _penalty(problem: Problem, importances: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """What the ridges on importances and on values add to the objective, (B,) each."""
    penalties = problem.penalties
    distances = ((importances - penalties.importance_centre) ** 2).sum(dim=(1, 2))
    squares = penalties.value[..., None] * (values - penalties.value_centre) ** 2
    of_values = (squares * problem.padding.real[:, None, :, None]).sum(dim=(1, 2, 3))
    return penalties.importance * distances, of_values


def _value_slope(
    problem: Problem, weights: Tensor, scales: Tensor, values: Tensor, residuals: Tensor
) -> Tensor:
    """Half the derivative of the objective by the values, (B, K p, C)."""
    batch, heads, size, columns = values.shape
    pulled = scales[..., None] * problem.pull(residuals)[:, :, None]  # (B, m, K, C)
    sums = problem.rows.transposed_matmul(pulled.flatten(2))  # (B, p, K C)
    by_values = sums.reshape(batch, size, heads, columns).transpose(1, 2)
    from_centre = values - problem.penalties.value_centre
    ridge = problem.penalties.value[..., None] * from_centre
    return (weights[..., None] * by_values + ridge).flatten(1, 2)


def _value_curvature(problem: Problem, weights: Tensor, blocks: Tensor) -> Tensor:
    """Half the second derivative by the values, the same for every column: (B, K p, K p)."""
    size = weights.shape[2]
    flat = weights.flatten(1)
    curvature = blocks.movedim(3, 2).flatten(3, 4).flatten(1, 2) * flat[:, :, None]
    curvature *= flat[:, None]
    if problem.anchored:
        # No row tells a constant that is added to all values of a head. So the constant of the
        # first head is held, by the mean curvature. ``fit`` sets it afterwards.
        trace = curvature.diagonal(dim1=1, dim2=2)[:, :size].sum(dim=1)
        mean_curvature = trace / problem.padding.sizes**2
        curvature[:, :size, :size] += mean_curvature[:, None, None] * problem.padding.pairs()
    ridge = problem.penalties.value.flatten(1)
    curvature.diagonal(dim1=1, dim2=2).add_(ridge)
    return curvature
