"""Gathers evidence: plans rows, asks the model about them, and asks for more in rounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import HeldOut, Masks, Plan, extend_plan, plan_rows
from slalom_xai.estimators.evidence import AnsweredHeldOut, AnsweredRows, Evidence
from slalom_xai.estimators.row_budget import row_pool
from slalom_xai.queries import Purpose, Queries

MaskSet = tuple[Masks, Purpose]


def gather(queries: Queries, parameters: int, rng: np.random.Generator) -> Evidence:
    """Plans rows for the whole budget and asks them.

    Args:
        queries: asks the model.
        parameters: what a fit must determine.
        rng: draws the rows.
    """
    return Gathering(queries, parameters, rng).first(queries.distinct_budget)


class Gathering:
    """Asks in rounds; no row is asked twice, and none changes its purpose.

    Args:
        queries: asks the model.
        parameters: what a fit must determine.
        rng: draws the rows.
    """

    def __init__(self, queries: Queries, parameters: int, rng: np.random.Generator) -> None:
        self._queries, self._parameters, self._rng = queries, parameters, rng
        self._pool = row_pool(queries)

    def first(self, budget: int, always: Masks | None = None) -> Evidence:
        """The first round, of so many calls.

        Args:
            budget: calls.
            always: (m, n), rows to fit in any case.
        """
        queries = self._queries
        codes = queries.prompt.interchangeable
        plan = plan_rows(codes, budget, self._parameters, self._rng, pool=self._pool, always=always)
        fit, choose, report = ask_plan(queries, plan)
        return Evidence(
            fit,
            choose,
            report,
            fit.outputs[0],
            queries.work,
            queries.whole_variance,
        )

    def more(self, evidence: Evidence, calls: int) -> Evidence:
        """The evidence with so many more calls."""
        plan = extend_plan(self._pool, calls, self._rng)
        fit, choose, report = ask_plan(self._queries, plan)
        return replace(
            evidence,
            fit=evidence.fit.joined(fit),
            choose=_joined(evidence.choose, choose),
            report=_joined(evidence.report, report),
        )


def ask_masks(queries: Queries, masks: Masks, purpose: Purpose) -> AnsweredRows:
    """Asks the model about masks (m, n)."""
    return with_answers(masks, queries.ask(masks, purpose))


def ask_plan(
    queries: Queries, plan: Plan
) -> tuple[AnsweredRows, AnsweredHeldOut | None, AnsweredHeldOut | None]:
    """Asks the rows to fit, to choose and to report on, all at once."""
    choose, report = mask_sets(plan.choose, "fit"), mask_sets(plan.report, "check")
    fit, *held_out = _ask_together(queries, [(plan.fit, "fit"), *choose, *report])
    return fit, _held_out(held_out[: len(choose)]), _held_out(held_out[len(choose) :])


def ask_held_out(
    queries: Queries, rows: HeldOut | None, purpose: Purpose
) -> AnsweredHeldOut | None:
    """Asks held-out rows; None where there are none."""
    if rows is None:
        return None
    return _held_out(_ask_together(queries, mask_sets(rows, purpose)))


def mask_sets(rows: HeldOut | None, purpose: Purpose) -> list[MaskSet]:
    """The masks of held-out rows, local and wide; an empty list where there are no such rows."""
    if rows is None:
        return []
    return [(rows.local, purpose), (rows.wide, purpose)]


def with_answers(masks: Masks, outputs: Tensor) -> AnsweredRows:
    """Masks (m, n) and what the model answered, (m, C)."""
    counts = torch.as_tensor(masks, device=outputs.device).to(outputs.dtype)
    return AnsweredRows(counts, outputs)


def _ask_together(queries: Queries, sets: list[MaskSet]) -> list[AnsweredRows]:
    """Asks several sets of rows at once: large batches of similar length are fastest."""
    asked = [(queries.prompt.rows(masks), purpose) for masks, purpose in sets]
    outputs = queries.ask_rows(*asked)
    return [with_answers(masks, answers) for (masks, _), answers in zip(sets, outputs, strict=True)]


def _held_out(sets: list[AnsweredRows]) -> AnsweredHeldOut | None:
    """Local and wide rows as one; None for no sets."""
    if not sets:
        return None
    local, wide = sets
    return AnsweredHeldOut(local, wide)


def _joined(
    before: AnsweredHeldOut | None, after: AnsweredHeldOut | None
) -> AnsweredHeldOut | None:
    if before is None or after is None:
        return before
    return before.joined(after)
