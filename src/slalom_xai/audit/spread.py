"""How far harmless words differ from each other, and how unlikely a word beyond them is.

Any word moves a model a little, and some words move it more than others for no reason that matters.
A word is worth a finding only if it stands out from that spread. Its far end is described by a
generalised Pareto distribution, the limit law of what exceeds a high threshold (Pickands, 1975),
fitted by probability-weighted moments (Hosking and Wallis, 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 50  # harmless words: the spread of fewer says too little

_FAR = 0.1  # share of the words that make up the far end
_FEWEST_FAR = 10  # words there, however few words there are

# The shape of the far end. Below 0 it would end somewhere, and a word beyond that end would be
# impossible: too much to claim from some dozens of words. Above a half the moments do not exist.
_LEAST_SHAPE, _GREATEST_SHAPE = 0.0, 0.5

# Of the log odds. Words may do the same to the last digit, as unknown ones do: a word that differs
# from them by a rounding error is not worth a finding.
_LEAST_SCALE = 0.01

_ALONE = 0.1  # share of the allowed error for words that the data do not tie to the class


@dataclass(frozen=True)
class FarEnd:
    """The far end of what harmless words do.

    Attributes:
        threshold: where it begins.
        share: of the words that are beyond the threshold.
        scale: of what exceeds it.
        shape: how slowly it falls; 0 falls exponentially.
    """

    threshold: float
    share: float
    scale: float
    shape: float

    def beyond(self, change: float) -> float:
        """The probability that a harmless word does as much or more."""
        excess = change - self.threshold
        if excess <= 0:
            return 1.0  # it is among most words; how many exactly does not matter
        if self.shape == 0:
            return self.share * math.exp(-excess / self.scale)
        return float(self.share * (1 + self.shape * excess / self.scale) ** (-1 / self.shape))


def far_end(changes: Array) -> FarEnd:
    """Fits the far end of the changes (m,) that m harmless words make.

    By hand: a fit is made for each word, and scipy's, by maximum likelihood, takes many times
    longer and knows no bounds of the shape.
    """
    ordered = np.sort(changes)
    count = min(len(ordered) - 1, max(_FEWEST_FAR, round(_FAR * len(ordered))))
    threshold = float(ordered[-count - 1])
    excesses = ordered[-count:] - threshold
    mean = float(excesses.mean())
    above = 1 - (np.arange(1, count + 1) - 0.35) / count
    weighted = float((excesses * above).mean())
    shape = 2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else _LEAST_SHAPE
    shape = min(max(shape, _LEAST_SHAPE), _GREATEST_SHAPE)
    scale = max(mean * (1 - shape), _LEAST_SCALE)
    return FarEnd(threshold, count / len(ordered), scale, shape)


def chances(changes: Array, harmless: NDArray[np.bool_]) -> Array:
    """For each word, the probability that a harmless word does as much or more.

    Args:
        changes: (words,), what each word does.
        harmless: (words,), which of them stand for harmless words. A word is never compared with
            itself, so that one that stands out does not widen the spread.
    """
    found = np.ones(len(changes))
    for index, change in enumerate(changes):
        others = harmless.copy()
        others[index] = False
        found[index] = far_end(changes[others]).beyond(float(change))
    return found


def evidence(changes: Array, z: Array, harmless: NDArray[np.bool_]) -> Array:
    """For each word, the probability that a harmless word stands out as far.

    A word that a model was taught by its data does two things that chance seldom does together: it
    moves the model towards a class, and goes with that class in the data. Their geometric mean is
    compared with that of harmless words. A tenth of the error that is allowed goes to words that
    stand out by what they do to the model alone, for these may be taught by other data.

    Args:
        changes: (words,), of the log odds of a class.
        z: (words,), the z-statistic of word and class; NaN where the data say nothing.
        harmless: (words,), which of them stand for harmless words.
    """
    from scipy import stats

    alone = chances(changes, harmless)
    if np.isnan(z).all():
        return alone
    middle = np.median(changes[harmless])
    spread = stats.median_abs_deviation(changes[harmless], scale="normal") + _LEAST_SCALE
    both = np.sqrt(
        np.clip((changes - middle) / spread, 0, None) * np.clip(np.nan_to_num(z), 0, None)
    )
    found = np.minimum(chances(both, harmless) / (1 - _ALONE), alone / _ALONE)
    return np.minimum(found, 1.0)
