"""The two lemmas behind the theorem: ratios whose parts vary little, and sums over random sets."""

from __future__ import annotations

import numpy as np

from research.theory.slides.arrays import Floats


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
    """The mean of a sum over the words of a text from which a random set is removed.

    Args:
        kept: (d,), what each word adds where it is kept.
        removed: (d,), what it adds where it is removed.
        size: how many words are removed.
        word: one that is never removed.
    """
    share = size / (len(kept) - 1)
    every = ((1 - share) * kept + share * removed).sum()
    return float(every + share * (kept[word] - removed[word]))


def variance_of_sum(kept: Floats, removed: Floats, size: int, word: int) -> float:
    """Variance of the same sum: that of drawing without replacement."""
    d = len(kept)
    change = np.delete(kept - removed, word)
    spread = (change**2).sum() - change.sum() ** 2 / (d - 1)
    return float(size * (d - 1 - size) / ((d - 1) * (d - 2)) * spread)
