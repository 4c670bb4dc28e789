"""Shapley values of a model itself, to compare scores with.

Up to ``EXACT`` units every subset is asked, and the values are exact. In longer texts, units are
added in random orders, each taken there and back (antithetic). That is exact where units interact
in pairs at most; otherwise the spread over orders says how large the error is.

Shapes: n units, m rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np

from slalom_xai.designs.masks import every_mask
from slalom_xai.metrics.model_answers import Array, Masks

EXACT = 10  # units; 1,023 rows


@dataclass(frozen=True, eq=False)
class SampledShapley:
    """Shapley values with their error.

    Attributes:
        values: (n,).
        error: the mean squared standard error over the variance of the values: the share of
            variance that not even the true values would explain. NaN where all values are equal.
    """

    values: Array
    error: float


def shapley_of_model(
    answers: Callable[[Masks], Array],
    empty: float,
    units: int,
    orders: int,
    rng: np.random.Generator,
) -> SampledShapley:
    """The Shapley values of removing units.

    Args:
        answers: the model's output (m,) for masks (m, n) that keep at least one unit.
        empty: what it answers where nothing is kept.
        units: n.
        orders: random orders, each taken there and back; at least 2.
        rng: draws them.
    """
    if units <= EXACT:
        return SampledShapley(_exact(answers, empty, units), 0.0)
    drawn = np.stack([rng.permutation(units) for _ in range(orders)])
    both = np.concatenate([drawn, drawn[:, ::-1]])  # (2 orders, n)
    added = _added(answers, empty, both).reshape(2, orders, units).mean(axis=0)
    values = added.mean(axis=0)
    variance = float(values.var())
    if variance == 0:
        return SampledShapley(values, np.nan)
    squared_errors = added.var(axis=0, ddof=1) / orders
    return SampledShapley(values, float(squared_errors.mean()) / variance)


def _added(answers: Callable[[Masks], Array], empty: float, orders: Array) -> Array:
    """What each unit adds when its turn comes, (orders, n).

    Args:
        answers: of the model.
        empty: what it answers where nothing is kept.
        orders: (orders, n), units in the order in which they are added.
    """
    count, units = orders.shape
    rank = np.argsort(orders, axis=1)  # (orders, n): when a unit's turn comes
    kept = rank[:, None, :] < np.arange(1, units + 1)[None, :, None]  # (orders, n, n)
    grown = answers(kept.reshape(count * units, units)).reshape(count, units)
    before = np.concatenate([np.full((count, 1), empty), grown[:, :-1]], axis=1)
    return np.asarray(np.take_along_axis(grown - before, rank, axis=1))


def _exact(answers: Callable[[Masks], Array], empty: float, units: int) -> Array:
    """By the definition, over all subsets, (n,)."""
    masks = every_mask(units)  # (m, n), without the empty one
    outputs = np.concatenate([[empty], answers(masks)])
    kept = np.concatenate([np.zeros((1, units), dtype=bool), masks])
    sizes = kept.sum(axis=1)
    with_unit = np.array([_weight(size - 1, units) for size in sizes])
    without = np.array([_weight(size, units) for size in sizes])
    signed = np.where(kept, with_unit[:, None], -without[:, None])
    return np.asarray(outputs @ signed)


def _weight(others: int, units: int) -> float:
    """The share of orders in which exactly these others come before a unit."""
    if not 0 <= others < units:
        return 0.0
    return factorial(others) * factorial(units - 1 - others) / factorial(units)
