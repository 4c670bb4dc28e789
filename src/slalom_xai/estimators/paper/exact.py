"""slalom-exact, Proposition 5.2 of the paper: a SLALOM solved for, not fitted.

Without a sink, the answer to a single unit is its value. The answer to a pair (a, b) then gives
the difference of their importances,

    s_a - s_b = log((f(ab) - v_b) / (v_a - f(ab))).

With a sink, the empty text gives the sink's value, and a unit alone and twice give the rest. The
equations are ``surrogates.recover``'s. This is exact for a model that is a SLALOM. For others the
argument of the logarithm may be anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import HeldOut
from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.gathering import ask_held_out
from slalom_xai.estimators.paper.distinct_units import DistinctUnits, plain_findings
from slalom_xai.estimators.paper.row_plans import (
    draw_report,
    evidence_of,
    pool_of_distinct,
    unit_counts,
)
from slalom_xai.estimators.row_budget import accepts_empty
from slalom_xai.queries import Queries
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.recover import recover, recover_with_sink, references

NAMED = 5  # doubtful units that a note names


@dataclass(frozen=True)
class Recovered:
    """A solved SLALOM.

    Attributes:
        surrogate: over distinct units.
        doubtful: which of them have importances that no SLALOM explains.
        counts: (m, n), the rows that were asked.
        outputs: (m, C), the answers.
    """

    surrogate: SlalomSurrogate
    doubtful: list[int]
    counts: Tensor
    outputs: Tensor


@register
@dataclass(frozen=True)
class SlalomExact(Estimator):
    """Proposition 5.2: as many calls as there are unknowns.

    It is exact where the model is a SLALOM, and fragile elsewhere.

    Attributes:
        sink: recover a sink as well, from the empty text and repeated units; the model must
            accept an empty text.
    """

    name: ClassVar[str] = "slalom-exact"
    summary: ClassVar[str] = (
        "the paper's recovery: 2 calls per distinct token, exact for a model that is a SLALOM and "
        "fragile for others"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    removal: ClassVar[str | None] = "delete"

    sink: bool = False

    def parameters(self, units: int, distinct: int) -> int:
        """One call per unknown, and the whole text."""
        unknowns = 2 * distinct
        if self.sink:
            unknowns += 2
        return unknowns

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks single units and pairs and solves."""
        distinct = DistinctUnits.of(queries)
        report = self._draw_report(queries, distinct, rng)
        if self.sink:
            solved = _solve_with_sink(queries, distinct)
        else:
            solved = _solve_without_sink(queries, distinct)
        tested = ask_held_out(queries, report, "check")
        evidence = evidence_of(queries, solved.counts, solved.outputs, tested)
        notes = _notes(queries, distinct, solved.doubtful)
        return plain_findings(evidence, distinct, solved.surrogate, notes)

    def _draw_report(
        self, queries: Queries, distinct: DistinctUnits, rng: np.random.Generator
    ) -> HeldOut | None:
        """Rows to report on that are none of those that the recovery asks."""
        pool = pool_of_distinct(queries)
        singles = distinct.first[:, None]
        pairs = np.stack(np.meshgrid(distinct.first, distinct.first), axis=-1).reshape(-1, 2)
        for sequences in (singles, pairs):
            pool.claim(queries.prompt.sequences(sequences).keys)
        parameters = self.parameters(len(queries.prompt.units), queries.prompt.distinct)
        return draw_report(pool, queries, queries.budget - parameters, rng)


def _solve_without_sink(queries: Queries, distinct: DistinctUnits) -> Recovered:
    """Asks every distinct unit alone and in a pair with a reference."""
    first = distinct.first
    singles = queries.ask_sequences(first[:, None])
    chosen, _, high = references(singles)
    partners = first[chosen.cpu().numpy()]
    pairs = np.delete(np.stack([first, partners], axis=1), high, axis=0)
    answers = queries.ask_sequences(pairs)
    with_high = torch.cat([answers[:high], singles[high : high + 1], answers[high:]])
    surrogate, doubtful = recover(singles, with_high)
    counts = unit_counts([first[:, None], pairs], distinct.units, singles)
    return Recovered(surrogate, doubtful, counts, torch.cat([singles, answers]))


def _solve_with_sink(queries: Queries, distinct: DistinctUnits) -> Recovered:
    """Asks the empty text, and every distinct unit alone and twice."""
    if not accepts_empty(queries):
        raise InputError(
            "slalom-exact with a sink asks the empty text, which this model does not accept: "
            "use sink=False"
        )
    empty = queries.ask(~queries.prompt.whole, "fit")[0]
    once = distinct.first[:, None]
    twice = np.tile(once, 2)
    singles, doubles = queries.ask_sequences(once), queries.ask_sequences(twice)
    surrogate, doubtful = recover_with_sink(empty, singles, doubles)
    counts = unit_counts([once, twice], distinct.units, singles)
    return Recovered(surrogate, doubtful, counts, torch.cat([singles, doubles]))


def _notes(queries: Queries, distinct: DistinctUnits, doubtful: list[int]) -> tuple[str, ...]:
    """Which units have importances that no SLALOM explains."""
    if not doubtful:
        return ()
    units = queries.prompt.units
    names = ", ".join(repr(units[distinct.first[index]].text) for index in doubtful[:NAMED])
    if len(doubtful) > NAMED:
        names += ", …"
    return (
        f"{len(doubtful)} of {len(distinct)} distinct units have ill-determined importances "
        f"({names}): the model is not an exact SLALOM here; use method 'slalom'",
    )
