"""Rankings: rank correlation, and how well scores single out marked units."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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


def descending(scores: Array) -> NDArray[np.int64]:
    """The indices of scores from the highest to the least, (n,); ties in reading order."""
    return np.argsort(-scores, kind="stable")
