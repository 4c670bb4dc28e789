"""Variable projection: steps in the importances alone, with the values that are best for them at every point.

Given importances the predictions are linear in the values, so the values follow by one least-squares solution, and what is left to
search is half as large and far less bent. The curvature in the importances is that of Gauss and Newton with the values projected out.

All derivatives are counts times a factor of the row and a factor of the column, ``dF/dv_j = w_j n_j / W`` and
``dF/ds_j = w_j (v_j n_j / W - n_j F / W)`` with W the total weight of the row, so every block of the curvature is made of Gram
matrices of the counts under weights of the rows. Differences from an anchor and offsets by length only add terms of low rank.
Classes share importances and the block of the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from slalom_xai.surrogates.problem import Problem

LARGEST_STEP = 3.0
LEAST_HELD = 1e-6  # of an importance's own curvature is left where values can stand in for it: what damping is relative to, at least


@dataclass(frozen=True)
class Features:
    """T matrices of m rows and p columns: counts times a factor of the row, from the anchor.

    Attributes:
        scales: (B, m, T), the factors.
        first: (B, T, p), the anchor's row, where there is one.
        mean: (B, T, p), weighted sums over rows, where there is an anchor.
        groups: (B, T, L, p), weighted sums over the rows of each length, where there are length offsets.
    """

    scales: Tensor
    first: Tensor | None
    mean: Tensor | None
    groups: Tensor | None


def features_of(problem: Problem, scales: Tensor) -> Features:
    """Counts times factors of the row, (B, m, T)."""
    if not problem.anchored and problem.lengths is None:
        return Features(scales, None, None, None)
    weighed = problem.row_weights[..., None] * scales
    groups = None
    if problem.lengths is not None:
        many = problem.lengths.shrink.shape[1]
        groups = torch.stack(
            [
                problem.rows.by_group(problem.lengths.of_row, many, part)
                for part in weighed.unbind(dim=2)
            ],
            dim=1,
        )
    if not problem.anchored:
        return Features(scales, None, None, groups)
    first = scales[:, 0, :, None] * problem.rows.first()[:, None]
    mean = problem.rows.back(weighed).mT if groups is None else groups.sum(dim=2)
    if groups is not None and problem.lengths is not None:
        groups -= problem.lengths.sums(problem.row_weights[..., None])[:, None] * first[:, :, None]
    return Features(scales, first, mean, groups)


def inner(
    problem: Problem, left: Features, right: Features, i: int, j: int, many: int = 1
) -> Tensor:
    """The products of columns of features i and j under the problem's weights, summed over so many from there: (B, p, p)."""
    one, other = slice(i, i + many), slice(j, j + many)
    scales = left.scales[..., one] * right.scales[..., other]
    gram = problem.rows.gram(
        problem.row_weights * (scales.sum(dim=2) if many > 1 else scales[..., 0])
    )
    if problem.anchored:
        assert left.first is not None
        assert left.mean is not None
        assert right.first is not None
        assert right.mean is not None
        a, b = left.first[:, one], right.first[:, other]
        gram -= left.mean[:, one].mT @ b + a.mT @ (right.mean[:, other] - b)
    if problem.lengths is not None:
        assert left.groups is not None
        assert right.groups is not None
        shrunk = problem.lengths.shrink[:, None, :, None] * right.groups[:, other]
        gram -= left.groups[:, one].flatten(1, 2).mT @ shrunk.flatten(1, 2)
    return gram


@dataclass(frozen=True)
class State:
    """A point of the search, K heads: importances, the values that are best there, and what the next step needs."""

    importances: Tensor  # (B, K, p)
    values: Tensor  # (B, K, p, C)
    weights: Tensor  # (B, K, p), exp of the importances, up to a factor per head
    features: Features  # of the derivatives by values, one per head
    blocks: Tensor  # (B, K, K, p, p), their products
    factor: Tensor  # (B, K p, K p), of the curvature in the values
    heads: Tensor  # (B, m, K, C), each head's prediction
    residuals: Tensor  # (B, m, C), from the anchor
    loss: Tensor  # (B,), the weighted squares
    objective: Tensor  # (B,), NaN where the curvature is not definite


@dataclass(frozen=True)
class Curvature:
    """In the importances of the S fitted columns, and how the values follow them.

    Attributes:
        schur: (B, S, S), with the direction of a common shift per head held by a unit of curvature.
        diagonal: (B, S), what damping is relative to.
        slope: (B, S), half the derivative of the objective.
        across: (B, K p, C S), the values' curvature solved for its mixed part with the importances.
    """

    schur: Tensor
    diagonal: Tensor
    slope: Tensor
    across: Tensor


def project(problem: Problem, importances: Tensor, values: Tensor, settled: bool = False) -> State:
    """The state at importances (B, K, p); the values are found as a change of given ones (B, K, p, C), or kept where settled."""
    batch, heads, size, classes = values.shape
    weights = torch.exp(importances - importances.amax(dim=2, keepdim=True))
    sums = problem.rows.totals(
        torch.cat([weights, (weights[..., None] * values).movedim(3, 2).flatten(1, 2)], dim=1).mT
    )
    scales = 1 / sums[..., :heads]
    predicted = sums[..., heads:].reshape(batch, -1, heads, classes) * scales[..., None]
    residuals = problem.from_anchor(predicted.sum(dim=2) - problem.outputs)
    pulled = scales[..., None] * problem.pull(residuals)[:, :, None]
    away = problem.value_penalty[..., None, None] * (values - problem.value_centre)
    by_values = (
        problem.rows.back(pulled.flatten(2)).reshape(batch, size, heads, classes).transpose(1, 2)
    )
    slope = (weights[..., None] * by_values + away).flatten(1, 2)
    features = features_of(problem, scales)
    blocks = _blocks(problem, features, heads)
    factor, failed = torch.linalg.cholesky_ex(_value_curvature(problem, weights, blocks))
    if not settled:
        change = -torch.cholesky_solve(slope, factor).reshape(values.shape)
        values = values + change
        moved = problem.rows.totals((weights[..., None] * change).movedim(3, 2).flatten(1, 2).mT)
        predicted = predicted + moved.reshape(predicted.shape) * scales[..., None]
        residuals = problem.from_anchor(predicted.sum(dim=2) - problem.outputs)
    loss = (problem.row_weights[..., None] * residuals * problem.beyond_length(residuals)).sum(
        dim=(1, 2)
    )
    objective = (
        loss
        + problem.importance_penalty
        * ((importances - problem.importance_centre) ** 2).sum(dim=(1, 2))
        + (
            problem.value_penalty[..., None, None]
            * (values - problem.value_centre) ** 2
            * problem.real[:, None, :, None]
        ).sum(dim=(1, 2, 3))
    )
    objective = torch.where(failed == 0, objective, torch.nan)
    return State(
        importances,
        values,
        weights,
        features,
        blocks,
        factor,
        predicted,
        residuals,
        loss,
        objective,
    )


def _blocks(problem: Problem, features: Features, heads: int) -> Tensor:
    """Products of the heads' features, (B, K, K, p, p)."""
    if heads == 1:
        return inner(problem, features, features, 0, 0)[:, None, None]
    upper = {
        (k, j): inner(problem, features, features, k, j)
        for k in range(heads)
        for j in range(k, heads)
    }
    grid = [upper[k, j] if k <= j else upper[j, k].mT for k in range(heads) for j in range(heads)]
    size = problem.rows.shape[2]
    return torch.stack(grid, dim=1).reshape(-1, heads, heads, size, size)


def _value_curvature(problem: Problem, weights: Tensor, blocks: Tensor) -> Tensor:
    """By values, the same for every class, penalties included: (B, K p, K p)."""
    size = weights.shape[2]
    flat = weights.flatten(1)
    value = blocks.movedim(3, 2).flatten(3, 4).flatten(1, 2) * flat[:, :, None]
    value *= flat[:, None]
    if problem.anchored:  # no row tells a constant added to all values
        level = value.diagonal(dim1=1, dim2=2)[:, :size].sum(dim=1) / problem.sizes**2
        value[:, :size, :size] += (
            level[:, None, None] * problem.real[:, :, None] * problem.real[:, None]
        )
    value.diagonal(dim1=1, dim2=2).add_(
        problem.value_penalty[..., None].expand(-1, -1, size).flatten(1)
    )
    return value


def curvature_of(problem: Problem, state: State) -> Curvature:
    """Of the objective in the importances, values following them."""
    free, classes = problem.free, state.values.shape[3]
    batch, heads, size = state.weights.shape
    # Any constant taken from values and predictions leaves the derivatives as they are; the mean keeps digits.
    level = (problem.row_weights[:, None] @ state.heads.flatten(2)).reshape(batch, heads, classes)
    values = (state.values - level[:, :, None])[:, :free].mT  # (B, F, C, p)
    predicted = (state.heads - level[:, None])[:, :, :free]
    drawn = features_of(problem, (state.features.scales[..., :free, None] * predicted).flatten(2))
    mixed = torch.stack(
        [
            inner(problem, drawn, state.features, place, head)
            for place in range(free * classes)
            for head in range(heads)
        ],
        dim=1,
    ).reshape(batch, free, classes, heads, size, size)
    cross = values[:, :, :, None, :, None] * state.blocks[:, :free, None] - mixed
    own = cross[:, :, :, :free] * values.transpose(1, 2)[:, None, :, :, None]
    own -= values[:, :, :, None, :, None] * mixed[:, :, :, :free].permute(0, 3, 2, 1, 5, 4)
    own = own.sum(dim=2) if classes > 1 else own[:, :, 0]
    own += _blocks_of_classes(problem, drawn, free, classes)
    weights = state.weights[:, :free].flatten(1)
    importance = own.transpose(2, 3).reshape(batch, free * size, free * size) * weights[:, :, None]
    importance *= weights[:, None]
    importance.diagonal(dim1=1, dim2=2).add_(problem.importance_penalty[:, None])
    diagonal = importance.diagonal(dim1=1, dim2=2).clone()
    shift = (diagonal.reshape(batch, free, size) * problem.real[:, None]).sum(dim=(1, 2)) / (
        free * problem.sizes**2
    )
    for head in range(free):
        place = slice(head * size, (head + 1) * size)
        importance[:, place, place] += (
            shift[:, None, None] * problem.real[:, :, None] * problem.real[:, None]
        )
    cross *= state.weights[:, :free, None, None, :, None]
    cross *= state.weights[:, None, None, :, None, :]
    mixed_part = cross.permute(0, 1, 4, 2, 3, 5).reshape(
        -1, free * size, classes, heads * size
    )  # (B, S, C, P)
    across = torch.cholesky_solve(mixed_part.permute(0, 3, 2, 1).flatten(2), state.factor)
    following = (
        across.reshape(batch, heads * size, classes, free * size).transpose(1, 2).flatten(1, 2)
    )
    schur = importance - mixed_part.flatten(2) @ following
    held = schur.diagonal(dim1=1, dim2=2).clamp(min=LEAST_HELD * diagonal)
    return Curvature(schur, held, _slope(problem, state, values, predicted), across)


def _blocks_of_classes(problem: Problem, drawn: Features, free: int, classes: int) -> Tensor:
    """Products of features that are given by head and class, summed over classes: (B, F, F, p, p)."""
    grid: dict[tuple[int, int], Tensor] = {}
    for k in range(free):
        for j in range(k, free):
            grid[k, j] = inner(problem, drawn, drawn, k * classes, j * classes, classes)
            grid[j, k] = grid[k, j].mT
    size = problem.rows.shape[2]
    return torch.stack([grid[k, j] for k in range(free) for j in range(free)], dim=1).reshape(
        -1, free, free, size, size
    )


def _slope(problem: Problem, state: State, values: Tensor, predicted: Tensor) -> Tensor:
    """Half the derivative of the objective by the importances, (B, S)."""
    free, classes = predicted.shape[2:]
    pulled = (
        state.features.scales.mT[:, :free, None] * problem.pull(state.residuals).mT[:, None]
    )  # (B, F, C, m): rows last are fast
    drawn = pulled * predicted.movedim(1, 3)
    drawn = drawn.sum(dim=2) if classes > 1 else drawn[:, :, 0]
    parts = problem.rows.back(torch.cat([pulled.flatten(1, 2), drawn], dim=1).mT).mT
    by_class = parts[:, : free * classes].reshape(values.shape)
    effect = state.weights[:, :free] * ((values * by_class).sum(dim=2) - parts[:, free * classes :])
    return (
        effect
        + problem.importance_penalty[:, None, None]
        * (state.importances - problem.importance_centre)[:, :free]
    ).flatten(1)


def step_from(
    problem: Problem, state: State, curvature: Curvature, damping: Tensor
) -> tuple[State, Tensor]:
    """The state after a step under dampings (B,), and by how much the objective should have fallen."""
    damped = curvature.schur.clone()
    damped.diagonal(dim1=1, dim2=2).add_(damping[:, None] * curvature.diagonal)
    factor, failed = torch.linalg.cholesky_ex(damped)
    step = torch.cholesky_solve(curvature.slope[..., None], factor)[..., 0].clamp(
        -LARGEST_STEP, LARGEST_STEP
    )
    step = torch.where((failed == 0)[:, None], step, torch.nan)
    promised = 2 * (curvature.slope * step).sum(dim=1) - (
        step * (curvature.schur @ step[..., None])[..., 0]
    ).sum(dim=1)
    importances = state.importances.clone()
    importances[:, : problem.free] -= step.reshape(len(step), problem.free, -1)
    return project(problem, importances, state.values), promised


_Tensors = TypeVar("_Tensors")


def merged(chosen: Tensor, new: _Tensors, old: _Tensors) -> _Tensors:
    """New tensors for the texts that are chosen (B,), old ones for the others; in dataclasses, field by field."""
    together: _Tensors = _by_field(
        lambda a, b: torch.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old
    )
    return together


def taken(texts: Tensor, given: _Tensors) -> _Tensors:
    """Only some texts of tensors; in dataclasses, field by field."""
    some: _Tensors = _by_field(lambda a: a[texts], given)
    return some


def _by_field(change: Callable[..., Tensor], first: Any, *others: Any) -> Any:
    if first is None:
        return None
    if isinstance(first, Tensor):
        return change(first, *others)
    parts = {
        f.name: _by_field(change, *(getattr(given, f.name) for given in (first, *others)))
        for f in fields(first)
    }
    return type(first)(**parts)
