"""Another attention with the same answer.

A head's output is an average, and many weights give one average. For a classifier whose values are
numbers, any two places whose values lie on both sides of the output can carry all of it. In a
deeper model the output of a head is a vector of h numbers; as soon as a text has more than h + 1
places, weights can be moved along what those h + 1 equations leave free.
"""

from __future__ import annotations

import numpy as np

from research.theory.slides.arrays import Floats
from slalom_xai.errors import InputError

LARGEST_DIVERGENCE = float(np.log(2))
NO_OVERLAP = 1e-14  # a direction shorter than this is rounding: any free direction will do


def divergence(first: Floats, second: Floats) -> float:
    """Jensen-Shannon divergence of two distributions (n,), in nats.

    It is 0 where they are the same and log 2 where they are disjoint.
    """
    middle = (first + second) / 2

    def against(one: Floats) -> float:
        some = one > 0
        return float((one[some] * np.log(one[some] / middle[some])).sum())

    return (against(first) + against(second)) / 2


def two_places(weights: Floats, values: Floats) -> Floats:
    """Weights (n,) on two places only that give the same average of values (n,).

    Among all pairs with one value on each side of the average, the one with the least attention is
    taken, which is as far from the given weights as two places can be.
    """
    # Rounding may step outside of the range of the values.
    average = float(np.clip(weights @ values, values.min(), values.max()))
    below = np.flatnonzero(values <= average)
    above = np.flatnonzero(values >= average)
    low = below[weights[below].argmin()]
    high = above[weights[above].argmin()]
    result = np.zeros_like(weights)
    gap = values[high] - values[low]
    share = 1.0
    if gap > 0:
        share = (average - values[low]) / gap
    result[low] += 1 - share
    result[high] += share
    return result


def same_context(weights: Floats, values: Floats) -> Floats:
    """Weights (n,) far from the given ones with the same average of value vectors, (n, h).

    The overlap with the given weights is lowered along the free directions until a place has no
    weight left, that place is taken out, and so on, until the equations leave nothing free.

    Raises:
        InputError: no more places than equations.
    """
    places, width = values.shape
    if places <= width + 1:
        raise InputError(
            f"{places} places and {width + 1} equations leave no other attention with the same "
            "average: give a longer text"
        )
    equations = np.concatenate([values, np.ones((places, 1))], axis=1).T
    moved, active = weights.copy(), np.arange(places)
    while len(active) > width + 1:
        free = np.linalg.svd(equations[:, active])[2][width + 1 :]
        direction = -free.T @ (free @ weights[active])
        if np.abs(direction).max() < NO_OVERLAP:
            direction = free[0]
        shrinking = direction < 0
        if not shrinking.any():
            direction, shrinking = -direction, direction > 0
        steps = moved[active][shrinking] / -direction[shrinking]
        moved[active] += steps.min() * direction
        gone = active[shrinking][steps.argmin()]
        moved[gone] = 0.0
        moved = np.maximum(moved, 0.0)
        active = active[active != gone]
    return moved
