"""LIME for texts as the slides define it: sampling, weights, regression, and the limits of each.

The number of removed words is uniform on 1..d and the set of them uniform given its size; rows are
weighted by the cosine distance to the whole text; a linear model with an intercept is fitted. Every
number below depends on the size of a row only, so that with infinitely many samples all is
explicit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]
LARGEST_TABLE = 16  # words; all sets of more do not fit


def sample(words: int, samples: int, rng: np.random.Generator) -> Rows:
    """Rows of kept words, (samples, words): as many removed as a draw from 1..words says, any of them alike."""
    removed = rng.integers(1, words + 1, samples)
    order = rng.random((samples, words)).argsort(axis=1)
    rows: Rows = order >= removed[:, None]
    return rows


def distances(keep: Rows) -> Floats:
    """Cosine distance (m,) of rows to the whole text; 1 for the empty row, whose angle is not defined."""
    result: Floats = 1 - np.sqrt(keep.mean(axis=1))
    return result


def row_weights(keep: Rows, bandwidth: float) -> Floats:
    """Weights (m,) of rows: ``exp(-distance² / (2 bandwidth²))``."""
    return _kernel(distances(keep), bandwidth)


def regress(keep: Rows, outputs: Floats, weights: Floats, ridge: float = 0.0) -> Floats:
    """Coefficients (d,) of weighted least squares with a free intercept.

    Args:
        keep: (m, d), kept words.
        outputs: (m,), the model's answers.
        weights: (m,), of the rows.
        ridge: the penalty on the squared coefficients, not on the intercept.
    """
    share = weights / weights.sum()
    centred = keep - share @ keep
    outer = (centred * weights[:, None]).T @ centred + ridge * np.eye(keep.shape[1])
    result: Floats = np.linalg.solve(
        outer, (centred * weights[:, None]).T @ (outputs - share @ outputs)
    )
    return result


def lime(
    output: Callable[[Rows], Floats],
    words: int,
    samples: int,
    rng: np.random.Generator,
    *,
    bandwidth: float = 0.25,
    ridge: float = 0.0,
) -> Floats:
    """One run of LIME: coefficients (words,). The bandwidth is the one that the package lime calls 25."""
    keep = sample(words, samples, rng)
    return regress(keep, output(keep), row_weights(keep, bandwidth), ridge)


@dataclass(frozen=True)
class Means:
    """What the limit of infinitely many samples needs, under the sampling and with each row's weight as a factor.

    Attributes:
        output: mean of weight × output.
        kept: (d,), mean of weight × output × [word j is kept].
    """

    output: float
    kept: Floats


def all_rows(words: int) -> tuple[Rows, Floats]:
    """Every set of kept words, (2^d, d), and its probability; the whole text has none."""
    if words > LARGEST_TABLE:
        raise InputError(
            f"all sets of {words} words were asked for, which do not fit: give at most "
            f"{LARGEST_TABLE} words"
        )
    keep = (np.arange(2**words)[:, None] >> np.arange(words) & 1).astype(bool)
    removed = words - keep.sum(axis=1)
    chances = np.array([0.0] + [1 / (words * comb(words, size)) for size in range(1, words + 1)])
    return keep, chances[removed]


def exact_means(outputs: Floats, words: int, bandwidth: float = np.inf) -> Means:
    """Means over all sets, for outputs (2^d,) in the order of ``all_rows``."""
    keep, chances = all_rows(words)
    weighted = chances * row_weights(keep, bandwidth) * outputs
    return Means(float(weighted.sum()), weighted @ keep)


def infinite_samples(means: Means, words: int, bandwidth: float) -> Floats:
    """LIME's coefficients (d,) with infinitely many samples, at any bandwidth (Mardaoui and Garreau, 2021).

    The matrix of the regression has one number on its diagonal and one off it, as words are alike
    to the sampling, so that its inverse is explicit.
    """
    d = _several(words)
    none, one, two = (moment(d, order, bandwidth) for order in range(3))
    scale = (d - 1) * none * two - d * one**2 + none * one
    first = -one
    third = (one**2 - none * two) / (one - two)
    second = ((d - 2) * none * two - (d - 1) * one**2 + none * one) / (one - two)
    result: Floats = (
        first * means.output + second * means.kept + third * (means.kept.sum() - means.kept)
    ) / scale
    return result


def moment(words: int, order: int, bandwidth: float) -> float:
    """Mean of the weight of a row times the chance that so many given words are all kept."""
    removed = np.arange(1, words + 1)
    kept = words - removed
    together = np.ones(words)
    for step in range(order):
        together = together * (kept - step) / (words - step)
    return float((_kernel(1 - np.sqrt(kept / words), bandwidth) * together).mean())


def wide_limit_printed(means: Means, words: int) -> Floats:
    """The limit of a large bandwidth as the slides print it: three times the deviation of E[f | j kept] from its mean."""
    expected = kept_means(means, _several(words))
    result: Floats = 3 * (expected - expected.mean())
    return result


def wide_limit(means: Means, words: int) -> Floats:
    """The limit of a large bandwidth: a factor (d - 1) / (d + 1), and the regression on the number of kept words beside it."""
    d = _several(words)
    expected = kept_means(means, words)
    together = (
        means.kept.sum() - means.output * (d - 1) / 2
    )  # covariance of the number kept and the output
    result: Floats = 3 * (d - 1) / (d + 1) * (expected - expected.mean()) + together / (
        (d * d - 1) / 12
    )
    return result


def kept_means(means: Means, words: int) -> Floats:
    """E[f | word j is kept], (d,), where rows have no weights."""
    result: Floats = means.kept / ((words - 1) / (2 * words))
    return result


def _several(words: int) -> int:
    if words < 2:
        raise InputError(
            f"LIME was asked of {words} word, whose one row says nothing: give at least two words"
        )
    return words


def _kernel(distance: Floats, bandwidth: float) -> Floats:
    result: Floats = np.exp(-(distance**2) / (2 * bandwidth**2))
    return result
