"""The paper's three estimators. Equal units share their scores, which are copied to each place they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.designs import (
    LEAST_HELD_OUT,
    HeldOut,
    Masks,
    Plan,
    Pool,
    held_out,
    held_out_rows,
    short_sequences,
    uniform_counts,
)
from slalom_xai.errors import InputError, one_of
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.distinct_units import (
    PRIOR,
    DistinctUnits,
    best_candidate,
    fitted_findings,
    plain_findings,
    with_best_prior,
)
from slalom_xai.estimators.evidence import (
    Answered,
    AnsweredHeldOut,
    Evidence,
    answered_held_out,
    answered_plan,
    held_out_sets,
    with_answers,
)
from slalom_xai.queries import Queries
from slalom_xai.surrogates.count_tables import Counts, counts_of, table_of
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.published import fit_alternating, fit_by_sgd
from slalom_xai.surrogates.recover import recover, recover_with_sink, references

FEW_TO_REPORT = 40  # rows that slalom-eff is tested on at least, where there are so many


@register
@dataclass(frozen=True)
class SlalomEff(Estimator):
    """Algorithm 1: short random sequences of the text's distinct units.

    Attributes:
        length: units in a sequence. Equal lengths cannot show a sink, so none is fitted.
        solver: "gauss-newton", or "sgd", the paper's.
    """

    name: ClassVar[str] = "slalom-eff"
    summary: ClassVar[str] = (
        "the paper's fast estimator: a value and an importance per distinct token from sequences of two tokens"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    length: int = 2
    solver: str = "gauss-newton"

    def __post_init__(self) -> None:
        _check_solver(self.solver, ("gauss-newton", "sgd"))
        if self.length < 2:
            raise InputError(
                f"length is {self.length}: give at least 2, because a single unit shows no importances"
            )

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per kind, less one; and the whole text."""
        return 2 * distinct

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks short sequences and fits."""
        # Rows of the report are as long as the text: no more of them than take about as long as all that is fitted.
        most = max(FEW_TO_REPORT, queries.budget * (self.length + 2) // len(queries.prompt.units))
        distinct, pool, report = _held_out_first(
            queries, self.parameters(0, queries.prompt.distinct), rng, most=most
        )
        rows = queries.budget - 1 - (report.rows if report else 0)
        sequences = short_sequences(
            pool, rows, self.length, rng, lambda units: queries.prompt.sequences(units).keys
        )
        outputs, tested = _sequences_and_report(queries, sequences, report)
        units, of_kind = (
            torch.as_tensor(places, device=outputs.device)
            for places in (sequences, distinct.of_unit[sequences])
        )
        evidence = _evidence(queries, counts_of(units, len(distinct.of_unit)), outputs, tested)
        by_kind = counts_of(of_kind, len(distinct.place))
        if self.solver == "sgd":
            surrogate = fit_by_sgd(table_of(by_kind), outputs, int(rng.integers(2**31)))
            return plain_findings(evidence, distinct, surrogate)
        return fitted_findings(evidence, distinct, by_kind, with_best_prior(evidence, by_kind))


@register
@dataclass(frozen=True)
class SlalomFidel(Estimator):
    """Algorithm 2: the text with a few units deleted.

    Attributes:
        deletions: units deleted at most in the rows to fit; the rows to choose between fits go twice as far, because a fit that
            follows few deletions closely may be far off a little beyond them.
        solver: "gauss-newton", with or without a sink by held-out error; or "alternating", the paper's, without.
    """

    name: ClassVar[str] = "slalom-fidel"
    summary: ClassVar[str] = (
        "the paper's faithful estimator: a value and an importance per distinct token from up to 5 deletions"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    deletions: int = 5
    solver: str = "gauss-newton"

    def __post_init__(self) -> None:
        _check_solver(self.solver, ("gauss-newton", "alternating"))
        if self.deletions < 1:
            raise InputError(f"deletions is {self.deletions}: give a whole number of at least 1")

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per kind and for the sink, less one."""
        return 2 * distinct + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks deletions and fits."""
        parameters = self.parameters(0, queries.prompt.distinct)
        choosing = self.solver == "gauss-newton"
        distinct, pool, report = _held_out_first(
            queries, parameters, rng, parts=2 if choosing else 1
        )
        rows = queries.budget - 1 - (report.rows if report else 0)
        choose = (
            self._rows_to_choose(pool, min(held_out_rows(queries.budget), rows - parameters), rng)
            if choosing and report
            else None
        )
        deleted = uniform_counts(1, min(self.deletions, pool.units - 1), rng)
        drawn = pool.draw(rows - (0 if choose is None else len(choose)), deleted, rng)
        masks = np.concatenate([np.ones((1, pool.units), dtype=bool), drawn])
        fit, chosen, tested = answered_plan(
            queries, Plan(masks, None if choose is None else HeldOut(choose, choose), report)
        )
        outputs = fit.outputs
        evidence = _evidence(queries, fit.counts, outputs, tested)
        by_kind = torch.as_tensor(
            distinct.counts(masks, queries.prompt.occurrences), device=outputs.device
        )
        if self.solver == "alternating":
            if outputs.shape[1] > 1:
                raise InputError(
                    "solver='alternating' explains one output: use the default solver for more classes"
                )
            return plain_findings(evidence, distinct, fit_alternating(by_kind, outputs))
        if choose is None or chosen is None:
            return fitted_findings(
                evidence,
                distinct,
                by_kind,
                evidence.solved(FitRequest(by_kind, outputs, sink=False, prior=PRIOR)),
            )
        rows_to_choose = torch.as_tensor(
            distinct.counts(choose, queries.prompt.occurrences), device=outputs.device
        )
        return fitted_findings(
            evidence,
            distinct,
            by_kind,
            best_candidate(evidence, by_kind, rows_to_choose, chosen.local.outputs),
        )

    def _rows_to_choose(self, pool: Pool, rows: int, rng: np.random.Generator) -> Masks | None:
        masks = pool.draw(
            rows, uniform_counts(1, min(2 * self.deletions, pool.units - 1), rng), rng, quota=True
        )
        return masks if len(masks) else None


@register
@dataclass(frozen=True)
class SlalomExact(Estimator):
    """Proposition 5.2: as many calls as there are unknowns; exact where the model is a SLALOM, fragile elsewhere.

    Attributes:
        sink: recover a sink as well, from the empty text and repeated units; the model must accept an empty text.
    """

    name: ClassVar[str] = "slalom-exact"
    summary: ClassVar[str] = (
        "the paper's recovery: 2 calls per distinct token, exact for a model that is a SLALOM and fragile for others"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    sink: bool = False

    def parameters(self, units: int, distinct: int) -> int:
        """One call per unknown, and the whole text."""
        return 2 * distinct + (2 if self.sink else 0)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks single units and pairs and solves."""
        distinct, _, report = _held_out_first(
            queries, self.parameters(0, queries.prompt.distinct), rng, exact=True
        )
        surrogate, doubtful, counts, outputs = (
            self._with_sink if self.sink else self._without_sink
        )(queries, distinct)
        evidence = _evidence(queries, counts, outputs, answered_held_out(queries, report, "check"))
        names = ", ".join(repr(queries.prompt.units[distinct.place[k]].text) for k in doubtful[:5])
        note = (
            f"{len(doubtful)} of {len(distinct.place)} distinct units have ill-determined importances ({names}{', …' if len(doubtful) > 5 else ''}): "
            "the model is not an exact SLALOM here; use method 'slalom'"
        )
        return plain_findings(evidence, distinct, surrogate, (note,) if doubtful else ())

    @staticmethod
    def _without_sink(
        queries: Queries, distinct: DistinctUnits
    ) -> tuple[SlalomSurrogate, list[int], Tensor, Tensor]:
        singles = queries.ask_sequences(distinct.place[:, None])
        chosen, _, high = references(singles)
        partners = [
            (place, distinct.place[int(chosen[k])])
            for k, place in enumerate(distinct.place)
            if k != high
        ]
        answers = queries.ask_sequences(np.array(partners))
        pairs = torch.cat([answers[:high], singles[high : high + 1], answers[high:]])
        surrogate, doubtful = recover(singles, pairs)
        rows = [(place,) for place in distinct.place] + partners
        return (
            surrogate,
            doubtful,
            _unit_counts(rows, len(distinct.of_unit), singles),
            torch.cat([singles, answers]),
        )

    @staticmethod
    def _with_sink(
        queries: Queries, distinct: DistinctUnits
    ) -> tuple[SlalomSurrogate, list[int], Tensor, Tensor]:
        nothing = queries.prompt.row(np.zeros(len(distinct.of_unit), dtype=bool))
        if queries.model.size(nothing) == 0 or nothing == "":
            raise InputError(
                "slalom-exact with a sink asks the empty text, which this model does not accept: use sink=False"
            )
        empty = queries.ask(np.zeros((1, len(distinct.of_unit)), dtype=bool), "fit")[0]
        singles, doubles = (
            queries.ask_sequences(np.tile(distinct.place[:, None], times)) for times in (1, 2)
        )
        surrogate, doubtful = recover_with_sink(empty, singles, doubles)
        rows = [(place,) * times for times in (1, 2) for place in distinct.place]
        return (
            surrogate,
            doubtful,
            _unit_counts(rows, len(distinct.of_unit), singles),
            torch.cat([singles, doubles]),
        )


def _check_solver(given: str, valid: tuple[str, ...]) -> None:
    if given not in valid:
        raise one_of("solver", given, valid)


def _held_out_first(
    queries: Queries,
    parameters: int,
    rng: np.random.Generator,
    *,
    exact: bool = False,
    parts: int = 1,
    most: int | None = None,
) -> tuple[DistinctUnits, Pool, HeldOut | None]:
    """The rows to report on, drawn before any other, where the budget and the text leave some.

    With ``parts`` 2, as many are left for a choice; ``most`` limits them further.
    """
    distinct, pool = DistinctUnits.of(queries), Pool(queries.prompt.codes, queries.prompt.keys)
    pool.take(np.ones((1, pool.units), dtype=bool))
    if exact:  # the rows of the recovery are given, so the report must do without them
        pairs = np.stack(np.meshgrid(distinct.place, distinct.place), axis=-1).reshape(-1, 2)
        for sequences in (distinct.place[:, None], pairs):
            pool.claim(queries.prompt.sequences(sequences).keys)
    spare = (queries.budget - parameters) // parts
    if spare < LEAST_HELD_OUT or pool.units < 5:
        return distinct, pool, None
    report = held_out(
        pool, min(held_out_rows(queries.budget), spare, spare if most is None else most), rng
    )
    return distinct, pool, report if report.complete else None


def _sequences_and_report(
    queries: Queries, sequences: NDArray[np.int64], report: HeldOut | None
) -> tuple[Tensor, AnsweredHeldOut | None]:
    """Asks sequences and the rows to report on at once."""
    queries.asked_sequences = True
    tests = held_out_sets(report, "check")
    beside = [(queries.prompt.rows(masks), purpose) for masks, purpose in tests]
    outputs, *answers = queries.ask_rows((queries.prompt.sequences(sequences), "fit"), *beside)
    tested = [with_answers(masks, found) for (masks, _), found in zip(tests, answers, strict=True)]
    return outputs, AnsweredHeldOut(*tested) if tested else None


def _evidence(
    queries: Queries, counts: Counts, outputs: Tensor, report: AnsweredHeldOut | None
) -> Evidence:
    full = queries.ask(np.ones((1, counts.shape[1]), dtype=bool), "check")[0]
    offsets = torch.as_tensor(np.log(queries.prompt.occurrences), device=outputs.device)
    return Evidence(Answered(counts, outputs), None, report, full, offsets, queries.pool)


def _unit_counts(rows: Sequence[Sequence[np.int64]], units: int, like: Tensor) -> Tensor:
    counts = np.zeros((len(rows), units))
    for row, places in zip(counts, rows, strict=True):
        np.add.at(row, list(places), 1)
    return torch.as_tensor(counts, device=like.device)
