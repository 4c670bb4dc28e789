"""The two lemmas behind the theorem: ratios whose parts vary little, and sums over random sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ratio_bound(covariance_bound: float, variance: float, numerator: float, floor: float) -> float:
    """How far E[X/Y] can be from E[X] / E[Y] for Y of at least ``floor``.

    ``E[X/Y] - x/y = -E[(X - x)(Y - y) / (y Y)] + x E[(Y - y)² / (y² Y)]`` with x and y the means,
    so that the first part is at most sd(X) sd(Y) / floor² and the second |x| Var(Y) / floor³.

    Args:
        covariance_bound: sd(X) times sd(Y).
        variance: of Y.
        numerator: the mean of X.
        floor: a positive number that Y never falls below.
    """
    return covariance_bound / floor**2 + abs(numerator) * variance / floor**3


def mean_of_sum(kept: Floats, removed: Floats, size: int, word: int) -> float:
    """Mean of the sum of ``kept`` outside and ``removed`` inside a random set of so many of the other d - 1 words; (d,) each."""
    share = size / (len(kept) - 1)
    return float(
        ((1 - share) * kept + share * removed).sum() + share * (kept[word] - removed[word])
    )


def variance_of_sum(kept: Floats, removed: Floats, size: int, word: int) -> float:
    """Variance of the same sum: that of drawing without replacement."""
    d = len(kept)
    change = np.delete(kept - removed, word)
    return float(
        size
        * (d - 1 - size)
        / ((d - 1) * (d - 2))
        * ((change**2).sum() - change.sum() ** 2 / (d - 1))
    )
