"""Shapley values: each unit's share of the prediction.

The Shapley value of a unit is what it adds to the output when it joins the others, averaged over
all orders in which they may come. A unit that joins changes two sums, and the formula is cheap:
so orders are simply drawn, a few thousand, and each costs one cumulative sum. Two things make few
orders enough. Each drawn order is used in all its rotations (spread evenly), so that every unit
comes early as often as late. And each is used backwards as well.

The model's own Shapley values differ from those of the formula by what the formula leaves. A linear
fit of that, weighted as Kernel SHAP weights, is added.

Shapes: n units, C columns (explained outputs), m perturbed texts.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from slalom_xai.slalom.formula import BoundedSlalom

ENUMERATED = 10  # units: a text of up to so many has its 1,024 subsets added up exactly


def compute_shapley(form: BoundedSlalom, orders: int = 2000) -> Tensor:
    """The Shapley values of a formula, (n, C), summing to F(all) - F(nothing).

    Args:
        form: the formula.
        orders: how many orders to average over, where there are too many subsets for all of them.
    """
    if form.units <= ENUMERATED:
        return _from_all_subsets(form)
    return _from_orders(form, orders)


def _from_all_subsets(form: BoundedSlalom) -> Tensor:
    """The definition: the weighted sum over all subsets of the other units."""
    n = form.units
    numbers = torch.arange(2**n)
    inside = (numbers[:, None] >> torch.arange(n)) & 1  # (2^n, n)
    outputs = form.predict(inside.to(form.inner_values))
    sizes = inside.sum(dim=1)
    weights = torch.tensor(
        [1 / (n * math.comb(n - 1, size)) if size < n else 0.0 for size in range(n + 1)],
        dtype=outputs.dtype,
    )
    shares = []
    for unit in range(n):
        without = numbers[inside[:, unit] == 0]
        gains = outputs[without + (1 << unit)] - outputs[without]
        shares.append(weights[sizes[without]] @ gains)
    return torch.stack(shares)


def _from_orders(form: BoundedSlalom, orders: int) -> Tensor:
    n, columns = form.inner_values.shape
    generator = torch.Generator().manual_seed(n)
    order = _draw_orders(n, orders, generator)  # (R, n): unit by place
    weights = torch.exp(form.importances - form.importances.max())
    sink = torch.exp(form.sink_importance - form.importances.max())
    places = torch.arange(1, n + 1, dtype=weights.dtype)
    mass = torch.cumsum(weights[order], dim=1) + (n - places) * sink
    joined = _join_pairs(form, order)  # (R, n, P): 1 from where both units of a pair are there
    pair_weights = torch.exp(form.pair_importances - form.importances.max())
    mass = mass + joined @ pair_weights
    total = torch.empty(n, columns, dtype=weights.dtype)
    for column in range(columns):
        here = form.of_column(column)
        values = here.inner_values[:, 0]
        sums = torch.cumsum((weights * values)[order], dim=1)
        sums = sums + (n - places) * sink * here.inner_sink
        sums = sums + joined @ (pair_weights * here.pair_values[:, 0])
        outputs = here.bound((sums / mass)[..., None])[..., 0]  # (R, n)
        before = torch.cat([here.empty().expand(len(order), 1), outputs[:, :-1]], dim=1)
        gains = outputs - before
        total[:, column] = torch.zeros(n, dtype=gains.dtype).scatter_add_(
            0, order.reshape(-1), gains.reshape(-1)
        )
    return total / len(order)


def _draw_orders(n: int, orders: int, generator: torch.Generator) -> Tensor:
    """Random orders (R, n) with rotations spread evenly, each forwards and backwards."""
    rotations = min(n, 16)
    drawn = max(1, orders // (2 * rotations))
    base = torch.stack([torch.randperm(n, generator=generator) for _ in range(drawn)])
    shifts = (torch.arange(rotations) * n) // rotations
    starts = torch.randint(n, (drawn, 1), generator=generator)
    places = (torch.arange(n) + shifts[:, None, None] + starts) % n  # (rotations, drawn, n)
    turned = torch.gather(base.expand(rotations, -1, -1), 2, places).reshape(-1, n)
    return torch.cat([turned, turned.flip(1)])


def _join_pairs(form: BoundedSlalom, order: Tensor) -> Tensor:
    """From which place on both units of each pair are there, (R, n, P), as zeros and ones."""
    place = torch.argsort(order, dim=1)  # (R, n): place by unit
    first, second = form.pairs.long().T
    complete = torch.maximum(place[:, first], place[:, second])  # (R, P)
    places = torch.arange(order.shape[1])
    return (places[:, None] >= complete[:, None, :]).to(form.inner_values)


def fit_rest(counts: Tensor, left: Tensor, weights: Tensor | None = None) -> Tensor:
    """A linear fit of what the formula leaves, by Kernel SHAP's weights, (n, C), summing to 0.

    Args:
        counts: (m, n), perturbed texts.
        left: (m, C), the model's output less the formula's.
        weights: (m,), 0 for texts that are left out.
    """
    n = counts.shape[1]
    if n < 2:
        return left.new_zeros(n, left.shape[1])
    kept = counts.sum(dim=1)
    weight = 1 / (kept * (n - kept)).clamp(min=1)
    if weights is not None:
        weight = weight * weights
    # Scores that sum to 0: those of all units but the last, and less their sum for the last.
    design = counts[:, :-1] - counts[:, -1:]
    design = torch.cat([design, torch.ones_like(design[:, :1])], dim=1)
    weighted = design * weight[:, None]
    gram = weighted.T @ design
    scale = gram.diagonal().mean()
    steady = gram + (1e-3 * scale) * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    scores = torch.linalg.solve(steady, weighted.T @ left)[:-1]
    return torch.cat([scores, -scores.sum(dim=0, keepdim=True)])
