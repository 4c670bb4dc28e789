"""Rankings: ranks with ties, rank correlation, and how well scores single out marked units."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def ranks(scores: Array) -> Array:
    """Ranks from 1 for the least, (n,); equal scores share the mean of theirs."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def spearman(first: Array, second: Array) -> float:
    """Spearman's rank correlation; NaN where either side has only equal numbers."""
    one, other = (ranks(scores) - (len(scores) + 1) / 2 for scores in (first, second))
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale > 0 else math.nan


def auroc(scores: Array, marked: NDArray[np.bool_]) -> float:
    """The chance that a marked unit scores above one that is not, ties counting half; NaN where all or none are marked."""
    inside = int(marked.sum())
    outside = len(marked) - inside
    if not inside or not outside:
        return math.nan
    return (float(ranks(scores)[marked].sum()) - inside * (inside + 1) / 2) / (inside * outside)


def average_precision(scores: Array, marked: NDArray[np.bool_]) -> float:
    """The mean, over marked units, of the precision among all units that score at least as high; NaN where none is marked.

    The area under the precision-recall curve as a sum of steps, as scikit-learn defines it.
    """
    if not marked.any():
        return math.nan
    at_least = scores[None, :] >= scores[marked][:, None]
    return float(((at_least & marked).sum(axis=1) / at_least.sum(axis=1)).mean())


def descending(scores: Array) -> NDArray[np.int64]:
    """Places of the scores from the highest to the least, (n,); ties in reading order."""
    return np.argsort(-scores, kind="stable")
