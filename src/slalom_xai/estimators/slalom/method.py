"""The main method: one SLALOM for small and large deletions at once.

It asks the model about the text with few and with many units deleted, fits SLALOMs with and
without a sink, with several priors and, where there are rows enough, with an additive head.
Held-out rows decide between them, and a linear explanation is among the candidates. The
simpler of two that are about as good is kept. Where rows ask for it, a process learns what is
left (``correcting``). Without a budget, calls are doubled while that
pays. The formula is in ``candidates``; SLALOM is from Leemann et al. (2024), the sink, the
priors and the choice are this package's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.designs import DESIGN
from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.evidence import Evidence
from slalom_xai.estimators.exactness import nothing_left
from slalom_xai.estimators.findings import linear_findings
from slalom_xai.estimators.gathering import Gathering
from slalom_xai.estimators.held_out import held_out_loss, linear_fit, measure
from slalom_xai.estimators.slalom.candidates import Candidates
from slalom_xai.estimators.slalom.choice import Choice, choose, linear_wins
from slalom_xai.estimators.slalom.correcting import Learnt, corrected, learn
from slalom_xai.estimators.slalom.interactions import calls_for_pairs, find_pairs
from slalom_xai.estimators.slalom.measuring import (
    Measured,
    measure_units,
    measured_error,
    missed_of_copies,
)
from slalom_xai.estimators.slalom.settings import SLALOM, SlalomSettings
from slalom_xai.queries import Queries
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.scores import slalom_score, slalom_standard_errors

LINEAR_WINS = (
    "A linear explanation predicts held-out deletions better here than any SLALOM: "
    "it is given instead, without importances."
)


@register
@dataclass(frozen=True)
class Slalom(Estimator):
    """Fits several SLALOMs to few and many deletions at once; held-out error chooses.

    A linear explanation is among the candidates.

    Attributes:
        priors: penalties on the importances to try with a sink, in units of the output's variance.
        sink: False leaves only the paper's SLALOM, without a sink and almost without a prior.
        heads: softmax averages to add up; None: one, with an additive head beside it where
            held-out rows ask for that.
        process: False leaves only the heads. Otherwise a Gaussian process predicts what they leave
            of deletions, where held-out rows ask for it.
        tolerance: without a budget, calls are asked in growing rounds until held-out error stops
            falling, or until the typical standard error of ``removal`` is this share of the
            largest score.
        settings: tuned numbers that need no attention.
    """

    name: ClassVar[str] = "slalom"
    summary: ClassVar[str] = (
        "a value and an importance per token: a softmax-weighted average fitted to few and many "
        "deletions at once"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    stops_by_itself: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True

    priors: Sequence[float] = (1e-1, 1e-2, 1e-3)
    sink: bool = True
    heads: int | None = None
    process: bool = True
    tolerance: float = 0.01
    settings: SlalomSettings = field(default=SLALOM, repr=False)

    def __post_init__(self) -> None:
        if self.heads is not None and not _whole_and_positive(self.heads):
            raise InputError(
                f"heads is {self.heads!r}: give a whole number of at least 1, "
                "or leave it out to choose by held-out error"
            )
        if not self.sink and self._several_heads:
            raise InputError(
                f"heads is {self.heads} with sink=False, but several heads need a sink: "
                "leave out sink=False, or use heads=1"
            )
        if not 0 <= self.tolerance < math.inf:
            raise InputError(
                f"tolerance is {self.tolerance!r}: give a share of the largest score, such as "
                "0.02, or 0 to use held-out error alone"
            )
        if not _positive_numbers(self.priors):
            raise InputError(
                f"priors is {self.priors!r}: give at least one positive number, such as (0.01,)"
            )

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per unit and for the sink, less one for the common shift.

        Not every importance asks for a call of its own: those that no row tells apart are held by
        their prior.
        """
        importances = min(units + 1, self.settings.most_free)
        return (self.heads or 1) * (units + importances)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Measures what calls allow, fits the candidates to deletions and keeps the best."""
        measured = self._measure(queries)
        question, calls = queries.prompt, 0
        if self.process:
            parameters = self.parameters(len(question.units), question.distinct)
            calls = calls_for_pairs(queries, measured, parameters)
        evidence, chosen = self._in_rounds(queries, rng, measured, calls)
        return self._concluded(queries, measured, evidence, chosen, calls)

    def _concluded(
        self,
        queries: Queries,
        measured: Measured,
        evidence: Evidence,
        chosen: Choice,
        calls: int = 0,
        preview: bool = False,
    ) -> Findings:
        """What is found out from these rows, and from calls that are left for pairs.

        A preview goes without a process, which takes longer than a person likes to wait.
        """
        linear = linear_fit(evidence)
        if evidence.choose is None:
            return self._findings(queries, evidence, chosen, measured, linear.surrogate)
        own = held_out_loss(evidence, chosen.surrogate)
        learnt = None
        if self.process and not preview and not chosen.exact and chosen.surrogate.has_sink:
            learnt = learn(evidence, chosen.surrogate, own)
        best = own if learnt is None else learnt.loss
        if linear_wins(evidence, linear.surrogate, own, best, self.settings.linear):
            return linear_findings(evidence, linear, (*measured.notes, LINEAR_WINS))
        if not chosen.exact:
            more = evidence.settled
            again = chosen.refitted(self._candidates(more))
            # It has seen these rows now. A process mends what it misses of others.
            if learnt is not None or held_out_loss(evidence, again.surrogate) <= own:
                evidence, chosen = more, again
        return self._findings(queries, evidence, chosen, measured, linear.surrogate, learnt, calls)

    def _measure(self, queries: Queries) -> Measured:
        """What the model is asked outright: nothing for the paper's SLALOM, which fits all."""
        question = queries.prompt
        if not self.sink:
            return Measured.nothing(len(question.units))
        parameters = self.parameters(len(question.units), question.distinct)
        measured = measure_units(queries, queries.distinct_budget, parameters)
        if measured.filled is None and self._several_heads:
            raise InputError(
                f"heads is {self.heads}, but then one value per unit must be measured, which was "
                f"not possible ({measured.notes[0]}) Use heads=1."
            )
        return measured

    def _findings(
        self,
        queries: Queries,
        evidence: Evidence,
        chosen: Choice,
        measured: Measured,
        linear: AdditiveSurrogate,
        learnt: Learnt | None = None,
        calls: int = 0,
    ) -> Findings:
        """The fit with what was measured, and with what was learnt beside it.

        A model that is a SLALOM exactly has importances of its own. For any other, they are fitted
        to the measured values.
        """
        candidates = self._candidates(evidence)
        surrogate, fit = chosen.surrogate, chosen.main
        spread = candidates.covariance(fit)
        reading, of_reading = None, None
        if measured.filled is not None and not chosen.exact:
            reading = candidates.two_scores(measured.filled, queries.noise)
            copies = None
            if measured.doubled is not None:
                copies = missed_of_copies(reading.two, measured.doubled, evidence.full)
            surrogate = replace(surrogate, two_scores=reading.two, repeats=copies)
            units = torch.arange(surrogate.units, device=evidence.full.device)
            of_reading = candidates.covariance(reading.fit).spread(units)
        tested, known, by_process = surrogate, None, {}
        if learnt is not None:
            known = learnt.sees(evidence.fit, surrogate, evidence.full, learnt.fitted)
            tested = replace(surrogate, correction=learnt.correction(known))
        pairs = find_pairs(queries, evidence, tested, known, calls)
        if learnt is not None and known is not None:
            with_process = corrected(learnt, evidence, surrogate, known, pairs.rows)
            surrogate, by_process = with_process.surrogate, with_process.errors
        surrogate = replace(surrogate, interactions=pairs.interactions)
        scores = measured.scores(evidence.full)
        fitted = replace(fit.surrogate, two_scores=surrogate.two_scores)
        widening = self._widening(queries, fit)
        errors = []
        for column in range(len(evidence.full)):
            by_sandwich = slalom_standard_errors(fitted, spread, column, of_reading)
            of_column = {name: widening * error for name, error in by_sandwich.items()}
            if reading is not None:
                error = reading.importance_errors(by_sandwich["importance"])
                of_column["importance"] = error
                linearized = reading.two.values[:, column] * torch.exp(reading.two.importances)
                of_column["linearized"] = linearized.abs() * error
            for name, error in by_process.items():
                of_column[name] = error[:, column]
            for name in scores:
                of_column[name] = measured_error(name, queries, column, surrogate.units)
            errors.append(of_column)
        fidelity = measure(evidence, tested, linear, chosen.exact)
        return Findings(surrogate, tuple(errors), fidelity, measured.notes, measured=scores)

    def _widening(self, queries: Queries, fit: Fit) -> float:
        """By how much misfit makes fitted scores less certain than their rows say.

        Noise is not misfit: the more of what the fit leaves is noise, the less they are widened.
        """
        if fit.exact:
            return 1.0
        noise = 0.0
        if queries.noise is not None and bool(queries.noise.isfinite().all()):
            left = float((fit.residuals**2).mean()) + TINY
            noise = min(1.0, float(queries.noise.mean()) / left)
        return math.sqrt(1 + (self.settings.steady_misfit**2 - 1) * (1 - noise))

    def _in_rounds(
        self, queries: Queries, rng: np.random.Generator, measured: Measured, kept_back: int
    ) -> tuple[Evidence, Choice]:
        """All the budget at once; or, where none was given, rounds while doubling calls pays.

        Args:
            queries: asks the model.
            rng: draws rows.
            measured: what was asked before.
            kept_back: calls that must be left in the end.
        """
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        gathering = Gathering(queries, parameters, rng)
        calls = min(queries.first or queries.budget, queries.distinct_budget - kept_back)
        evidence = gathering.first(calls - measured.beside, measured.masks)
        readable = measured.filled is not None
        chosen = self._best(evidence, readable)
        enumerated = len(question.units) <= DESIGN.enumerable
        if queries.first is None or evidence.choose is None or enumerated:
            return evidence, chosen
        most = queries.budget - kept_back
        while queries.calls < most and not self._certain_enough(evidence, chosen.main):
            known = partial(self._concluded, queries, measured, evidence, chosen, preview=True)
            queries.show(known)
            more = min(queries.calls, most - queries.calls)
            evidence = gathering.more(evidence, more)
            before, chosen = chosen, self._best(evidence, readable)
            old = held_out_loss(evidence, before.surrogate)
            new = held_out_loss(evidence, chosen.surrogate)
            if not old - new > self.settings.round_pays:
                break
        return evidence, chosen

    def _certain_enough(self, evidence: Evidence, fit: Fit) -> bool:
        """Whether the scores are as certain as was asked for."""
        surrogate = fit.surrogate
        spread = self._candidates(evidence).covariance(fit)
        worst = 0.0
        for column in range(len(evidence.full)):
            errors = slalom_standard_errors(surrogate, spread, column, names=("removal",))
            scores = slalom_score(surrogate, "removal", column)
            largest = float(scores.abs().max()) + TINY
            worst = max(worst, float(errors["removal"].median()) / largest)
        return worst <= self.tolerance

    def _candidates(self, evidence: Evidence) -> Candidates:
        return Candidates(evidence, self.priors, self.settings)

    @property
    def _several_heads(self) -> bool:
        return self.heads is not None and self.heads > 1

    def _best(self, evidence: Evidence, readable: bool) -> Choice:
        """The best of all candidates but the linear one.

        Args:
            evidence: the rows.
            readable: values were measured. Otherwise they are read from the fit, which must then
                have one head.
        """
        candidates = self._candidates(evidence)
        best = self._best_of_one_head(candidates)
        if self.heads is not None and self.heads > 1:
            return Choice(candidates.with_heads(best, self.heads))
        if self.heads == 1 or not readable or not self._may_gain_a_head(evidence, best):
            return Choice(best)
        return choose(evidence, best, candidates.with_additive_head(best))

    def _may_gain_a_head(self, evidence: Evidence, best: Fit) -> bool:
        """Whether there are rows enough for an additive head, and something left for it."""
        if best.exact or evidence.choose is None or not best.surrogate.has_sink:
            return False
        rows, units = evidence.fit.counts.shape
        if rows < self.settings.additive_head_rows * units:
            return False
        return not nothing_left(best, evidence)

    def _best_of_one_head(self, candidates: Candidates) -> Fit:
        free = None
        if not self._several_heads:
            free = candidates.without_sink(no_other_candidates=not self.sink)
        if free is not None and (not self.sink or free.exact):
            return free
        if candidates.evidence.choose is None:
            return self._best_by_fitted_rows(candidates, free)
        best = self._best_by_held_out_rows(candidates)
        return candidates.exact_with_sink(best) or best

    def _best_by_fitted_rows(self, candidates: Candidates, free: Fit | None) -> Fit:
        """Where no rows are left to choose by: few errors, but not by following every row."""
        fits = list(candidates.with_sink())
        weakest = min(self.settings.steady_prior, max(self.priors))
        trusted = [fit for fit in fits if fit.prior >= weakest]
        if free is not None:
            trusted.append(free)
        best = min(trusted, key=_penalised_error)
        return candidates.exact_with_sink(fits[-1]) or best

    def _best_by_held_out_rows(self, candidates: Candidates) -> Fit:
        """The first of the fits, strongest prior first, that the others do not beat clearly."""
        evidence, indifference = candidates.evidence, self.settings.indifference
        fits: list[Fit] = []
        losses: list[float] = []
        for fit in candidates.with_sink():
            fits.append(fit)
            losses.append(held_out_loss(evidence, fit.surrogate))
            if len(losses) > 1 and losses[-1] > losses[-2] - indifference:
                break  # what one weaker prior does not gain, still weaker ones do not either
        limit = min(losses) + indifference
        good = [fit for fit, loss in zip(fits, losses, strict=True) if loss <= limit]
        if evidence.whole_variance is None:
            return good[0]
        # Noise hides what a strong prior does to the scores, and intervals do not hold that.
        return good[-1]


def _penalised_error(fit: Fit) -> float:
    """The error on the fitted rows, over the square of the share of rows not spent.

    This is generalised cross-validation: p parameters spend p of the rows.
    """
    rows, surrogate = len(fit.residuals), fit.surrogate
    spent = 2 * (surrogate.units + surrogate.has_sink) - 1
    if rows > spent:
        return float((fit.residuals**2).mean()) / (1 - spent / rows) ** 2
    return math.inf if surrogate.has_sink else 0.0


def _whole_and_positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _positive_numbers(numbers: object) -> bool:
    if not isinstance(numbers, Sequence) or not numbers:
        return False
    return all(0 < number < math.inf for number in numbers)
