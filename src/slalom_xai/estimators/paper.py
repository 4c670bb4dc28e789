"""The paper's three estimators. Equal units share their scores, which are copied to each place they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.designs import LEAST_HELD_OUT, HeldOut, Masks, Plan, Pool, held_out, held_out_rows, short_sequences, uniform_counts
from slalom_xai.errors import InputError, one_of
from slalom_xai.estimators.base import (
    Answered,
    AnsweredHeldOut,
    Evidence,
    Findings,
    answered_held_out,
    answered_plan,
    held_out_sets,
    linear_fit,
    measure,
    register,
    with_answers,
)
from slalom_xai.queries import Queries
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.influence import Covariance, covariance
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.published import fit_alternating, fit_by_sgd
from slalom_xai.surrogates.recover import recover, recover_with_sink, references
from slalom_xai.surrogates.rows import Counts, counts_of, table_of
from slalom_xai.surrogates.scores import slalom_standard_errors
from slalom_xai.surrogates.slalom import SlalomSurrogate

PRIOR = 1e-6  # next to nothing: what an exact SLALOM needs
EFF_PRIORS = (1e-2, PRIOR)
VANISHING_PRIORS = (1e-9, 1e-12, 1e-15)
CLOSE_ENOUGH = 1e-4  # a step that lowers the objective by less than this part ends a fit: held-out errors no longer tell
TRIED = 12  # steps
FEW_TO_REPORT = 40  # rows that slalom-eff is tested on at least, where there are so many
NEARLY, EXACT = 1e-4, 1e-8  # parts of the variance left: where a SLALOM is suspected, and where it is proven
# What slalom-fidel chooses from: the whole text's weight as a part of all other rows', and the prior.
# Scores are read as changes against the whole text, which as one row of many is fitted badly.
WITHOUT_SINK = ((0.1, 1e-3), (0.1, PRIOR))
WITH_SINK = ((0.1, 1e-2), (0.1, 1e-3), (1.0, 1e-2), (1.0, 1e-3))


@dataclass(frozen=True)
class Kinds:
    """The distinct units of a text.

    Attributes:
        place: (K,), a unit of each kind.
        of_unit: (n,), the kind of each unit.
        shift: (n,), what a kind's importance gains where a unit stands for several occurrences.
    """

    place: NDArray[np.int64]
    of_unit: NDArray[np.int64]
    shift: NDArray[np.float64]

    @classmethod
    def of(cls, queries: Queries) -> Kinds:
        """The kinds of the text that is asked about."""
        _, place, of_unit = np.unique(queries.prompt.codes, return_index=True, return_inverse=True)
        return cls(place, of_unit, np.log(queries.prompt.occurrences))

    def counts(self, masks: NDArray[np.bool_], occurrences: NDArray[np.int64]) -> NDArray[np.float64]:
        """Masks over units (m, n) to counts over kinds (m, K)."""
        onto = np.zeros((len(self.of_unit), len(self.place)))
        onto[np.arange(len(self.of_unit)), self.of_unit] = occurrences
        return np.asarray(masks @ onto)

    def spread(self, surrogate: SlalomSurrogate) -> SlalomSurrogate:
        """The same function over units."""
        units = torch.as_tensor(self.of_unit, device=surrogate.values.device)
        importances = surrogate.importances[:, units] + torch.as_tensor(self.shift, device=surrogate.values.device)
        return SlalomSurrogate(surrogate.values[:, units], importances, surrogate.sink_values, surrogate.sink_importances).normalised()

    def spread_covariance(self, covariance: Covariance, sink: bool) -> Covariance:
        """The covariance of the copied scores."""
        places = np.concatenate([self.of_unit, [len(self.place)]]) if sink else self.of_unit
        return covariance.spread(torch.as_tensor(places, device=covariance.joint.device))


@register
@dataclass(frozen=True)
class SlalomEff:
    """Algorithm 1: short random sequences of the text's distinct units.

    Attributes:
        length: units in a sequence. Equal lengths cannot show a sink, so none is fitted.
        solver: "gauss-newton", or "sgd", the paper's.
    """

    name: ClassVar[str] = "slalom-eff"
    summary: ClassVar[str] = "the paper's fast estimator: a value and an importance per distinct token from sequences of two tokens"
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    length: int = 2
    solver: str = "gauss-newton"

    def __post_init__(self) -> None:
        _check_solver(self.solver, ("gauss-newton", "sgd"))
        if self.length < 2:
            raise InputError(f"length is {self.length}: a sequence needs at least 2 units to show importances")

    def parameters(self, units: int, kinds: int) -> int:
        """A value and an importance per kind, less one; and the whole text."""
        return 2 * kinds

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks short sequences and fits."""
        # Rows of the report are as long as the text: no more of them than take about as long as all that is fitted.
        most = max(FEW_TO_REPORT, queries.budget * (self.length + 2) // len(queries.prompt.units))
        kinds, pool, report = _held_out_first(queries, self.parameters(0, queries.prompt.kinds), rng, most=most)
        rows = queries.budget - 1 - (report.rows if report else 0)
        sequences = short_sequences(pool, rows, self.length, rng, lambda units: queries.prompt.sequences(units).keys)
        outputs, tested = _sequences_and_report(queries, sequences, report)
        units, of_kind = (torch.as_tensor(places, device=outputs.device) for places in (sequences, kinds.of_unit[sequences]))
        evidence = _evidence(queries, counts_of(units, len(kinds.of_unit)), outputs, tested)
        by_kind = counts_of(of_kind, len(kinds.place))
        if self.solver == "sgd":
            surrogate = fit_by_sgd(table_of(by_kind), outputs, int(rng.integers(2**31)))
            return _findings(evidence, kinds, surrogate)
        return _fitted(evidence, kinds, by_kind, _with_best_prior(evidence, by_kind))


@register
@dataclass(frozen=True)
class SlalomFidel:
    """Algorithm 2: the text with a few units deleted.

    Attributes:
        deletions: units deleted at most in the rows to fit; the rows to choose between fits go twice as far, because a fit that
            follows few deletions closely may be far off a little beyond them.
        solver: "gauss-newton", with or without a sink by held-out error; or "alternating", the paper's, without.
    """

    name: ClassVar[str] = "slalom-fidel"
    summary: ClassVar[str] = "the paper's faithful estimator: a value and an importance per distinct token from up to 5 deletions"
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    deletions: int = 5
    solver: str = "gauss-newton"

    def __post_init__(self) -> None:
        _check_solver(self.solver, ("gauss-newton", "alternating"))
        if self.deletions < 1:
            raise InputError(f"deletions is {self.deletions}: give at least 1")

    def parameters(self, units: int, kinds: int) -> int:
        """A value and an importance per kind and for the sink, less one."""
        return 2 * kinds + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks deletions and fits."""
        parameters = self.parameters(0, queries.prompt.kinds)
        choosing = self.solver == "gauss-newton"
        kinds, pool, report = _held_out_first(queries, parameters, rng, parts=2 if choosing else 1)
        rows = queries.budget - 1 - (report.rows if report else 0)
        choose = self._rows_to_choose(pool, min(held_out_rows(queries.budget), rows - parameters), rng) if choosing and report else None
        deleted = uniform_counts(1, min(self.deletions, pool.units - 1), rng)
        drawn = pool.draw(rows - (0 if choose is None else len(choose)), deleted, rng)
        masks = np.concatenate([np.ones((1, pool.units), dtype=bool), drawn])
        fit, chosen, tested = answered_plan(queries, Plan(masks, None if choose is None else HeldOut(choose, choose), report))
        outputs = fit.outputs
        evidence = _evidence(queries, fit.counts, outputs, tested)
        by_kind = torch.as_tensor(kinds.counts(masks, queries.prompt.occurrences), device=outputs.device)
        if self.solver == "alternating":
            if outputs.shape[1] > 1:
                raise InputError("solver='alternating' explains one output: use the default solver for more classes")
            return _findings(evidence, kinds, fit_alternating(by_kind, outputs))
        if choose is None or chosen is None:
            return _fitted(evidence, kinds, by_kind, evidence.solved(FitRequest(by_kind, outputs, sink=False, prior=PRIOR)))
        rows_to_choose = torch.as_tensor(kinds.counts(choose, queries.prompt.occurrences), device=outputs.device)
        return _fitted(evidence, kinds, by_kind, _best_candidate(evidence, by_kind, rows_to_choose, chosen.local.outputs))

    def _rows_to_choose(self, pool: Pool, rows: int, rng: np.random.Generator) -> Masks | None:
        masks = pool.draw(rows, uniform_counts(1, min(2 * self.deletions, pool.units - 1), rng), rng, quota=True)
        return masks if len(masks) else None


@register
@dataclass(frozen=True)
class SlalomExact:
    """Proposition 5.2: as many calls as there are unknowns; exact where the model is a SLALOM, fragile elsewhere.

    Attributes:
        sink: recover a sink as well, from the empty text and repeated units; the model must accept an empty text.
    """

    name: ClassVar[str] = "slalom-exact"
    summary: ClassVar[str] = "the paper's recovery: 2 calls per distinct token, exact for a model that is a SLALOM and fragile for others"
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    sink: bool = False

    def parameters(self, units: int, kinds: int) -> int:
        """One call per unknown, and the whole text."""
        return 2 * kinds + (2 if self.sink else 0)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks single units and pairs and solves."""
        kinds, _, report = _held_out_first(queries, self.parameters(0, queries.prompt.kinds), rng, exact=True)
        surrogate, doubtful, counts, outputs = (self._with_sink if self.sink else self._without_sink)(queries, kinds)
        evidence = _evidence(queries, counts, outputs, answered_held_out(queries, report, "check"))
        names = ", ".join(repr(queries.prompt.units[kinds.place[k]].text) for k in doubtful[:5])
        note = (
            f"{len(doubtful)} of {len(kinds.place)} distinct units have ill-determined importances ({names}{', …' if len(doubtful) > 5 else ''}): "
            "the model is no exact SLALOM here; use method 'slalom'"
        )
        return _findings(evidence, kinds, surrogate, (note,) if doubtful else ())

    @staticmethod
    def _without_sink(queries: Queries, kinds: Kinds) -> tuple[SlalomSurrogate, list[int], Tensor, Tensor]:
        singles = queries.ask_sequences(kinds.place[:, None])
        chosen, _, high = references(singles)
        partners = [(place, kinds.place[int(chosen[k])]) for k, place in enumerate(kinds.place) if k != high]
        answers = queries.ask_sequences(np.array(partners))
        pairs = torch.cat([answers[:high], singles[high : high + 1], answers[high:]])
        surrogate, doubtful = recover(singles, pairs)
        rows = [(place,) for place in kinds.place] + partners
        return surrogate, doubtful, _unit_counts(rows, len(kinds.of_unit), singles), torch.cat([singles, answers])

    @staticmethod
    def _with_sink(queries: Queries, kinds: Kinds) -> tuple[SlalomSurrogate, list[int], Tensor, Tensor]:
        nothing = queries.prompt.row(np.zeros(len(kinds.of_unit), dtype=bool))
        if queries.model.size(nothing) == 0 or nothing == "":
            raise InputError("slalom-exact with a sink asks the empty text, which this model does not accept: use sink=False")
        empty = queries.ask(np.zeros((1, len(kinds.of_unit)), dtype=bool), "fit")[0]
        singles, doubles = (queries.ask_sequences(np.tile(kinds.place[:, None], times)) for times in (1, 2))
        surrogate, doubtful = recover_with_sink(empty, singles, doubles)
        rows = [(place,) * times for times in (1, 2) for place in kinds.place]
        return surrogate, doubtful, _unit_counts(rows, len(kinds.of_unit), singles), torch.cat([singles, doubles])


def _check_solver(given: str, valid: tuple[str, ...]) -> None:
    if given not in valid:
        raise one_of("solver", given, valid)


def _held_out_first(
    queries: Queries, parameters: int, rng: np.random.Generator, *, exact: bool = False, parts: int = 1, most: int | None = None
) -> tuple[Kinds, Pool, HeldOut | None]:
    """The rows to report on, drawn before any other, where the budget and the text leave some.

    With ``parts`` 2, as many are left for a choice; ``most`` limits them further.
    """
    kinds, pool = Kinds.of(queries), Pool(queries.prompt.codes, queries.prompt.keys)
    pool.take(np.ones((1, pool.units), dtype=bool))
    if exact:  # the rows of the recovery are given, so the report must do without them
        pairs = np.stack(np.meshgrid(kinds.place, kinds.place), axis=-1).reshape(-1, 2)
        for sequences in (kinds.place[:, None], pairs):
            pool.claim(queries.prompt.sequences(sequences).keys)
    spare = (queries.budget - parameters) // parts
    if spare < LEAST_HELD_OUT or pool.units < 5:
        return kinds, pool, None
    report = held_out(pool, min(held_out_rows(queries.budget), spare, spare if most is None else most), rng)
    return kinds, pool, report if report.complete else None


def _sequences_and_report(queries: Queries, sequences: NDArray[np.int64], report: HeldOut | None) -> tuple[Tensor, AnsweredHeldOut | None]:
    """Asks sequences and the rows to report on at once."""
    queries.asked_sequences = True
    tests = held_out_sets(report, "check")
    beside = [(queries.prompt.rows(masks), purpose) for masks, purpose in tests]
    outputs, *answers = queries.ask_rows((queries.prompt.sequences(sequences), "fit"), *beside)
    tested = [with_answers(masks, found) for (masks, _), found in zip(tests, answers, strict=True)]
    return outputs, AnsweredHeldOut(*tested) if tested else None


def _evidence(queries: Queries, counts: Counts, outputs: Tensor, report: AnsweredHeldOut | None) -> Evidence:
    full = queries.ask(np.ones((1, counts.shape[1]), dtype=bool), "check")[0]
    offsets = torch.as_tensor(np.log(queries.prompt.occurrences), device=outputs.device)
    return Evidence(Answered(counts, outputs), None, report, full, offsets, queries.asking)


def _with_best_prior(evidence: Evidence, counts: Counts) -> Fit:
    """Fits on nine rows of ten, without a sink, decide by the tenth how strong the prior is."""
    outputs = evidence.fit.outputs
    if len(counts) < 30:
        return evidence.solved(FitRequest(counts, outputs, sink=False, prior=PRIOR))
    test = torch.arange(len(counts), device=outputs.device) % 10 == 9
    rows, answers = counts[~test], outputs[~test]
    fits = evidence.all_solved([FitRequest(rows, answers, sink=False, prior=prior, tolerance=CLOSE_ENOUGH) for prior in EFF_PRIORS])
    left_out, true = table_of(counts[test]), outputs[test]
    best = min(fits, key=lambda fit: float(((fit.surrogate.predict(left_out) - true) ** 2).mean()))
    return evidence.solved(FitRequest(counts, outputs, sink=False, prior=best.prior, start=best.surrogate, tolerance=1e-5))


def _best_candidate(evidence: Evidence, counts: Tensor, choose: Tensor, answers: Tensor) -> Fit:
    """The candidate whose changes against the whole text, the first row of ``counts``, are nearest on the rows to choose.

    Deletions alone hold the scores of an exact SLALOM so loosely that any prior moves them. Where there seems to be one, the
    prior vanishes in steps, each starting from the last. If that leaves nothing, it is one, and a sink is not tried; if it
    leaves something, scores without a prior have run wild, and are dropped.
    """
    outputs = evidence.fit.outputs
    fits = _candidates(evidence, counts, False, WITHOUT_SINK)
    free = _vanishing(evidence, counts, fits[-1]) if _left(fits[-1], outputs) < NEARLY else []
    fits += free if free and _left(free[-1], outputs) < EXACT else _candidates(evidence, counts, True, WITH_SINK)

    def error(fit: Fit) -> float:
        predicted = fit.surrogate.predict(choose) - fit.surrogate.predict(counts[:1])
        return float(((predicted - (answers - outputs[0])) ** 2).mean())

    return min(fits, key=error)


def _candidates(evidence: Evidence, counts: Tensor, sink: bool, settings: Sequence[tuple[float, float]]) -> list[Fit]:
    """One fit for each setting, starting from the last one of the same prior, or else from the one before."""
    fits: list[Fit] = []
    outputs = evidence.fit.outputs
    for whole, prior in settings:
        weights = torch.ones_like(outputs[:, 0])
        weights[0] += whole * len(weights)
        start = next((fit for fit in fits if fit.prior == prior), fits[-1] if fits else None)
        given = None if start is None else start.surrogate
        fits.append(evidence.solved(FitRequest(counts, outputs, weights, sink, prior, start=given, tolerance=CLOSE_ENOUGH)))
    return fits


def _left(fit: Fit, outputs: Tensor) -> float:
    """The part of the variance that a fit leaves."""
    return float((fit.residuals**2).mean() / outputs.var(dim=0, correction=0).mean())


def _vanishing(evidence: Evidence, counts: Tensor, fit: Fit) -> list[Fit]:
    """Fits with ever weaker priors; none where the first steps with a weaker one do not leave far less, as they do of an exact SLALOM."""
    outputs = evidence.fit.outputs
    request = FitRequest(counts, outputs, fit.row_weights, False, VANISHING_PRIORS[0], start=fit.surrogate, tolerance=1e-12)
    tried = evidence.solved(replace(request, max_iterations=TRIED))
    if _left(tried, outputs) > max(EXACT, 0.5 * _left(fit, outputs)):
        return []
    fits = [tried]
    for prior in VANISHING_PRIORS:
        fits.append(evidence.solved(replace(request, prior=prior, start=fits[-1].surrogate, max_iterations=300)))
    return fits[1:]


def _fitted(evidence: Evidence, kinds: Kinds, by_kind: Counts, fit: Fit) -> Findings:
    surrogate = kinds.spread(fit.surrogate)
    spread = kinds.spread_covariance(covariance(by_kind, evidence.fit.outputs, fit), fit.surrogate.has_sink)
    errors = tuple(slalom_standard_errors(surrogate, spread, column) for column in range(len(evidence.full)))
    return Findings(surrogate, errors, measure(evidence, surrogate, linear_fit(evidence).surrogate))


def _findings(evidence: Evidence, kinds: Kinds, surrogate: SlalomSurrogate, notes: tuple[str, ...] = ()) -> Findings:
    """For solvers that say nothing about their errors."""
    spread = kinds.spread(surrogate)
    return Findings(spread, ({},) * len(evidence.full), measure(evidence, spread, linear_fit(evidence).surrogate), notes)


def _unit_counts(rows: Sequence[Sequence[np.int64]], units: int, like: Tensor) -> Tensor:
    counts = np.zeros((len(rows), units))
    for row, places in zip(counts, rows, strict=True):
        np.add.at(row, list(places), 1)
    return torch.as_tensor(counts, device=like.device)
