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

from research.theory.slides.arrays import Floats, Masks
from slalom_xai.errors import InputError

LARGEST_TABLE = 16  # words; all sets of more do not fit


def sample(words: int, samples: int, rng: np.random.Generator) -> Masks:
    """Which words each sample keeps, (samples, words).

    The number of removed words is drawn evenly from 1..words, and then which they are.
    """
    removed = rng.integers(1, words + 1, samples)
    order = rng.random((samples, words)).argsort(axis=1)
    keep: Masks = order >= removed[:, None]
    return keep


def distances(keep: Masks) -> Floats:
    """Cosine distance (m,) of rows to the whole text.

    It is 1 for the empty row, whose angle is not defined.
    """
    result: Floats = 1 - np.sqrt(keep.mean(axis=1))
    return result


def row_weights(keep: Masks, bandwidth: float) -> Floats:
    """Weights (m,) of rows: ``exp(-distance² / (2 bandwidth²))``."""
    return _kernel(distances(keep), bandwidth)


def regress(keep: Masks, outputs: Floats, weights: Floats, ridge: float = 0.0) -> Floats:
    """Coefficients (d,) of weighted least squares with a free intercept.

    Args:
        keep: (m, d), kept words.
        outputs: (m,), the model's answers.
        weights: (m,), of the rows.
        ridge: the penalty on the squared coefficients, not on the intercept.
    """
    share = weights / weights.sum()
    centred = keep - share @ keep
    weighted = (centred * weights[:, None]).T  # (d, m)
    outer = weighted @ centred + ridge * np.eye(keep.shape[1])
    result: Floats = np.linalg.solve(outer, weighted @ (outputs - share @ outputs))
    return result


def lime(
    output: Callable[[Masks], Floats],
    words: int,
    samples: int,
    rng: np.random.Generator,
    *,
    bandwidth: float = 0.25,
    ridge: float = 0.0,
) -> Floats:
    """One run of LIME: coefficients (words,).

    The bandwidth of 0.25 is the one that the package lime calls 25, its default.
    """
    keep = sample(words, samples, rng)
    return regress(keep, output(keep), row_weights(keep, bandwidth), ridge)


@dataclass(frozen=True)
class Means:
    """Means under the sampling: what the limit of infinitely many samples needs.

    Attributes:
        output: mean of weight × output.
        kept: (d,), mean of weight × output × [word j is kept].
    """

    output: float
    kept: Floats


def all_rows(words: int) -> tuple[Masks, Floats]:
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
    """LIME's coefficients (d,) with infinitely many samples, at any bandwidth.

    See Mardaoui and Garreau (2021).
    The matrix of the regression has one number on its diagonal and one off it, as words are alike
    to the sampling, so that its inverse is explicit.
    """
    d = _several(words)
    none, one, two = (moment(d, order, bandwidth) for order in range(3))
    scale = (d - 1) * none * two - d * one**2 + none * one
    first = -one
    third = (one**2 - none * two) / (one - two)
    second = ((d - 2) * none * two - (d - 1) * one**2 + none * one) / (one - two)
    others = means.kept.sum() - means.kept
    result: Floats = (first * means.output + second * means.kept + third * others) / scale
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
    """The limit of a large bandwidth as the slides print it, (d,).

    It is three times the deviation of E[f | word j is kept] from its mean over the words.
    """
    expected = kept_means(means, _several(words))
    result: Floats = 3 * (expected - expected.mean())
    return result


def wide_limit(means: Means, words: int) -> Floats:
    """The limit of a large bandwidth, mended, (d,).

    The printed deviation has the factor (d - 1) / (d + 1), and beside it stands the slope of the
    regression on the number of kept words.
    """
    d = _several(words)
    expected = kept_means(means, words)
    covariance = means.kept.sum() - means.output * (d - 1) / 2  # of the number kept and the output
    variance = (d * d - 1) / 12  # of the number kept
    deviation = expected - expected.mean()
    result: Floats = 3 * (d - 1) / (d + 1) * deviation + covariance / variance
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
