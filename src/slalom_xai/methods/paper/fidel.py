"""slalom-fidel, Algorithm 2 of the paper: a SLALOM from the text with a few units deleted.

The fit is the paper's least squares over values v and importances s of distinct units, with
counts c_t of each in a row,

    F(c) = sum_t c_t exp(s_t) v_t / sum_t c_t exp(s_t).

It is faithful near the whole text. Farther away nothing was seen, so rows with twice as many
deletions decide between the fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.evidence import ask_plan
from slalom_xai.methods.paper.distinct_units import DistinctUnits, fitted_findings, plain_findings
from slalom_xai.methods.paper.fits import best_candidate, fit_alternating, fit_without_choice
from slalom_xai.methods.paper.rows import (
    calls_besides,
    check_solver,
    draw_report,
    evidence_of,
    pool_of_distinct,
)
from slalom_xai.queries import Queries
from slalom_xai.slalom.plan import HeldOut, Plan
from slalom_xai.slalom.rows import DrawNumbers, Masks, RowPool, held_out_size, uniform_counts


@register
@dataclass(frozen=True)
class SlalomFidel(Estimator):
    """Algorithm 2: the text with a few units deleted.

    Attributes:
        deletions: units deleted at most in the rows to fit; the rows to choose between fits go
            twice as far, because a fit that follows few deletions closely may be far off a little
            beyond them.
        solver: "gauss-newton", with or without a sink by held-out error; or "alternating", the
            paper's, without.
    """

    name: ClassVar[str] = "slalom-fidel"
    summary: ClassVar[str] = (
        "the paper's faithful estimator: a value and an importance per distinct token from up to "
        "5 deletions"
    )
    additive: ClassVar[bool] = False
    combines: ClassVar[bool] = True
    removal: ClassVar[str | None] = "delete"

    deletions: int = 5
    solver: str = "gauss-newton"

    def __post_init__(self) -> None:
        check_solver(self.solver, ("gauss-newton", "alternating"))
        if self.deletions < 1:
            raise InputError(f"deletions is {self.deletions}: give a whole number of at least 1")

    def parameters(self, units: int, distinct: int) -> int:
        """A value and an importance per distinct unit and for the sink, less one."""
        return 2 * distinct + 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks deletions and fits."""
        distinct = DistinctUnits.of(queries)
        plan = self._plan(queries, rng)
        fit, choose, report = ask_plan(queries, plan)
        outputs = fit.outputs
        evidence = evidence_of(queries, fit.table, outputs, report)

        def counts_over_distinct(masks: Masks) -> Tensor:
            counts = distinct.counts(masks, queries.prompt.occurrences)
            return torch.as_tensor(counts, device=outputs.device)

        counts = counts_over_distinct(plan.fit)
        if self.solver == "alternating":
            if outputs.shape[1] > 1:
                raise InputError(
                    "solver='alternating' explains one output: "
                    "use the default solver for more classes"
                )
            return plain_findings(evidence, distinct, fit_alternating(counts, outputs))
        if plan.choose is None or choose is None:
            best = fit_without_choice(evidence, counts)
        else:
            rows = counts_over_distinct(plan.choose.local)
            best = best_candidate(evidence, counts, rows, choose.local.outputs)
        return fitted_findings(evidence, distinct, best)

    def _plan(self, queries: Queries, rng: np.random.Generator) -> Plan:
        """Rows to report on are drawn first, then those to choose by, then those to fit."""
        pool = pool_of_distinct(queries)
        parameters = self.parameters(len(queries.prompt.units), queries.prompt.distinct)
        chooses = self.solver == "gauss-newton"
        spare = queries.budget - parameters
        report = draw_report(pool, queries, spare // 2 if chooses else spare, rng)
        rows = calls_besides(queries, report)
        choose = None
        if chooses and report is not None:
            size = min(held_out_size(queries.budget), rows - parameters)
            choose = self._rows_to_choose(pool, size, rng)
        if choose is not None:
            rows -= choose.size
        masks = pool.draw(rows, self._draw_deletions(pool, self.deletions, rng), rng)
        return Plan(np.concatenate([queries.prompt.whole, masks]), choose, report)

    def _rows_to_choose(self, pool: RowPool, rows: int, rng: np.random.Generator) -> HeldOut | None:
        deleted = self._draw_deletions(pool, 2 * self.deletions, rng)
        masks = pool.draw(rows, deleted, rng, quota=True)
        return HeldOut(masks, masks) if len(masks) else None

    @staticmethod
    def _draw_deletions(pool: RowPool, most: int, rng: np.random.Generator) -> DrawNumbers:
        """Numbers deleted, up to ``most`` and fewer than all units."""
        return uniform_counts(1, min(most, pool.units - 1), rng)
