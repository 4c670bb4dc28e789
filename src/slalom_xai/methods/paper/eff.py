"""slalom-eff, Algorithm 1 of the paper: a SLALOM from short random sequences.

The model is asked about sequences of two distinct units of the text, any of them in any order.
For a pair (a, b), a SLALOM answers

    (exp(s_a) v_a + exp(s_b) v_b) / (exp(s_a) + exp(s_b)).

Short sequences are fast to answer, but say nothing about how the model reads long texts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.counts import Sequences
from slalom_xai.methods.evidence import AnsweredHeldOut, Evidence, mask_sets, with_answers
from slalom_xai.methods.paper.distinct_units import DistinctUnits, fitted_findings, plain_findings
from slalom_xai.methods.paper.fits import fit_by_sgd, fit_with_best_prior
from slalom_xai.methods.paper.rows import (
    PAPER,
    calls_besides,
    check_solver,
    draw_report,
    evidence_of,
    pool_of_distinct,
    short_sequences,
)
from slalom_xai.queries import Queries
from slalom_xai.slalom.plan import HeldOut

_UNTESTED = "Nothing was tested, as tested=False asks: how far to trust these scores is not known."


@register
@dataclass(frozen=True)
class SlalomEff(Estimator):
    """Algorithm 1: short random sequences of the text's distinct units.

    Attributes:
        length: units in a sequence. Equal lengths cannot show a sink, so none is fitted.
        solver: "gauss-newton", or "sgd", the paper's.
        tested: False asks no rows as long as the text but the text itself. That is much faster on
            large models, and nothing then says how far the scores can be trusted.
    """

    name: ClassVar[str] = "slalom-eff"
    summary: ClassVar[str] = (
        "the paper's fast estimator: a value and an importance per distinct token from sequences "
        "of two tokens"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    removal: ClassVar[str | None] = "delete"

    length: int = 2
    solver: str = "gauss-newton"
    tested: bool = True

    def __post_init__(self) -> None:
        check_solver(self.solver, ("gauss-newton", "sgd"))
        if self.length < 2:
            raise InputError(
                f"length is {self.length}: give at least 2, "
                "because a single unit shows no importances"
            )

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per distinct unit, less one; and the whole text."""
        return 2 * distinct

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks short sequences and fits."""
        question = queries.prompt
        distinct, pool = DistinctUnits.of(queries), pool_of_distinct(queries)
        spare = queries.budget - self.parameters(len(question.units), question.distinct)
        report = None
        if self.tested:
            report = draw_report(pool, queries, spare, rng, most=self._most_to_report(queries))
        sequences = short_sequences(
            pool,
            calls_besides(queries, report),
            self.length,
            rng,
            lambda units: question.sequences(units).keys,
        )
        outputs, tested = _ask_sequences_and_report(queries, sequences, report)
        units = torch.as_tensor(sequences, device=outputs.device)
        evidence = evidence_of(queries, Sequences(units, distinct.units), outputs, tested)
        of_distinct = torch.as_tensor(distinct.of_unit[sequences], device=outputs.device)
        counts = Sequences(of_distinct, len(distinct))
        found = self._fit(evidence, distinct, counts, rng)
        if self.tested:
            return found
        return replace(found, notes=(*found.notes, _UNTESTED))

    def _fit(
        self,
        evidence: Evidence,
        distinct: DistinctUnits,
        counts: Sequences,
        rng: np.random.Generator,
    ) -> Findings:
        """What the solver makes of counts (m, distinct units)."""
        outputs = evidence.fit.outputs
        if self.solver == "sgd":
            surrogate = fit_by_sgd(counts.table(), outputs, int(rng.integers(2**31)))
            return plain_findings(evidence, distinct, surrogate)
        fit = fit_with_best_prior(evidence, counts)
        return fitted_findings(evidence, distinct, fit)

    def _most_to_report(self, queries: Queries) -> int:
        """Rows of the report are as long as the text: few enough not to take longer than the fit's.

        A row takes about as long as it has tokens; two are special.
        """
        as_long = queries.budget * (self.length + 2) // len(queries.prompt.units)
        return max(PAPER.eff_least_report, as_long)


def _ask_sequences_and_report(
    queries: Queries, sequences: NDArray[np.int64], report: HeldOut | None
) -> tuple[Tensor, AnsweredHeldOut | None]:
    """Asks sequences (m, length) and the rows to report on at once."""
    queries.asked_sequences = True
    tests = mask_sets(report, "check")
    beside = [(queries.prompt.rows(masks), purpose) for masks, purpose in tests]
    outputs, *answers = queries.ask_rows((queries.prompt.sequences(sequences), "fit"), *beside)
    if report is None:
        return outputs, None
    local, wide = answers
    return outputs, AnsweredHeldOut(
        with_answers(report.local, local), with_answers(report.wide, wide)
    )
