"""What a sampling method knows of a text: perturbed texts with the model's outputs.

Some are fitted, some decide between fits, and some are kept for the report.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slalom_xai.methods.counts import Counts, table_of
from slalom_xai.methods.paper.fit import Fit, FitRequest, fit_each
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import OneScore
from slalom_xai.queries import Purpose, Queries, WorkPool
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.plan import HeldOut, Plan, draw_held_out, extend_plan, plan_rows
from slalom_xai.slalom.rows import (
    DESIGN,
    Masks,
    RowPool,
    count_distinct_rows,
    every_mask,
    held_out_size,
)
from slalom_xai.system.row_keys import Keys

Surrogate = BoundedSlalom | SlalomSurrogate | OneScore


@dataclass(frozen=True)
class AnsweredRows:
    """Rows with the model's answers.

    Attributes:
        counts: (m, n), where 1 keeps a unit with all its occurrences; perhaps not written out.
        outputs: (m, C).
    """

    counts: Counts
    outputs: Tensor

    @functools.cached_property
    def table(self) -> Tensor:
        """The counts written out, (m, n)."""
        return table_of(self.counts)

    @property
    def deleted(self) -> Tensor:
        """How many units are missing from each row, (m,)."""
        return self.table.shape[1] - self.table.sum(dim=1)

    def join(self, other: AnsweredRows) -> AnsweredRows:
        """These rows and then others."""
        return AnsweredRows(
            torch.cat([self.table, other.table]), torch.cat([self.outputs, other.outputs])
        )


@dataclass(frozen=True)
class AnsweredHeldOut:
    """Held-out rows with answers, of few and of many deletions."""

    local: AnsweredRows
    wide: AnsweredRows

    @property
    def both(self) -> tuple[AnsweredRows, AnsweredRows]:
        """Few and many deletions."""
        return self.local, self.wide

    @property
    def together(self) -> AnsweredRows:
        """All of them, each once: a short text has one set for both."""
        if torch.equal(self.local.table, self.wide.table):
            return self.wide
        return self.wide.join(self.local)

    def join(self, other: AnsweredHeldOut) -> AnsweredHeldOut:
        """These rows and then others."""
        return AnsweredHeldOut(self.local.join(other.local), self.wide.join(other.wide))


@dataclass(frozen=True)
class Evidence:
    """All a sampling method knows: rows to fit, to choose and to report on.

    Attributes:
        fit: rows to fit.
        choose: rows that decide between fits; None where none are left.
        report: rows for the report; None likewise.
        full: (C,), the model's outputs on the whole text.
        work: where fits and covariances are handed in, perhaps with those of other texts.
        whole_variance: (C,), of ``full``, where the model does not repeat itself; else None.
    """

    fit: AnsweredRows
    choose: AnsweredHeldOut | None
    report: AnsweredHeldOut | None
    full: Tensor
    work: WorkPool
    whole_variance: Tensor | None = None

    @property
    def settled(self) -> Evidence:
        """The same once the choice is made: the rows that decided it are fitted, too."""
        if self.choose is None:
            return self
        return replace(self, fit=self.fit.join(self.choose.together), choose=None)

    def fit_slalom(self, request: FitRequest) -> Fit:
        """The paper's SLALOM fitted as requested."""
        return self.fit_slaloms([request])[0]

    def fit_slaloms(self, requests: Sequence[FitRequest]) -> list[Fit]:
        """The paper's SLALOMs fitted as requested, those that are alike together."""
        return self.work.run(fit_each, requests)

    def errors(self, surrogate: Surrogate, rows: AnsweredRows) -> Tensor:
        """Predicted minus true change against the whole text, (m, C)."""
        whole = torch.ones_like(rows.table[:1])
        predicted = surrogate.predict(rows.table) - surrogate.predict(whole)
        return predicted - (rows.outputs - self.full)


# How many rows a text has, and how many a method may still ask.


def row_pool(queries: Queries) -> RowPool:
    """Hands out rows of the text that the model can tell from each other."""
    return RowPool(queries.prompt.interchangeable, queries.prompt.keys)


def accepts_empty(queries: Queries) -> bool:
    """Whether the text with everything removed is something that the model can read."""
    nothing = queries.prompt.row(~queries.prompt.whole[0])
    return nothing != "" and queries.model.size(nothing) != 0


def calls_before_test(queries: Queries) -> int:
    """Calls that a method may still spend before the test takes its share."""
    return queries.budget - queries.calls - held_out_size(queries.budget)


def calls_to_fit(queries: Queries, needed: int) -> int:
    """Calls left for a fit: all but the test's, or all where that is less than ``needed``."""
    calls = calls_before_test(queries)
    if calls >= needed:
        return calls
    return queries.budget - queries.calls


def count_rows(queries: Queries) -> int:
    """How many different rows the text has, the empty one not among them."""
    question = queries.prompt
    units = len(question.units)
    if units > DESIGN.enumerable or question.reading.keeps_places:
        return count_distinct_rows(question.interchangeable)
    return len(np.unique(question.keys(every_mask(units))))


def keys_kept_for_test(queries: Queries, parameters: int, rng: np.random.Generator) -> Keys:
    """The keys of rows that a fit must leave to the test, where it would otherwise ask all.

    Args:
        queries: asks about the text.
        parameters: what the fit must determine.
        rng: draws the rows.
    """
    rows = count_rows(queries)
    spare = min(rows, queries.budget) - 1 - parameters
    if rows > queries.budget or spare < DESIGN.least_held_out:
        return np.zeros(0, dtype=np.int64)
    size = min(held_out_size(queries.budget), spare // 2)
    kept = draw_held_out(row_pool(queries), size, rng)
    return queries.prompt.keys(np.concatenate([kept.local, kept.wide]))


# Gathers evidence: plans rows, asks the model about them, and asks for more in rounds.


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
            fit=evidence.fit.join(fit),
            choose=_join_held_out(evidence.choose, choose),
            report=_join_held_out(evidence.report, report),
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


def _join_held_out(
    before: AnsweredHeldOut | None, after: AnsweredHeldOut | None
) -> AnsweredHeldOut | None:
    if before is None or after is None:
        return before
    return before.join(after)
