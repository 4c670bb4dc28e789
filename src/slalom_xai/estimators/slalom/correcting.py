"""Learns what the heads leave: a process beside a share of them, where held-out rows ask for it.

    F(x) = P(x) + share * m(x) * (H(x) - f(all)),      m(x) the share of units that x lacks

For each share, a process is fitted to what that share of the heads leaves of the fitted rows. Rows
that neither has seen choose the share, or the heads alone. Then the process sees all rows: those
that chose and, where rows are few, those of the report, whose fidelity is measured before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import AnsweredRows, Evidence
from slalom_xai.estimators.held_out import held_out_losses
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.process import Conditioned, Kernel, Noise
from slalom_xai.surrogates.process_fit import Changes, ProcessSettings, fit_kernel
from slalom_xai.surrogates.process_shapley import process_shapley

LEARNING = ProcessSettings(
    grows=True, steps=20, pull=0.3, mean_pull=0.3, hold=0.02, lowest=-30.0, highest=30.0
)


@dataclass(frozen=True)
class CorrectingSettings:
    """How much work a correction is worth.

    Attributes:
        shares: of the heads, tried in turn until one is worse than the one before.
        rows_per_unit: rows that decide a kernel, for each unit; it has two numbers a unit.
        fewest_rows: rows that decide it in a short text.
        most_rows: rows that decide it in a long text. Time grows with their cube.
        choosing_rows: rows that a process sees while shares are compared; more hardly change
            which is best.
        few_rows: rows up to which those of the report are seen in the end, too.
        clearly: log errors, local and wide together, by which the heads alone must be better. Few
            rows choose, and a process that is no better does little harm.
        more_steps: evaluations for every share but the first, which begin where that one ended.
        kernel: how a kernel is searched for. The pulls are those that predicted best on texts
            and models that were used to find them; twice or half of them hardly matter.
    """

    shares: tuple[float, ...] = (0.0, 0.5)
    rows_per_unit: int = 6
    fewest_rows: int = 150
    most_rows: int = 700
    choosing_rows: int = 6_000
    few_rows: int = 1_500
    clearly: float = 0.3
    more_steps: int = 8
    kernel: ProcessSettings = field(default=LEARNING)

    def search(self, units: int) -> ProcessSettings:
        """How a kernel is searched for in a text of so many units."""
        rows = max(self.fewest_rows, min(self.most_rows, self.rows_per_unit * units))
        return replace(self.kernel, most_rows=rows, sampled_rows=rows)


CORRECTING = CorrectingSettings()


@dataclass(frozen=True)
class Learnt:
    """What was learnt beside the heads.

    Attributes:
        share: of the heads.
        kernel: of the process on what they leave.
        noise: of it.
        loss: the held-out loss with it.
    """

    share: float
    kernel: Kernel
    noise: Noise
    loss: float

    def sees(self, rows: AnsweredRows, heads: SlalomSurrogate, full: Tensor) -> Conditioned:
        """The process after it has seen what the heads leave of rows."""
        left = _left(rows, heads, full, self.share)
        return left.seen_by(self.kernel, self.noise, full)

    def correction(self, known: Conditioned, shapley: Tensor | None = None) -> Correction:
        """The process as a part of what predicts, with the Shapley values (n, C) of all of it."""
        share = known.rows.new_tensor(self.share)
        if shapley is None:
            shapley = known.rows.new_zeros(known.process.units, len(known.scale))
        return Correction(share, known.process, shapley)


def learn(
    evidence: Evidence, heads: SlalomSurrogate, settings: CorrectingSettings = CORRECTING
) -> Learnt | None:
    """The share of the heads and the process beside it that predict held-out rows best.

    Args:
        evidence: with rows to choose by.
        heads: fitted to other rows.
        settings: how much work it is worth.

    Returns:
        None where the heads alone are clearly better.
    """
    trial = evidence.choice.rows
    by_heads = trial.predict(heads)
    loss = float(held_out_losses(evidence, by_heads)) + settings.clearly
    best: Learnt | None = None
    before = torch.inf
    search, near = settings.search(heads.units), None
    for share in settings.shares:
        generator = torch.Generator().manual_seed(0)
        left = _left(evidence.fit, heads, evidence.full, share)
        near = kernel, noise = fit_kernel(left, search, generator, near)
        search = replace(search, steps=settings.more_steps)
        some = left.some(settings.choosing_rows, generator)
        known = some.seen_by(kernel, noise, evidence.full)
        tried = Learnt(share, kernel, noise, 0.0)
        predicted = tried.correction(known).applied(by_heads, trial.table)
        here = float(held_out_losses(evidence, predicted))
        if here < loss:
            best, loss = replace(tried, loss=here), here
        if here > before:
            break
        before = here
    return best


@dataclass(frozen=True)
class Corrected:
    """A surrogate with a process beside its heads, and how sure its scores are.

    Attributes:
        surrogate: predicts.
        tested: the same before it has seen the rows of the report.
        errors: standard errors (n, C) of the scores that are read from what predicts deletions.
    """

    surrogate: SlalomSurrogate
    tested: SlalomSurrogate
    errors: dict[str, Tensor]


def corrected(learnt: Learnt, evidence: Evidence, surrogate: SlalomSurrogate) -> Corrected:
    """The surrogate with a process that has seen all rows, perhaps those of the report, too.

    Args:
        learnt: the share of the heads, and the process.
        evidence: with all rows.
        surrogate: its heads were fitted to these rows.
    """
    known = learnt.sees(evidence.fit, surrogate, evidence.full)
    tested = replace(surrogate, correction=learnt.correction(known))
    rows = _all_rows(evidence)
    if rows is not evidence.fit:
        known = learnt.sees(rows, surrogate, evidence.full)
    unscored = replace(surrogate, correction=learnt.correction(known))
    shapley = process_shapley(known, unscored.predict)
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
    return Corrected(replace(surrogate, correction=correction), tested, errors)


def _all_rows(evidence: Evidence) -> AnsweredRows:
    """The rows that are fitted and, where they are few, those of the report."""
    rows, report = evidence.fit, evidence.report
    if report is None or len(rows.outputs) > CORRECTING.few_rows:
        return rows
    local, wide = report.both
    rows = rows.joined(wide)
    if not torch.equal(local.table, wide.table):  # a short text has one set for both
        rows = rows.joined(local)
    return rows


def _left(rows: AnsweredRows, heads: SlalomSurrogate, full: Tensor, share: float) -> Changes:
    """What a share of the heads leaves of the changes, in rows that delete something."""
    deleting = rows.deleted > 0
    table = rows.table[deleting]
    changes = rows.outputs[deleting] - full
    if share > 0:
        missing = 1 - table.mean(dim=1, keepdim=True)
        changes = changes - share * missing * (heads.predict(table) - full)
    return Changes.of(table, changes)
