"""Rank correlations, and how sure a mean over texts is.

Means have bootstrap intervals, and methods are compared with the best of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.errors import InputError, one_of

# How sure a mean over texts is: bootstrap intervals, and methods against the best of them.
#
# Texts are drawn with replacement, as many as there are, and the mean is taken anew; the spread
# of these means is the uncertainty of the first. Two methods are compared by their differences
# text by text, since some texts are hard for both. With d the mean difference and d* that of a
# draw,
#
#     p = (1 + number of draws with |d* - d| >= |d|) / (draws + 1)
#
# tests that the true difference is 0 (Davison and Hinkley, 1997), and Holm's correction allows
# for the number of methods that are compared with the best.


Array = NDArray[np.float64]

DRAWS = 10_000  # more make the ends of intervals less random, and take longer
_CHUNK = 2_000_000  # numbers drawn at once, which bounds the memory to some 30 MB

# Of the largest difference: equal numbers should not be told apart by how they were added up.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Interval:
    """A mean over texts with its percentile bootstrap interval.

    Attributes:
        mean: over the texts that have a number.
        low: lower end; NaN with fewer than two texts.
        high: upper end.
        texts: how many have a number.
        left_out: how many have none (NaN).
    """

    mean: float
    low: float
    high: float
    texts: int
    left_out: int


@dataclass(frozen=True)
class Comparison:
    """A method against the best one, on the texts for which all have a number.

    Attributes:
        best: the name of the best method.
        difference: mean of the method minus mean of the best, with its interval; 0 for the best
            itself.
        p: two-sided paired bootstrap test that the difference is 0; 1 for the best itself, NaN with
            fewer than two texts.
        p_holm: the same, corrected for all the methods compared.
    """

    best: str
    difference: Interval
    p: float
    p_holm: float


def bootstrap(
    numbers: ArrayLike, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """The mean of one number per text, (texts,), with an interval; NaN are left out."""
    given = _numbers(numbers, "numbers")
    _check(level, draws)
    held = given[~np.isnan(given)]
    left_out = len(given) - len(held)
    if not len(held):
        return Interval(math.nan, math.nan, math.nan, 0, left_out)
    low = high = math.nan
    if len(held) > 1:
        low, high, _ = _bootstrap_mean(held, level, draws, seed)
    return Interval(float(held.mean()), low, high, len(held), left_out)


def against_best(
    table: Mapping[str, ArrayLike],
    direction: str,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compares every method with the one of the best mean, text by text.

    The best is chosen on the same texts, which favours it a little; ``p_holm`` corrects for the
    number of methods.

    Args:
        table: for each method one number per text, (texts,), in the same order of texts; texts for
            which a method has NaN are left out.
        direction: "higher" or "lower", which is better.
        level: of the intervals.
        draws: how often texts are drawn.
        seed: of the draws.
    """
    if direction not in ("higher", "lower"):
        raise one_of("direction", direction, ("higher", "lower"))
    _check(level, draws)
    names, every = list(table), _stack(table)  # (methods, texts)
    held = every[:, ~np.isnan(every).any(axis=0)]
    left_out = every.shape[1] - held.shape[1]
    if not held.shape[1]:
        raise InputError(
            "no text has a number for every method: leave out the methods without numbers"
        )
    means = held.mean(axis=1)
    top = int(means.argmin())
    if direction == "higher":
        top = int(means.argmax())
    best = names[top]
    intervals, tests = {}, {}
    for name, numbers in zip(names, held, strict=True):
        differences = numbers - held[top]
        intervals[name], tests[name] = _difference(differences, left_out, level, draws, seed)
    del tests[best]  # it is not compared with itself
    corrected = _holm(tests)
    compared = {}
    for name in names:
        p, p_holm = tests.get(name, 1.0), corrected.get(name, 1.0)
        compared[name] = Comparison(best, intervals[name], p, p_holm)
    return compared


def _stack(table: Mapping[str, ArrayLike]) -> Array:
    """The numbers of all methods, (methods, texts), checked."""
    if not table:
        raise InputError("the table has no methods: give numbers for at least one")
    rows = {name: _numbers(numbers, f"numbers of {name}") for name, numbers in table.items()}
    if len({len(numbers) for numbers in rows.values()}) > 1:
        lengths = ", ".join(f"{name}: {len(numbers)}" for name, numbers in rows.items())
        raise InputError(
            f"the methods have numbers for different texts ({lengths}): give one per text"
        )
    return np.stack(list(rows.values()))


def _difference(
    differences: Array, left_out: int, level: float, draws: int, seed: int
) -> tuple[Interval, float]:
    """The mean of differences (texts,) with its interval, and p that the true one is 0."""
    mean, texts = float(differences.mean()), len(differences)
    if texts < 2:
        return Interval(mean, math.nan, math.nan, texts, left_out), math.nan
    low, high, means = _bootstrap_mean(differences, level, draws, seed)
    rounding = _ROUNDING * float(np.abs(differences).max())
    as_far = np.abs(means - mean) >= abs(mean) - rounding
    p = (1 + int(as_far.sum())) / (draws + 1)
    return Interval(mean, low, high, texts, left_out), p


def _holm(tests: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction of p by method (by hand, as scipy has none).

    The least p is multiplied by the number of tests, the next by one fewer, and so on; a corrected
    p is never below the one before.
    """
    corrected, floor = {}, 0.0
    for rank, name in enumerate(sorted(tests, key=lambda name: tests[name])):
        floor = max(floor, min(1.0, (len(tests) - rank) * tests[name]))
        corrected[name] = floor
        if math.isnan(tests[name]):
            corrected[name] = math.nan
    return corrected


def _bootstrap_mean(
    numbers: Array, level: float, draws: int, seed: int
) -> tuple[float, float, Array]:
    """The ends of the interval of a mean, and the means of samples with replacement (draws,)."""
    from scipy import stats

    found = stats.bootstrap(
        (numbers,),
        np.mean,
        n_resamples=draws,
        batch=max(1, _CHUNK // len(numbers)),
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    low, high = found.confidence_interval
    return float(low), float(high), found.bootstrap_distribution


def _numbers(numbers: ArrayLike, what: str) -> Array:
    """One number per text, (texts,), checked."""
    try:
        checked = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the {what} are not numbers ({error}): give one per text") from error
    if checked.ndim != 1 or np.isinf(checked).any():
        raise InputError(
            f"the {what} have shape {checked.shape} or an infinite entry: "
            "give one finite number, or NaN, per text"
        )
    return checked


def _check(level: float, draws: int) -> None:
    if not 0 < level < 1 or draws < 1:
        raise InputError(
            f"level is {level!r} and draws is {draws!r}: "
            "give a level between 0 and 1 and at least one draw"
        )


# Rankings: rank correlation, and how well scores single out marked units.


def spearman(first: Array, second: Array) -> float:
    """Spearman's rank correlation of (n,) with (n,); NaN where either has only equal numbers.

    By hand: ``scipy.stats.spearmanr`` warns of equal numbers, and gives a little less than 1 for
    equal orders.
    """
    from scipy import stats

    middle = (len(first) + 1) / 2
    one, other = stats.rankdata(first) - middle, stats.rankdata(second) - middle
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return math.nan if scale == 0 else float(one @ other) / scale


def auroc(scores: Array, marked: NDArray[np.bool_]) -> float:
    """The chance that a marked unit scores above one that is not, ties counting half.

    NaN where all units or none are marked. By the sum of ranks, as ``scipy.stats.mannwhitneyu``
    makes a test of it and takes many times longer.
    """
    from scipy import stats

    inside = int(marked.sum())
    outside = len(marked) - inside
    if not inside or not outside:
        return math.nan
    wins = float(stats.rankdata(scores)[marked].sum()) - inside * (inside + 1) / 2
    return wins / (inside * outside)


def average_precision(scores: Array, marked: NDArray[np.bool_]) -> float:
    """The mean, over marked units, of the precision among all units that score at least as high.

    This is the area under the precision-recall curve as a sum of steps, as scikit-learn defines it.
    NaN where no unit is marked.
    """
    if not marked.any():
        return math.nan
    at_least = scores[None, :] >= scores[marked][:, None]  # (marked units, n)
    precision = (at_least & marked).sum(axis=1) / at_least.sum(axis=1)
    return float(precision.mean())


def rank_descending(scores: Array) -> NDArray[np.int64]:
    """The indices of scores from the highest to the least, (n,); ties in reading order."""
    return np.argsort(-scores, kind="stable")
