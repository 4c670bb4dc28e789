"""Masks (m, n) over units, drawn at random: first how many units go, then which.

The functions ``..._counts`` return a function that draws numbers of deleted units. The
held-out sets spread these numbers evenly, so that few rows cover every size; the rows to
fit do without that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slalom_xai.row_keys import CELLS

Masks = NDArray[np.bool_]
Numbers = NDArray[np.int64]
DrawNumbers = Callable[[int], Numbers]


def deletions(units: int, deleted: Numbers, rng: np.random.Generator) -> Masks:
    """One mask for each number in ``deleted``; every choice of units is equally likely.

    Args:
        units: of the text, n.
        deleted: (m,), how many units each row lacks.
        rng: the source of randomness.

    Returns:
        (m, n), drawn in blocks, so that a long text needs little memory.
    """
    masks = np.empty((len(deleted), units), dtype=bool)
    block = max(1, CELLS // units)
    for start in range(0, len(deleted), block):
        part = deleted[start : start + block, None]
        drawn = rng.random((len(part), units))
        ordered = np.sort(drawn, axis=1)
        least_kept = np.take_along_axis(ordered, part.clip(max=units - 1), axis=1)
        masks[start : start + block] = (drawn >= least_kept) & (part < units)
    return masks


def uniform_counts(low: int, high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, uniform on low..high."""
    return lambda size: rng.integers(low, high + 1, size)


def even_counts(low: int, high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, uniform on low..high and spread evenly: a few cover every size too."""

    def draw(size: int) -> Numbers:
        quantiles = (rng.permutation(size) + rng.random(size)) / size
        numbers = low + np.floor(quantiles * (high - low + 1))
        return numbers.astype(np.int64).clip(low, high)

    return draw


def halved_counts(units: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted where each unit goes with probability 1/2; never none and never all."""
    return lambda size: rng.binomial(units, 0.5, size).clip(1, units - 1)


def log_uniform_counts(high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, log-uniform on 1..high: as many from 1 to 10 as from 10 to 100."""

    def draw(size: int) -> Numbers:
        numbers = np.floor(np.exp(rng.random(size) * math.log(high + 1)))
        return numbers.astype(np.int64).clip(1, high)

    return draw


def every_mask(units: int) -> Masks:
    """All non-empty masks, (2**n - 1, n), the whole text first."""
    numbers = np.arange(2**units - 1, 0, -1)
    return ((numbers[:, None] >> np.arange(units)) & 1).astype(bool)
