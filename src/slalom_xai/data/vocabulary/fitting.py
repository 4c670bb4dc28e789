"""Fits a vocabulary: finds the prior, weighs the rows, tests the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from slalom_xai.data.vocabulary.evidence import Evidence
from slalom_xai.data.vocabulary.items import SETTINGS
from slalom_xai.models.rows import Indices

# One SLALOM for a whole vocabulary, fitted to rows that hold a few of its items each.
#
# A row r holds item j n_rj times, and a SLALOM with a sink answers
#
#     F_r = (sum_j n_rj w_j v_j + w_0 v_0) / (sum_j n_rj w_j + w_0),    w = exp(s).
#
# Values v are given, importances s and the sink (s_0, v_0) are fitted by Gauss-Newton steps, each
# solved by conjugate gradients. Rows are sparse tables of counts (m, V), so that nothing is ever
# as large as rows times items. The last item stands for everything that is no item of the
# vocabulary. Importances have a normal prior with mean 0, and the sink's value one that is about
# as wide as the values are.


Array = NDArray[np.float64]

_STEPS = 25  # of Gauss and Newton at most
_REFIT_STEPS = 3  # where few rows were left out
_SOLVER_STEPS = 60  # of conjugate gradients for each of them
_SOLVED = 1e-4  # the residual of a solved step, as a share of the first
_DONE = 1e-6  # a step that lowers the loss by a smaller share is the last
_HALVINGS = 12
_SINK_SPREADS = 3.0  # standard deviations of the values, for the sink's
_LEAST_PULL = 1e-6  # keeps the sink's importance where it is if it does not matter
_LARGEST = 30.0  # importances stay within this: exp of it is still a plain number


@dataclass(frozen=True)
class SparseSlalom:
    """Importances of a vocabulary, with a sink.

    Attributes:
        values: (V,), given.
        importances: (V,).
        sink_value: v_0.
        sink_importance: s_0.
    """

    values: Array
    importances: Array
    sink_value: float
    sink_importance: float

    def predict(self, rows: csr_array) -> Array:
        """F (m,) for rows."""
        return self.forward(rows)[0]

    def forward(self, rows: csr_array) -> tuple[Array, Array]:
        """F and what it is divided by, (m,) each."""
        weights, sink = np.exp(self.importances), np.exp(self.sink_importance)
        whole = rows @ weights + sink
        return (rows @ (weights * self.values) + sink * self.sink_value) / whole, whole

    def slopes(self, rows: csr_array) -> csr_array:
        """The derivative of F by each importance, (m, V)."""
        predicted, whole = self.forward(rows)
        row, item = np.repeat(np.arange(len(whole)), np.diff(rows.indptr)), rows.indices
        shares = rows.data * np.exp(self.importances)[item] / whole[row]
        slopes = shares * (self.values[item] - predicted[row])
        return csr_array((slopes, item, rows.indptr), shape=rows.shape)

    def normalise(self) -> SparseSlalom:
        """The same with importances that sum to 0, the last one aside; predictions stay."""
        shift = float(self.importances[:-1].mean())
        return replace(
            self,
            importances=self.importances - shift,
            sink_importance=self.sink_importance - shift,
        )

    def move(self, step: Array, share: float) -> SparseSlalom:
        """Moved along a step (V + 2,)."""
        return SparseSlalom(
            self.values,
            (self.importances + share * step[:-2]).clip(-_LARGEST, _LARGEST),
            self.sink_value + share * float(step[-1]),
            max(-_LARGEST, min(_LARGEST, self.sink_importance + share * float(step[-2]))),
        )


@dataclass(frozen=True)
class Prior:
    """What importances are drawn towards.

    Attributes:
        deviation: standard deviation of importances; 0: all are equal.
        centre: (V,); None: 0.
    """

    deviation: float
    centre: Array | None = None

    def loss(self, slalom: SparseSlalom) -> float:
        """How far a SLALOM is from what is expected, in squared standard deviations."""
        centre, pull = sink_prior(slalom.values)
        sink = pull * (slalom.sink_value - centre) ** 2
        return float((self.residuals(slalom.importances) ** 2).sum()) + sink

    def residuals(self, importances: Array) -> Array:
        """How far importances (V,) are from the centre, in standard deviations."""
        away = importances if self.centre is None else importances - self.centre
        return away / self.deviation if self.deviation else np.zeros_like(away)


def sink_prior(values: Array) -> tuple[float, float]:
    """Where the sink's value is expected, and one over the variance of that."""
    spread = float(values.std(ddof=1)) * _SINK_SPREADS
    return float(values.mean()), max(spread, 1e-9) ** -2


def starting_point(values: Array, answers: Array) -> SparseSlalom:
    """Equal importances, and a sink that says what the rows say on average."""
    return SparseSlalom(values, np.zeros_like(values), float(answers.mean()), 0.0)


def fit_sparse(
    start: SparseSlalom,
    rows: csr_array,
    answers: Array,
    weights: Array,
    prior: Prior,
    steps: int = _STEPS,
) -> SparseSlalom:
    """Importances and a sink that predict answers, with values as they are.

    Args:
        start: where to begin; its values are kept.
        rows: (m, V), how often each holds each item.
        answers: (m,).
        weights: (m,), one over the variance of each row's error.
        prior: of the importances.
        steps: at most.
    """
    slalom, loss = start, _loss(start, rows, answers, weights, prior)
    for _ in range(steps):
        step = _step(slalom, rows, answers, weights, prior)
        share, before = 1.0, loss
        for _ in range(_HALVINGS):
            tried = slalom.move(step, share)
            loss = _loss(tried, rows, answers, weights, prior)
            if loss < before:
                break
            share /= 2
        else:
            return slalom
        slalom = tried
        if before - loss <= _DONE * before:
            break
    return slalom


def information(slalom: SparseSlalom, rows: csr_array, weights: Array) -> Array:
    """What rows with weights (m,) say about each importance by itself, (V,)."""
    return np.asarray((slalom.slopes(rows) ** 2).T @ weights)


def standard_errors(
    fitted: SparseSlalom,
    rows: csr_array,
    answers: Array,
    weights: Array,
    groups: NDArray[np.int64],
    prior: Prior,
    rng: np.random.Generator,
    done: Callable[[int], None] = lambda count: None,
) -> Array:
    """Standard errors (V,) of importances.

    Refits that leave out one group of rows each say what the choice of rows does (a jackknife).
    As many refits, whose prior has its centre elsewhere, say what the prior does: an item that the
    rows say nothing about is as uncertain as the prior.

    Args:
        fitted: to the rows.
        rows: (m, V), how often each holds each item.
        answers: (m,).
        weights: (m,), as for the fit.
        groups: (m,), from 0; rows of one text are in one group.
        prior: as for the fit.
        rng: the source of randomness.
        done: is told after each refit.
    """
    count = int(groups.max()) + 1
    whole = fitted.normalise().importances

    def away(some: Array, towards: Prior) -> Array:
        refit = fit_sparse(fitted, rows, answers, some, towards, steps=_REFIT_STEPS)
        done(1)
        return refit.normalise().importances - whole

    total, squares, by_prior = (np.zeros_like(whole) for _ in range(3))
    for group in range(count):
        without = away(weights * (groups != group), prior)
        total += without
        squares += without**2
        centre = rng.normal(scale=prior.deviation, size=len(whole))
        by_prior += away(weights, Prior(prior.deviation, centre)) ** 2
    by_rows = (squares - total**2 / count).clip(min=0) * (count - 1) / count
    return np.asarray(np.sqrt(by_rows + by_prior / count))


def _loss(
    slalom: SparseSlalom, rows: csr_array, answers: Array, weights: Array, prior: Prior
) -> float:
    misses = slalom.predict(rows) - answers
    return float(weights @ misses**2) + prior.loss(slalom)


def _step(
    slalom: SparseSlalom, rows: csr_array, answers: Array, weights: Array, prior: Prior
) -> Array:
    """The step (V + 2,) of Gauss and Newton: importances, then the sink's importance and value."""
    predicted, whole = slalom.forward(rows)
    slopes = slalom.slopes(rows) if prior.deviation else csr_array(rows.shape)
    share = np.exp(slalom.sink_importance) / whole
    sink = np.column_stack([share * (slalom.sink_value - predicted), share])
    pull = 0.0 if not prior.deviation else prior.deviation**-2
    centre, sink_pull = sink_prior(slalom.values)
    ridge = np.append(np.full(rows.shape[1], pull or 1.0), [_LEAST_PULL, sink_pull])

    def forth(step: Array) -> Array:
        return np.asarray(slopes @ step[:-2] + sink @ step[-2:])

    def back(misses: Array) -> Array:
        return np.concatenate([slopes.T @ misses, sink.T @ misses])

    gradient = back(weights * (predicted - answers))
    gradient[:-2] += prior.residuals(slalom.importances) * pull**0.5
    gradient[-1] += sink_pull * (slalom.sink_value - centre)
    # All numbers on one scale, so that conjugate gradients need few steps.
    diagonal = np.append((slopes**2).T @ weights, weights @ sink**2) + ridge
    scale = diagonal.clip(min=1e-300) ** -0.5

    def product(step: Array) -> Array:
        step = scale * step.ravel()
        return np.asarray(scale * (back(weights * forth(step)) + ridge * step))

    matrix = LinearOperator((len(scale), len(scale)), product, dtype=np.float64)
    solved, _ = cg(matrix, -scale * gradient, rtol=_SOLVED, maxiter=_SOLVER_STEPS)
    return np.asarray(scale * solved)


# Fits a vocabulary: finds the prior, weighs the rows, tests the result.


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
    even = np.ones(len(evidence.answers)) / _floor_variance(evidence.answers.var(ddof=1), evidence)
    alone = fit_sparse(start, evidence.rows, evidence.answers, even, Prior(0.0))
    slalom, prior, weights = alone, Prior(SETTINGS.first_prior), even
    for _ in range(SETTINGS.rounds):
        slalom = fit_sparse(slalom, evidence.rows, evidence.answers, weights, prior)
        slalom = slalom.normalise()
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
            weights[some] = 1 / _floor_variance(squares[some].mean() / free, evidence)
    return weights


def _likely_deviation(
    slalom: SparseSlalom, evidence: Evidence, prior: Prior, weights: Array
) -> float:
    """The standard deviation of importances that the fit makes likely (empirical Bayes)."""
    known = information(slalom, evidence.rows, weights)[:-1]
    left = 1 / (known + prior.deviation**-2)
    likely = math.sqrt(float((slalom.importances[:-1] ** 2 + left).mean()))
    return min(max(likely, SETTINGS.least_prior), SETTINGS.first_prior)


def _floor_variance(variance: float, evidence: Evidence) -> float:
    """A variance that can be divided by."""
    return max(variance, _LEAST_VARIANCE * max(float(evidence.answers.var(ddof=1)), 1e-30))
