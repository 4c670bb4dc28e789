"""What a sampling method knows of a text: rows with the model's answers, gathered in rounds, and how well a surrogate predicts them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import HeldOut, Masks, Plan, Pool, more_rows, plan_rows
from slalom_xai.queries import Asking, Purpose, Queries
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.fit import Fit, fit_each
from slalom_xai.surrogates.influence import inverse_variance
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.quality import Fidelity, agreement
from slalom_xai.surrogates.rows import Counts, table_of
from slalom_xai.surrogates.slalom import SlalomSurrogate

Surrogate = SlalomSurrogate | AdditiveSurrogate


@dataclass(frozen=True)
class Answered:
    """Rows with the model's answers: counts (m, n), where 1 keeps a unit with all its occurrences, and outputs (m, C)."""

    rows: Counts
    outputs: Tensor

    @functools.cached_property
    def counts(self) -> Tensor:
        """The counts as a table."""
        return table_of(self.rows)

    @property
    def deleted(self) -> Tensor:
        """Units missing from each row, (m,)."""
        return self.counts.shape[1] - self.counts.sum(dim=1)

    def joined(self, other: Answered) -> Answered:
        """These rows and then others."""
        return Answered(torch.cat([self.counts, other.counts]), torch.cat([self.outputs, other.outputs]))


@dataclass(frozen=True)
class AnsweredHeldOut:
    """Held-out rows with answers."""

    local: Answered
    wide: Answered


@dataclass(frozen=True)
class Evidence:
    """All a sampling method knows: rows to fit, to choose and to report on.

    Attributes:
        full: (C,), the model's outputs on the whole text.
        offsets: (n,), the log of each unit's occurrences: its importance before anything is known of it.
        asking: works out fits, perhaps with those of other texts.
    """

    fit: Answered
    choose: AnsweredHeldOut | None
    report: AnsweredHeldOut | None
    full: Tensor
    offsets: Tensor
    asking: Asking

    def solved(self, request: FitRequest) -> Fit:
        """A SLALOM fitted as requested."""
        return self.all_solved([request])[0]

    def all_solved(self, requests: Sequence[FitRequest]) -> list[Fit]:
        """SLALOMs fitted as requested, those that are alike together."""
        return self.asking.worked_out(fit_each, requests)

    def errors(self, surrogate: Surrogate, rows: Answered) -> Tensor:
        """Predicted minus true change against the whole text, (m, C)."""
        everything = torch.ones_like(rows.counts[:1])
        predicted = surrogate.predict(rows.counts) - surrogate.predict(everything)
        return predicted - (rows.outputs - self.full)


def gather(queries: Queries, parameters: int, rng: np.random.Generator) -> Evidence:
    """Plans rows for the whole budget and asks them."""
    return Gathering(queries, parameters, rng).first(queries.budget)


class Gathering:
    """Asks in rounds; no row is asked twice, and none changes its purpose."""

    def __init__(self, queries: Queries, parameters: int, rng: np.random.Generator) -> None:
        self._queries, self._parameters, self._rng = queries, parameters, rng
        self._pool = Pool(queries.prompt.interchangeable, queries.prompt.keys)

    def first(self, budget: int) -> Evidence:
        """The first round, of so many calls."""
        queries = self._queries
        plan = plan_rows(queries.prompt.interchangeable, budget, self._parameters, self._rng, pool=self._pool)
        fit, choose, report = answered_plan(queries, plan)
        return Evidence(
            fit,
            choose,
            report,
            fit.outputs[0],
            torch.as_tensor(np.log(queries.prompt.occurrences), device=fit.outputs.device),
            queries.asking,
        )

    def more(self, evidence: Evidence, calls: int) -> Evidence:
        """The evidence with so many more calls."""
        queries = self._queries
        plan = more_rows(self._pool, calls, self._rng)
        fit, choose, report = answered_plan(queries, plan)
        return replace(
            evidence, fit=evidence.fit.joined(fit), choose=_joined(evidence.choose, choose), report=_joined(evidence.report, report)
        )


def _joined(before: AnsweredHeldOut | None, after: AnsweredHeldOut | None) -> AnsweredHeldOut | None:
    if before is None or after is None:
        return before
    return AnsweredHeldOut(before.local.joined(after.local), before.wide.joined(after.wide))


def answered(queries: Queries, masks: Masks, purpose: Purpose) -> Answered:
    """Asks rows."""
    return with_answers(masks, queries.ask(masks, purpose))


def answered_sets(queries: Queries, *sets: tuple[Masks, Purpose]) -> list[Answered]:
    """Asks several sets of rows at once: large batches of similar length are fastest."""
    outputs = queries.ask_rows(*((queries.prompt.rows(masks), purpose) for masks, purpose in sets))
    return [with_answers(masks, answers) for (masks, _), answers in zip(sets, outputs, strict=True)]


def answered_plan(queries: Queries, plan: Plan) -> tuple[Answered, AnsweredHeldOut | None, AnsweredHeldOut | None]:
    """Asks the rows to fit, to choose and to report on."""
    held_out = held_out_sets(plan.choose, "fit") + held_out_sets(plan.report, "check")
    fit, *others = answered_sets(queries, (plan.fit, "fit"), *held_out)
    choose = AnsweredHeldOut(*others[:2]) if plan.choose is not None else None
    return fit, choose, AnsweredHeldOut(*others[-2:]) if plan.report is not None else None


def held_out_sets(rows: HeldOut | None, purpose: Purpose) -> list[tuple[Masks, Purpose]]:
    """The sets of masks of held-out rows, local and wide; none where there are no such rows."""
    return [] if rows is None else [(rows.local, purpose), (rows.wide, purpose)]


def answered_held_out(queries: Queries, rows: HeldOut | None, purpose: Purpose) -> AnsweredHeldOut | None:
    """Asks held-out rows."""
    return None if rows is None else AnsweredHeldOut(*answered_sets(queries, *held_out_sets(rows, purpose)))


def with_answers(masks: Masks, outputs: Tensor) -> Answered:
    """Masks (m, n) and what the model answered, (m, C)."""
    return Answered(torch.as_tensor(masks, device=outputs.device).to(outputs.dtype), outputs)


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise: the log error on local plus that on wide rows, so that neither regime drowns the other."""
    assert evidence.choose is not None
    floor = 1e-14 * (evidence.fit.outputs**2).mean() + 1e-300
    both = [(evidence.errors(surrogate, rows) ** 2).mean() for rows in (evidence.choose.local, evidence.choose.wide)]
    return float(torch.stack(both).clamp(min=floor).log().sum())


def linear_fit(evidence: Evidence) -> AdditiveFit:
    """The linear explanation of the same calls, weighted like them or not, whichever held-out rows prefer."""
    rows = evidence.fit
    plain = fit_additive(rows.rows, rows.outputs, evidence.full)
    if evidence.choose is None:
        return plain
    weights = inverse_variance(plain.surrogate.predict(rows.counts) - rows.outputs, rows.deleted)
    weighted = fit_additive(rows.rows, rows.outputs, evidence.full, weights)
    return min(plain, weighted, key=lambda fit: held_out_loss(evidence, fit.surrogate))


def measure(evidence: Evidence, surrogate: Surrogate, linear: AdditiveSurrogate) -> tuple[Fidelity, ...] | None:
    """Fidelity per column on the rows kept for the report."""
    if evidence.report is None:
        return None
    compared = []
    for fitted in (surrogate, linear):
        for rows in (evidence.report.local, evidence.report.wide):
            true = (rows.outputs - evidence.full).cpu()
            predicted = true + evidence.errors(fitted, rows).cpu()
            levels = rows.outputs.abs().amax(dim=0).tolist()
            compared.append([agreement(predicted[:, c], true[:, c], level) for c, level in enumerate(levels)])
    return tuple(Fidelity(*of_column) for of_column in zip(*compared, strict=True))
