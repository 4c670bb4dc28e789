"""Fits a vocabulary: finds the prior, weighs the rows, tests the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slalom_xai.models.rows import Indices
from slalom_xai.vocabulary.evidence import Evidence
from slalom_xai.vocabulary.settings import SETTINGS
from slalom_xai.vocabulary.sparse import (
    Array,
    Prior,
    SparseSlalom,
    fit_sparse,
    information,
    standard_errors,
    starting_point,
)

FITS = SETTINGS.rounds + 2 * SETTINGS.groups
_LEAST_FREE = 0.2  # of the rows, that a fit does not follow
_LEAST_VARIANCE = 1e-10  # of a row's error, as a share of the variance of all answers


@dataclass(frozen=True)
class Fitted:
    """Importances with what is known about them.

    Attributes:
        slalom: of all items and, last, of everything that is none.
        errors: (V + 1,), standard errors of the importances.
        alone: the values under equal importances, for comparison.
        prior: the standard deviation of importances that was found.
    """

    slalom: SparseSlalom
    errors: Array
    alone: SparseSlalom
    prior: float


def fit_vocabulary(
    values: Array,
    evidence: Evidence,
    rng: np.random.Generator,
    done: Callable[[int], None] = lambda count: None,
) -> Fitted:
    """Fits importances to rows.

    Args:
        values: (V + 1,), given.
        evidence: the rows to fit to.
        rng: the source of randomness.
        done: is told after each of ``FITS`` fits.
    """
    groups = _groups(evidence.clusters, SETTINGS.groups, rng)
    start = starting_point(values, evidence.answers)
    even = np.ones(len(evidence.answers)) / _floored(evidence.answers.var(ddof=1), evidence)
    alone = fit_sparse(start, evidence.rows, evidence.answers, even, Prior(0.0))
    slalom, prior, weights = alone, Prior(SETTINGS.first_prior), even
    for _ in range(SETTINGS.rounds):
        slalom = fit_sparse(slalom, evidence.rows, evidence.answers, weights, prior)
        slalom = slalom.normalised()
        weights = _weights(slalom, evidence, prior, weights)
        prior = Prior(_likely_deviation(slalom, evidence, prior, weights))
        done(1)
    errors = standard_errors(
        slalom, evidence.rows, evidence.answers, weights, groups, prior, rng, done
    )
    return Fitted(slalom, SETTINGS.error_scale * errors, alone, prior.deviation)


def r2(slalom: SparseSlalom, evidence: Evidence) -> float:
    """The share of the variance of answers that is predicted; NaN where there is none."""
    spread = float(((evidence.answers - evidence.answers.mean()) ** 2).sum())
    if spread == 0:
        return float("nan")
    return 1 - float((_misses(slalom, evidence) ** 2).sum()) / spread


def _groups(clusters: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Groups (m,) from 0, such that clusters stay together and groups have about equal sizes."""
    number = int(clusters.max()) + 1
    return np.asarray((rng.permutation(number) % min(count, number))[clusters])


def _misses(slalom: SparseSlalom, evidence: Evidence) -> Array:
    return slalom.predict(evidence.rows) - evidence.answers


def _weights(slalom: SparseSlalom, evidence: Evidence, prior: Prior, weights: Array) -> Array:
    """One over the error variance of each row (m,): that of sequences, or of deletions.

    A fit follows the rows that it is fitted to. So squares are divided by the rows less the
    importances that they determine.
    """
    squares = _misses(slalom, evidence) ** 2
    known = information(slalom, evidence.rows, weights)
    followed = float((known / (known + prior.deviation**-2)).sum()) / len(squares)
    free = max(1 - followed, _LEAST_FREE)
    weights = np.zeros_like(squares)
    for some in (evidence.kinds, ~evidence.kinds):
        if some.any():
            weights[some] = 1 / _floored(squares[some].mean() / free, evidence)
    return weights


def _likely_deviation(
    slalom: SparseSlalom, evidence: Evidence, prior: Prior, weights: Array
) -> float:
    """The standard deviation of importances that the fit makes likely (empirical Bayes)."""
    known = information(slalom, evidence.rows, weights)[:-1]
    left = 1 / (known + prior.deviation**-2)
    likely = math.sqrt(float((slalom.importances[:-1] ** 2 + left).mean()))
    return min(max(likely, SETTINGS.least_prior), SETTINGS.first_prior)


def _floored(variance: float, evidence: Evidence) -> float:
    """A variance that can be divided by."""
    return max(variance, _LEAST_VARIANCE * max(float(evidence.answers.var(ddof=1)), 1e-30))
