"""Learns what the heads leave: a process beside a share of them, where held-out rows ask for it.

    F(x) = P(x) + share * m(x) * (H(x) - f(all)),      m(x) the share of units that x lacks

For each share, a process is fitted to what that share of the heads leaves of the fitted rows. Rows
that neither has seen choose the share, or the heads alone. Then the process sees all rows: those
that chose and, where rows are few, those of the report, whose fidelity is measured before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import AnsweredRows, Evidence
from slalom_xai.estimators.held_out import held_out_losses
from slalom_xai.surrogates.conditioning import Changes, Conditioned, conditioned
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.process import Kernel, Noise
from slalom_xai.surrogates.process_fit import ProcessSettings, fit_kernel
from slalom_xai.surrogates.process_shapley import process_shapley

LEARNING = ProcessSettings(
    grows=True,
    most_rows=900,
    sampled_rows=900,
    steps=6,
    halved_from=600,
    pull=0.3,
    mean_pull=0.3,
    hold=0.02,
    lowest=-30.0,
    highest=30.0,
)


@dataclass(frozen=True)
class CorrectingSettings:
    """How much work a correction is worth.

    Attributes:
        shares: of the heads that are tried.
        most_seen: rows that a process sees at most. Time grows with their cube, memory and the size
            of files with their square and number.
        few_rows: rows up to which those of the report and of pairs are seen in the end, too.
        clearly: log errors, local and wide together, by which the heads alone must be better. Few
            rows choose, and a process that is no better does little harm.
        more_steps: evaluations for every share but the first, which begin where that one ended.
        kernel: how a kernel is searched for.
    """

    shares: tuple[float, ...] = (0.0, 0.5)
    most_seen: int = 6_000
    few_rows: int = 1_500
    clearly: float = 0.3
    more_steps: int = 3
    kernel: ProcessSettings = field(default=LEARNING)


CORRECTING = CorrectingSettings()


@dataclass(frozen=True)
class Learnt:
    """What was learnt beside the heads.

    Attributes:
        share: of the heads.
        kernel: of the process on what they leave.
        noise: of it.
        loss: the held-out loss with it.
        fitted: the process after it has seen the rows to fit.
    """

    share: float
    kernel: Kernel
    noise: Noise
    loss: float = math.inf
    fitted: Conditioned | None = None

    def sees(
        self,
        rows: AnsweredRows,
        heads: SlalomSurrogate,
        full: Tensor,
        before: Conditioned | None = None,
    ) -> Conditioned:
        """The process after it has seen what the heads leave of rows.

        Args:
            rows: with the model's answers.
            heads: that predict, too.
            full: (C,), the model's output on the whole text.
            before: the process after it has seen the first of these rows, if there is one.
        """
        left = _left(rows, heads, full, self.share)
        if len(left.rows) > CORRECTING.most_seen:
            left, before = left.some(CORRECTING.most_seen, torch.Generator().manual_seed(0)), None
        return conditioned(self.kernel, self.noise, left, full, before)

    def correction(self, known: Conditioned, shapley: Tensor | None = None) -> Correction:
        """The process as a part of what predicts, with the Shapley values (n, C) of all of it."""
        share = known.rows.new_tensor(self.share)
        if shapley is None:
            shapley = known.rows.new_zeros(known.process.units, len(known.scale))
        return Correction(share, known.process, shapley)

    def by_heads(self, heads: SlalomSurrogate, full: Tensor) -> Callable[[Tensor], Tensor] | None:
        """What the heads add to predictions for rows (m, n), (m, C); None where they do not."""
        if self.share == 0:
            return None
        return lambda table: _by_heads(table, heads, full, self.share)


def learn(evidence: Evidence, heads: SlalomSurrogate, loss: float) -> Learnt | None:
    """The share of the heads and the process beside it that predict held-out rows best.

    Args:
        evidence: with rows to choose by.
        heads: fitted to other rows.
        loss: the held-out loss of the heads alone.

    Returns:
        None where the heads alone are clearly better.
    """
    trial = evidence.choice.rows
    by_heads = trial.predict(heads)
    loss = loss + CORRECTING.clearly
    best: Learnt | None = None
    search, near = CORRECTING.kernel, None
    for share in CORRECTING.shares:
        generator = torch.Generator().manual_seed(0)
        left = _left(evidence.fit, heads, evidence.full, share)
        left = replace(left, moves=evidence.moves)
        near = kernel, noise = fit_kernel(left, search, generator, near)
        search = replace(search, steps=CORRECTING.more_steps)
        tried = Learnt(share, kernel, noise)
        known = tried.sees(evidence.fit, heads, evidence.full)
        predicted = tried.correction(known).applied(by_heads, trial.table)
        here = float(held_out_losses(evidence, predicted))
        if here < loss:
            best, loss = replace(tried, loss=here, fitted=known), here
    return best


@dataclass(frozen=True)
class Corrected:
    """A surrogate with a process beside its heads, and how sure its scores are.

    Attributes:
        surrogate: predicts.
        errors: standard errors (n, C) of the scores that are read from what predicts deletions.
    """

    surrogate: SlalomSurrogate
    errors: dict[str, Tensor]


def corrected(
    learnt: Learnt,
    evidence: Evidence,
    surrogate: SlalomSurrogate,
    known: Conditioned,
    more: AnsweredRows | None = None,
) -> Corrected:
    """The surrogate with a process that has seen further rows where rows are few.

    Args:
        learnt: the share of the heads, and the process.
        evidence: with all rows.
        surrogate: its heads were fitted to these rows.
        known: the process after it has seen the rows to fit.
        more: rows that were asked beside these and those of the report; None for none.
    """
    rows = _with_others(evidence, more)
    if rows is not evidence.fit:
        known = learnt.sees(rows, surrogate, evidence.full, known)
    shapley = process_shapley(known, learnt.by_heads(surrogate, evidence.full))
    only = torch.eye(surrogate.units).to(known.rows)
    errors = {
        "alone": known.standard_errors(only),
        "removal": known.standard_errors(1 - only),
        "shapley": shapley.errors,
    }
    noise = evidence.whole_variance
    if noise is not None:  # the whole text is in a removal, and in a Shapley value once in n
        errors["removal"] = (errors["removal"] ** 2 + noise).sqrt()
        errors["shapley"] = (errors["shapley"] ** 2 + noise / surrogate.units**2).sqrt()
    correction = learnt.correction(known, shapley.values)
    return Corrected(replace(surrogate, correction=correction), errors)


def _with_others(evidence: Evidence, more: AnsweredRows | None) -> AnsweredRows:
    """The rows that are fitted and, where they are few, those of the report and further ones."""
    rows = evidence.fit
    if len(rows.outputs) > CORRECTING.few_rows:
        return rows
    report = None if evidence.report is None else evidence.report.together
    for others in (report, more):
        if others is not None:
            rows = rows.joined(others)
    return rows


def _left(rows: AnsweredRows, heads: SlalomSurrogate, full: Tensor, share: float) -> Changes:
    """What a share of the heads leaves of the changes, in rows that delete something."""
    deleting = rows.deleted > 0
    table = rows.table[deleting]
    changes = rows.outputs[deleting] - full
    if share > 0:
        changes = changes - _by_heads(table, heads, full, share)
    return Changes.of(table, changes)


def _by_heads(table: Tensor, heads: SlalomSurrogate, full: Tensor, share: float) -> Tensor:
    """What a share of the heads adds to predictions for rows (m, n), (m, C)."""
    missing = 1 - table.mean(dim=1, keepdim=True)
    return share * missing * (heads.predict(table) - full)
