"""How sure a mean over texts is: bootstrap intervals, and methods against the best of them on the same texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.errors import InputError, one_of

Array = NDArray[np.float64]

DRAWS = 10_000
_CHUNK = 2_000_000  # numbers drawn at once


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
        difference: mean of the method minus mean of the best, with its interval; 0 for the best itself.
        p: two-sided paired bootstrap test that the difference is 0; 1 for the best itself, NaN with fewer than two texts.
        p_holm: the same, corrected for all the methods compared.
    """

    best: str
    difference: Interval
    p: float
    p_holm: float


def bootstrap(
    numbers: ArrayLike, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """The mean of one number per text, (texts,), with an interval from drawing texts with replacement; NaN are left out."""
    given = _numbers(numbers, "numbers")
    _check(level, draws)
    held = given[~np.isnan(given)]
    left_out = len(given) - len(held)
    if not len(held):
        return Interval(math.nan, math.nan, math.nan, 0, left_out)
    low, high = _ends(_means(held, draws, seed), level) if len(held) > 1 else (math.nan, math.nan)
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

    The texts are drawn anew, the same for both methods of a pair, and p is the share of draws whose difference is as far from the difference found as that is
    from 0. The best is chosen on the same texts, which favours it a little; ``p_holm`` corrects for the number of methods.

    Args:
        table: for each method one number per text, (texts,), in the same order of texts; texts for which one has NaN are left out.
        direction: "higher" or "lower", which is better.
        level: of the intervals.
        draws: how often texts are drawn.
        seed: of the draws.
    """
    if direction not in ("higher", "lower"):
        raise one_of("direction", direction, ("higher", "lower"))
    _check(level, draws)
    if not table:
        raise InputError("the table has no methods: give numbers for at least one")
    rows = {name: _numbers(numbers, f"numbers of {name}") for name, numbers in table.items()}
    lengths = {name: len(numbers) for name, numbers in rows.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"the methods have numbers for different texts ({', '.join(f'{name}: {n}' for name, n in lengths.items())}): give one per text"
        )
    every = np.stack(list(rows.values()))
    held = every[:, ~np.isnan(every).any(axis=0)]
    left_out = every.shape[1] - held.shape[1]
    if not held.shape[1]:
        raise InputError(
            "no text has a number for every method: leave out the methods without numbers"
        )
    means = held.mean(axis=1)
    top = int(means.argmax() if direction == "higher" else means.argmin())
    names = list(rows)
    found = {
        name: _difference(held[place] - held[top], left_out, level, draws, seed)
        for place, name in enumerate(names)
    }
    found[names[top]] = (found[names[top]][0], 1.0)
    corrected = _holm({name: p for name, (_, p) in found.items() if name != names[top]}) | {
        names[top]: 1.0
    }
    return {
        name: Comparison(names[top], interval, p, corrected[name])
        for name, (interval, p) in found.items()
    }


def _difference(
    differences: Array, left_out: int, level: float, draws: int, seed: int
) -> tuple[Interval, float]:
    mean, texts = float(differences.mean()), len(differences)
    if texts < 2:
        return Interval(mean, math.nan, math.nan, texts, left_out), math.nan
    means = _means(differences, draws, seed)
    rounding = 1e-12 * float(
        np.abs(differences).max()
    )  # so that equal numbers are not told apart by how they were added up
    p = (1 + int((np.abs(means - mean) >= abs(mean) - rounding).sum())) / (draws + 1)
    return Interval(mean, *_ends(means, level), texts, left_out), p


def _holm(found: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction: the least p times the number of tests, the next times one fewer, and never falling."""
    corrected, floor = {}, 0.0
    for place, name in enumerate(sorted(found, key=lambda name: found[name])):
        floor = max(floor, min(1.0, (len(found) - place) * found[name]))
        corrected[name] = math.nan if math.isnan(found[name]) else floor
    return corrected


def _means(numbers: Array, draws: int, seed: int) -> Array:
    """Means of ``draws`` samples with replacement, (draws,)."""
    rng = np.random.default_rng(seed)
    size = max(1, _CHUNK // len(numbers))
    return np.concatenate(
        [
            numbers[rng.integers(0, len(numbers), (min(size, draws - start), len(numbers)))].mean(
                axis=1
            )
            for start in range(0, draws, size)
        ]
    )


def _ends(means: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _numbers(numbers: ArrayLike, what: str) -> Array:
    try:
        found = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the {what} are not numbers ({error}): give one per text") from error
    if found.ndim != 1 or np.isinf(found).any():
        raise InputError(
            f"the {what} have shape {found.shape} or an infinite entry: give one finite number, or NaN, per text"
        )
    return found


def _check(level: float, draws: int) -> None:
    if not 0 < level < 1 or draws < 1:
        raise InputError(
            f"level is {level!r} and draws is {draws!r}: give a level between 0 and 1 and at least one draw"
        )
