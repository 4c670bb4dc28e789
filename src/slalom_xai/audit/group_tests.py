"""Whether groups of texts differ: tests that need no law of the numbers, and intervals.

What a word does to texts is anything but normally distributed: most texts hardly move, and a few
jump. Welch's test then finds differences between groups that were drawn by lot. Permutations do
not: under the hypothesis that groups have nothing to do with a number, every way of giving out the
same numbers to the groups is as likely as the one that was seen.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST_DRAWS, MOST_DRAWS = 2_000, 200_000
_CELLS = 2_000_000  # numbers that are permuted at once, which bounds the memory
_ROUNDING = 1e-9  # equal sums should not differ by how they were added up
_LEAST = 0.01  # of the log odds: less is what rounding does, and no effect


def draws_for(tests: int, rate: float) -> int:
    """How many permutations allow one of so many tests to stand by itself."""
    wanted = 2 * tests / max(rate, 1e-6)
    return int(min(MOST_DRAWS, max(FEWEST_DRAWS, wanted)))


def permuted(
    numbers: Array, codes: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> Array:
    """The chance (words, groups) of a mean as far from that of all texts, were groups by lot.

    By hand: all groups share the draws, and sums are products of matrices, which is several times
    faster than a ``scipy.stats.permutation_test`` for each group.

    Args:
        numbers: (words, texts), what each word does to each text.
        codes: (texts,), the group of each text, from 0.
        draws: permutations.
        rng: of these.
    """
    groups = int(codes.max()) + 1
    sizes = np.bincount(codes, minlength=groups)
    expected = sizes * numbers.mean(axis=1, keepdims=True)
    seen = np.abs(_sums(numbers, codes[None], groups)[0] - expected)
    as_far = np.zeros_like(seen)
    at_once = max(1, _CELLS // len(codes))
    for start in range(0, draws, at_once):
        tiled = np.tile(codes, (min(at_once, draws - start), 1))
        away = np.abs(_sums(numbers, rng.permuted(tiled, axis=1), groups) - expected)
        as_far += (away >= seen * (1 - _ROUNDING)).sum(axis=0)
    return np.where(seen <= _LEAST * sizes, 1.0, (1 + as_far) / (draws + 1))


def _sums(numbers: Array, codes: NDArray[np.int64], groups: int) -> Array:
    """Sums (draws, words, groups) over the texts of each group; codes (draws, texts)."""
    by_group = [(codes == group).astype(np.float64) @ numbers.T for group in range(groups)]
    return np.stack(by_group, axis=2)


def mean_interval(numbers: Array) -> tuple[float, float, float]:
    """The mean of numbers, and the ends of its 95% interval; NaN with fewer than two."""
    from scipy import stats

    mean = float(numbers.mean()) if len(numbers) else math.nan
    if len(numbers) < 2:
        return mean, math.nan, math.nan
    away = float(stats.t.ppf(0.975, len(numbers) - 1) * stats.sem(numbers))
    return mean, mean - away, mean + away


def difference_interval(own: Array, others: Array) -> tuple[float, float, float]:
    """The difference of two means with the ends of its 95% interval (Welch's).

    By hand, as ``scipy.stats.ttest_ind`` warns where a group is constant, which is common here.
    """
    from scipy import stats

    difference = float(own.mean() - others.mean())
    parts = [float(one.var(ddof=1)) / len(one) for one in (own, others)]
    if sum(parts) == 0:
        return difference, difference, difference
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (own, others), strict=True)
    )
    away = float(stats.t.ppf(0.975, freedom)) * math.sqrt(sum(parts))
    return difference, difference - away, difference + away
