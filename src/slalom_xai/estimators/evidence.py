"""What a sampling method knows of a text: rows with the model's answers, gathered in rounds, and how well a surrogate predicts them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import HeldOut, Masks, Plan, Pool, more_rows, plan_rows, rows_of_every_size
from slalom_xai.queries import Purpose, Queries, WorkPool
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.count_tables import Counts, table_of
from slalom_xai.surrogates.fit import Fit, fit_each
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.quality import Agreement, Fidelity, agreement
from slalom_xai.surrogates.row_weights import inverse_variance

Surrogate = SlalomSurrogate | AdditiveSurrogate

MARGIN = 0.1  # of the range of all answers: what a prediction may go beyond it


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
        return Answered(
            torch.cat([self.counts, other.counts]), torch.cat([self.outputs, other.outputs])
        )


@dataclass(frozen=True)
class AnsweredHeldOut:
    """Held-out rows with answers."""

    local: Answered
    wide: Answered

    @property
    def both(self) -> tuple[Answered, Answered]:
        """Few and many deletions."""
        return self.local, self.wide


@dataclass(frozen=True)
class Evidence:
    """All a sampling method knows: rows to fit, to choose and to report on.

    Attributes:
        full: (C,), the model's outputs on the whole text.
        offsets: (n,), the log of each unit's occurrences: its importance before anything is known of it.
        pool: where fits are handed in, perhaps with those of other texts.
        whole_variance: (C,), of ``full``, where the model does not repeat itself; None where it does.
    """

    fit: Answered
    choose: AnsweredHeldOut | None
    report: AnsweredHeldOut | None
    full: Tensor
    offsets: Tensor
    pool: WorkPool
    whole_variance: Tensor | None = None

    def solved(self, request: FitRequest) -> Fit:
        """A SLALOM fitted as requested."""
        return self.all_solved([request])[0]

    def all_solved(self, requests: Sequence[FitRequest]) -> list[Fit]:
        """SLALOMs fitted as requested, those that are alike together."""
        return self.pool.run(fit_each, requests)

    def errors(self, surrogate: Surrogate, rows: Answered) -> Tensor:
        """Predicted minus true change against the whole text, (m, C)."""
        everything = torch.ones_like(rows.counts[:1])
        predicted = surrogate.predict(rows.counts) - surrogate.predict(everything)
        return predicted - (rows.outputs - self.full)

    def beyond(self, surrogate: Surrogate, rows: Answered) -> Tensor:
        """Squared error that rows do not show: of predictions that leave the range of answers, (C,).

        A SLALOM without a sink, above all, can follow all rows it has seen and still blow up on
        others that keep few units. So rows of every size are predicted, too, that are not asked.
        """
        elsewhere = self._outside(surrogate.predict(self.unasked))
        return (elsewhere - self._outside(surrogate.predict(rows.counts))).clamp(min=0)

    def _outside(self, predicted: Tensor) -> Tensor:
        """Mean squared distance from the mean answer, (C,), of predictions (m, C) out of range."""
        lowest, mean, highest = self._answers
        margin = MARGIN * (highest - lowest)
        outside = (predicted < lowest - margin) | (predicted > highest + margin)
        return (outside * (predicted - mean) ** 2).mean(dim=0)

    @functools.cached_property
    def unasked(self) -> Tensor:
        """Rows of every size that nobody asks about, (m, n)."""
        masks = rows_of_every_size(self.fit.counts.shape[1])
        return torch.as_tensor(masks, device=self.full.device).to(self.full.dtype)

    @functools.cached_property
    def _answers(self) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest, the mean and the highest of all answers, (C,) each."""
        held_out = [part for part in (self.choose, self.report) if part is not None]
        sets = [self.fit, *(rows for part in held_out for rows in part.both)]
        outputs = torch.cat([rows.outputs for rows in sets])
        return outputs.amin(dim=0), outputs.mean(dim=0), outputs.amax(dim=0)


def gather(queries: Queries, parameters: int, rng: np.random.Generator) -> Evidence:
    """Plans rows for the whole budget and asks them."""
    return Gathering(queries, parameters, rng).first(queries.distinct_budget)


class Gathering:
    """Asks in rounds; no row is asked twice, and none changes its purpose."""

    def __init__(self, queries: Queries, parameters: int, rng: np.random.Generator) -> None:
        self._queries, self._parameters, self._rng = queries, parameters, rng
        self._pool = Pool(queries.prompt.interchangeable, queries.prompt.keys)

    def first(self, budget: int) -> Evidence:
        """The first round, of so many calls."""
        queries = self._queries
        plan = plan_rows(
            queries.prompt.interchangeable, budget, self._parameters, self._rng, pool=self._pool
        )
        fit, choose, report = answered_plan(queries, plan)
        return Evidence(
            fit,
            choose,
            report,
            fit.outputs[0],
            torch.as_tensor(np.log(queries.prompt.occurrences), device=fit.outputs.device),
            queries.pool,
            queries.whole_variance,
        )

    def more(self, evidence: Evidence, calls: int) -> Evidence:
        """The evidence with so many more calls."""
        queries = self._queries
        plan = more_rows(self._pool, calls, self._rng)
        fit, choose, report = answered_plan(queries, plan)
        return replace(
            evidence,
            fit=evidence.fit.joined(fit),
            choose=_joined(evidence.choose, choose),
            report=_joined(evidence.report, report),
        )


def _joined(
    before: AnsweredHeldOut | None, after: AnsweredHeldOut | None
) -> AnsweredHeldOut | None:
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


def answered_plan(
    queries: Queries, plan: Plan
) -> tuple[Answered, AnsweredHeldOut | None, AnsweredHeldOut | None]:
    """Asks the rows to fit, to choose and to report on."""
    held_out = held_out_sets(plan.choose, "fit") + held_out_sets(plan.report, "check")
    fit, *others = answered_sets(queries, (plan.fit, "fit"), *held_out)
    choose = AnsweredHeldOut(*others[:2]) if plan.choose is not None else None
    return fit, choose, AnsweredHeldOut(*others[-2:]) if plan.report is not None else None


def held_out_sets(rows: HeldOut | None, purpose: Purpose) -> list[tuple[Masks, Purpose]]:
    """The sets of masks of held-out rows, local and wide; none where there are no such rows."""
    return [] if rows is None else [(rows.local, purpose), (rows.wide, purpose)]


def answered_held_out(
    queries: Queries, rows: HeldOut | None, purpose: Purpose
) -> AnsweredHeldOut | None:
    """Asks held-out rows."""
    return (
        None
        if rows is None
        else AnsweredHeldOut(*answered_sets(queries, *held_out_sets(rows, purpose)))
    )


def with_answers(masks: Masks, outputs: Tensor) -> Answered:
    """Masks (m, n) and what the model answered, (m, C)."""
    return Answered(torch.as_tensor(masks, device=outputs.device).to(outputs.dtype), outputs)


def held_out_errors(evidence: Evidence, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
    """Mean squared errors on the local and on the wide rows to choose by.

    What the surrogate predicts beyond the range of all answers counts as an error of wide rows.
    """
    assert evidence.choose is not None
    local = (evidence.errors(surrogate, evidence.choose.local) ** 2).mean()
    wide = (evidence.errors(surrogate, evidence.choose.wide) ** 2).mean()
    return local, wide + evidence.beyond(surrogate, evidence.choose.wide).mean()


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise: the log errors of few and of many deletions, so that neither drowns the other."""
    floor = 1e-14 * (evidence.fit.outputs**2).mean() + 1e-300
    both = torch.stack(held_out_errors(evidence, surrogate))
    return float(both.clamp(min=floor).log().sum())


def linear_fit(evidence: Evidence) -> AdditiveFit:
    """The linear explanation of the same calls, weighted like them or not, whichever held-out rows prefer."""
    rows = evidence.fit
    plain = fit_additive(rows.rows, rows.outputs, evidence.full)
    if evidence.choose is None:
        return replace(plain, whole_variance=evidence.whole_variance)
    weights = inverse_variance(plain.surrogate.predict(rows.counts) - rows.outputs, rows.deleted)
    weighted = fit_additive(rows.rows, rows.outputs, evidence.full, weights)
    best = min(plain, weighted, key=lambda fit: held_out_loss(evidence, fit.surrogate))
    return replace(best, whole_variance=evidence.whole_variance)


def measure(
    evidence: Evidence, surrogate: Surrogate, linear: AdditiveSurrogate, exact: bool = False
) -> tuple[Fidelity, ...] | None:
    """Fidelity per column on the rows kept for the report.

    Args:
        evidence: with the rows.
        surrogate: what is measured.
        linear: what it is compared with.
        exact: the surrogate is the model: what it predicts beyond all answers is right.
    """
    if evidence.report is None:
        return None
    compared = []
    for fitted in (surrogate, linear):
        nowhere = beyond = [0.0] * len(evidence.full)
        if not (exact and fitted is surrogate):
            beyond = evidence.beyond(fitted, evidence.report.wide).tolist()
        compared.append(_agreements(evidence, fitted, evidence.report.local, nowhere))
        compared.append(_agreements(evidence, fitted, evidence.report.wide, beyond))
    return tuple(Fidelity(*of_column) for of_column in zip(*compared, strict=True))


def _agreements(
    evidence: Evidence, surrogate: Surrogate, rows: Answered, beyond: list[float]
) -> list[Agreement]:
    """How well changes are predicted, for each column."""
    true = (rows.outputs - evidence.full).cpu()
    predicted = true + evidence.errors(surrogate, rows).cpu()
    levels = rows.outputs.abs().amax(dim=0).tolist()
    return [
        agreement(predicted[:, c], true[:, c], levels[c], beyond[c]) for c in range(len(levels))
    ]
