"""The main method: one SLALOM for small and large deletions at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from slalom_xai.designs import ENUMERABLE
from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Estimator, Findings, linear_findings, register
from slalom_xai.estimators.evidence import Evidence, Gathering, held_out_loss, linear_fit, measure
from slalom_xai.estimators.exactness import EXACT, is_the_model, nothing_left, share_left
from slalom_xai.queries import Queries
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.influence import Covariance, covariance
from slalom_xai.surrogates.problem import Extras, FitRequest
from slalom_xai.surrogates.row_weights import inverse_variance, length_penalty
from slalom_xai.surrogates.scores import slalom_score, slalom_standard_errors

PRIOR_FREE = 1e-12
ANCHORED = Extras(anchored=True)
STEADY = 1e-2  # the weakest prior that is trusted where no rows are left to choose by
NEARLY = 0.05  # a SLALOM without a sink is worth finishing where it leaves less of the variance than this
INDIFFERENCE = 0.05  # the simpler candidate is kept where it costs less than this in log error: its values stay readable
READABLE = 3e-2  # the weakest prior of the nearest one-head SLALOM, which is there to be read: weaker ones give values in the hundreds
CLOSE = (1e2, 1e4)  # how much weaker priors are tried where a fit with a sink is nearly exact
PAYS = 0.2  # a further round must lower the log errors, local and wide together, by this
CLOSE_ENOUGH = 5e-3  # a step that lowers the objective by less than this part ends a fit: held-out errors no longer tell
MOST_FREE = 500  # importances that calls must determine
RICH = 9  # rows per unit from which an additive head is tried


@register
@dataclass(frozen=True)
class Slalom(Estimator):
    """Fits several SLALOMs to few and many deletions at once; held-out error chooses, and linear is among the candidates.

    Attributes:
        priors: penalties on the importances to try with a sink, in units of the output's variance.
        sink: False leaves only the paper's SLALOM, without a sink and almost without a prior.
        heads: softmax averages to add up; None: one, with an additive head beside it where held-out rows ask for that.
        tolerance: without a budget, calls are asked in growing rounds until held-out error stops falling, or until the typical
            standard error of ``removal`` is this share of the largest score.
    """

    name: ClassVar[str] = "slalom"
    summary: ClassVar[str] = (
        "a value and an importance per token: a softmax-weighted average fitted to few and many deletions at once"
    )

    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    priors: Sequence[float] = (1e-1, 1e-2, 1e-3)
    sink: bool = True
    heads: int | None = None
    tolerance: float = 0.01

    stops_by_itself: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.heads is not None and (
            not isinstance(self.heads, int) or isinstance(self.heads, bool) or self.heads < 1
        ):
            raise InputError(
                f"heads is {self.heads!r}: give a whole number of at least 1, or leave it out to choose by held-out error"
            )
        if not self.sink and (self.heads or 1) > 1:
            raise InputError(
                f"heads is {self.heads} with sink=False, but several heads need a sink: leave out sink=False, or use heads=1"
            )
        if not 0 <= self.tolerance < math.inf:
            raise InputError(
                f"tolerance is {self.tolerance!r}: give a share of the largest score, such as 0.02, or 0 to use held-out error alone"
            )
        if (
            not isinstance(self.priors, Sequence)
            or not self.priors
            or not all(0 < prior < math.inf for prior in self.priors)
        ):
            raise InputError(
                f"priors is {self.priors!r}: give at least one positive number, such as (0.01,)"
            )

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per unit and for the sink and head, less one for the common shift.

        In a long text not every importance asks for a call of its own: those that no row tells apart are held by their prior.
        """
        return (self.heads or 1) * (units + min(units, MOST_FREE) + 1)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model, fits the candidates and keeps the best."""
        evidence, fit = self._in_rounds(queries, rng)
        linear = linear_fit(evidence)
        if evidence.choose is not None and held_out_loss(
            evidence, linear.surrogate
        ) < held_out_loss(evidence, fit.surrogate):
            return linear_findings(evidence, linear, (LINEAR_WINS,))
        spread, nearest = _covariances(evidence, fit)
        errors = tuple(
            slalom_standard_errors(fit.surrogate, spread, column, nearest)
            for column in range(len(evidence.full))
        )
        return Findings(
            fit.surrogate, errors, measure(evidence, fit.surrogate, linear.surrogate, fit.exact)
        )

    def _in_rounds(self, queries: Queries, rng: np.random.Generator) -> tuple[Evidence, Fit]:
        """All the budget at once; or, where none was given, rounds that double the calls while that pays."""
        gathering = Gathering(
            queries, self.parameters(len(queries.prompt.units), queries.prompt.distinct), rng
        )
        evidence = gathering.first(min(queries.first or queries.budget, queries.distinct_budget))
        fit = self._best(evidence)
        growing = (
            queries.first is not None
            and evidence.choose is not None
            and len(queries.prompt.units) > ENUMERABLE
        )
        while growing and queries.calls < queries.budget and not self._enough(evidence, fit):
            evidence = gathering.more(evidence, min(queries.calls, queries.budget - queries.calls))
            better = self._best(evidence)
            growing = (
                held_out_loss(evidence, fit.surrogate) - held_out_loss(evidence, better.surrogate)
                > PAYS
            )
            fit = better
        return evidence, fit

    def _enough(self, evidence: Evidence, fit: Fit) -> bool:
        """Whether the scores are as certain as was asked for."""
        spread = covariance(evidence.fit.counts, evidence.fit.outputs, fit, evidence.whole_variance)
        worst = 0.0
        for column in range(len(evidence.full)):
            error = slalom_standard_errors(fit.surrogate, spread, column, names=("removal",))[
                "removal"
            ]
            largest = float(slalom_score(fit.surrogate, "removal", column).abs().max()) + 1e-300
            worst = max(worst, float(error.median()) / largest)
        return worst <= self.tolerance

    def _best(self, evidence: Evidence) -> Fit:
        best = self._best_of_one_head(evidence)
        if self.heads is not None and self.heads > 1:
            return _with_nearest(evidence, best, _richer(evidence, best, self.heads))
        rows, units = evidence.fit.counts.shape
        if (
            self.heads == 1
            or evidence.choose is None
            or not best.surrogate.has_sink
            or rows < RICH * units
        ):
            return best
        if nothing_left(best, evidence):
            return best
        richer = _richer(evidence, best, None)
        if (
            held_out_loss(evidence, richer.surrogate)
            >= held_out_loss(evidence, best.surrogate) - INDIFFERENCE
        ):
            return best
        return _with_nearest(evidence, best, richer)

    def _best_of_one_head(self, evidence: Evidence) -> Fit:
        free = None if self.heads is not None and self.heads > 1 else self._without_sink(evidence)
        if free is not None and (not self.sink or free.exact):
            return free
        if evidence.choose is None:
            fits = list(self._with_sink(evidence))
            candidates = [fit for fit in fits if fit.prior >= min(STEADY, max(self.priors))]
            best = min([*candidates, *([] if free is None else [free])], key=_penalised_error)
            return self._polished(evidence, fits[-1]) or best
        best = self._best_by_held_out_rows(evidence)
        return self._polished(evidence, best) or best

    def _best_by_held_out_rows(self, evidence: Evidence) -> Fit:
        """The first of the fits, strongest prior first, that the others do not beat clearly."""
        fits: list[Fit] = []
        losses: list[float] = []
        for fit in self._with_sink(evidence):
            fits.append(fit)
            losses.append(held_out_loss(evidence, fit.surrogate))
            if len(losses) > 1 and losses[-1] > losses[-2] - INDIFFERENCE:
                break  # what one weaker prior does not gain, still weaker ones do not either
        good = [
            fit
            for fit, loss in zip(fits, losses, strict=True)
            if loss <= min(losses) + INDIFFERENCE
        ]
        # Noise hides what a strong prior does to the scores, and intervals do not hold that.
        return good[0] if evidence.whole_variance is None else good[-1]

    def _without_sink(self, evidence: Evidence) -> Fit | None:
        """The paper's SLALOM, almost without a prior; None where the model is clearly none and others can be tried."""
        counts, outputs = evidence.fit.counts, evidence.fit.outputs
        steps = _steps(counts.shape[1])
        held = evidence.solved(
            FitRequest(
                counts,
                outputs,
                sink=False,
                prior=1e-6,
                offsets=evidence.offsets,
                extras=ANCHORED,
                max_iterations=steps,
                tolerance=1e-4,
                hopeless=NEARLY if self.sink else None,
            )
        )
        if self.sink and share_left(held, evidence) > NEARLY:
            return None
        free = _without_prior(evidence, held, hopeless=None)
        if free.exact:
            return free
        if self.sink and evidence.choose is not None:
            return None  # without a prior it follows the rows it has seen and no others
        if evidence.choose is None:
            # Importances without a prior run off where a few rows cannot be met exactly.
            free = evidence.solved(
                FitRequest(
                    counts,
                    outputs,
                    sink=False,
                    prior=max(self.priors),
                    offsets=evidence.offsets,
                    extras=ANCHORED,
                )
            )
        return free

    def _polished(self, evidence: Evidence, fit: Fit) -> Fit | None:
        """A SLALOM with a sink and without a prior, where the model is exactly that; None elsewhere."""
        if not fit.surrogate.has_sink or share_left(fit, evidence) > NEARLY:
            return None
        free = _without_prior(evidence, fit, hopeless=EXACT)
        return free if free.exact else None

    def _with_sink(self, evidence: Evidence) -> Iterator[Fit]:
        """One fit per prior, strongest first; a first one shows how errors grow with deletions and what lengths do."""
        counts, outputs = evidence.fit.counts, evidence.fit.outputs
        steps = _steps(counts.shape[1])
        fit = evidence.solved(
            FitRequest(
                counts,
                outputs,
                prior=max(self.priors),
                offsets=evidence.offsets,
                extras=ANCHORED,
                max_iterations=steps,
                tolerance=1e-3,
            )
        )
        priors = sorted(self.priors, reverse=True)
        for prior in (*priors, *(priors[-1] / weaker for weaker in CLOSE)):
            if prior < priors[-1] and share_left(fit, evidence) > NEARLY:
                return  # weaker priors are for models that are nearly a SLALOM
            penalty = length_penalty(fit, counts)
            weights = inverse_variance(fit.residuals, evidence.fit.deleted)
            extras = Extras(
                anchored=True, length_penalty=penalty if math.isfinite(penalty) else None
            )
            fit = evidence.solved(
                FitRequest(
                    counts,
                    outputs,
                    row_weights=weights,
                    prior=prior,
                    offsets=evidence.offsets,
                    extras=extras,
                    start=fit.surrogate,
                    max_iterations=steps,
                    tolerance=CLOSE_ENOUGH,
                )
            )
            yield fit


LINEAR_WINS = "A linear explanation predicts held-out deletions better here than any SLALOM: it is given instead, without importances."


def _richer(evidence: Evidence, best: Fit, heads: int | None) -> Fit:
    """The best fit with further heads, by default an additive one."""
    counts, outputs = evidence.fit.counts, evidence.fit.outputs
    return evidence.solved(
        FitRequest(
            counts,
            outputs,
            row_weights=best.row_weights,
            prior=best.prior,
            offsets=evidence.offsets,
            heads=heads or 1,
            extras=replace(best.extras, additive=heads is None),
            start=best.surrogate,
            max_iterations=_steps(counts.shape[1]),
            tolerance=1e-3,
        )
    )


def _with_nearest(evidence: Evidence, best: Fit, rich: Fit) -> Fit:
    """A fit with several heads and the one-head SLALOM nearest to all of them."""
    counts = evidence.fit.counts
    predicted = replace(rich.surrogate, length_offsets=None).predict(counts)
    near = evidence.solved(
        FitRequest(
            counts,
            predicted,
            row_weights=best.row_weights,
            prior=max(best.prior, READABLE),
            offsets=evidence.offsets,
            extras=ANCHORED,
            start=best.surrogate,
            max_iterations=20,
            tolerance=CLOSE_ENOUGH,
        )
    )
    return replace(rich, surrogate=replace(rich.surrogate, nearest=near.surrogate))


def _covariances(evidence: Evidence, fit: Fit) -> tuple[Covariance, Covariance | None]:
    """Of the fit's parameters, and of its nearest one-head SLALOM's where there is one."""
    counts, outputs = evidence.fit.counts, evidence.fit.outputs
    spread = covariance(counts, outputs, fit, evidence.whole_variance)
    if fit.surrogate.nearest is None:
        return spread, None
    near = replace(
        fit,
        surrogate=fit.surrogate.nearest,
        prior=max(fit.prior, READABLE),
        extras=replace(fit.extras, additive=False),
    )
    return spread, covariance(counts, outputs, near, evidence.whole_variance)


def _steps(units: int) -> int:
    """Gauss-Newton steps a fit may take: fewer where each is dear, since later fits start from earlier ones."""
    return max(8, min(60, 20_000 // units))


def _without_prior(evidence: Evidence, before: Fit, hopeless: float | None) -> Fit:
    """A fit from where another ended, to the end, or until it is clear that it will not be exact."""
    counts, outputs = evidence.fit.counts, evidence.fit.outputs
    fit = evidence.solved(
        FitRequest(
            counts,
            outputs,
            sink=before.surrogate.has_sink,
            prior=PRIOR_FREE,
            offsets=evidence.offsets,
            extras=ANCHORED,
            start=before.surrogate,
            max_iterations=2 * _steps(counts.shape[1]),
            hopeless=hopeless,
        )
    )
    return replace(fit, exact=is_the_model(fit, before, evidence))


def _penalised_error(fit: Fit) -> float:
    """Where no rows are left to choose by: the error on the fitted rows, over the square of the share of rows not spent."""
    rows, surrogate = len(fit.residuals), fit.surrogate
    spent = 2 * (surrogate.units + surrogate.has_sink) - 1
    if rows <= spent:
        return math.inf if surrogate.has_sink else 0.0
    return float((fit.residuals**2).mean()) / (1 - spent / rows) ** 2
