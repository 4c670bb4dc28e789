"""What a sampling method knows of a text: rows with the model's answers.

Some rows are fitted, some decide between fits, and some are kept for the report. The
evidence also says how far a surrogate is off on them, and how far its predictions leave the
range of all answers elsewhere:

    beyond(F) = mean over unasked rows x of (F(x) - mean f)² where F(x) is out of range,

less what the held-out rows show of that already. A SLALOM without a sink, above all, can
follow all rows it has seen and still blow up on others that keep few units.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.designs import rows_of_every_size
from slalom_xai.queries import WorkPool
from slalom_xai.surrogates.count_tables import Counts, table_of
from slalom_xai.surrogates.fit import Fit, fit_each
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.mask_rows import MaskRows
from slalom_xai.surrogates.problem import FitRequest
from slalom_xai.surrogates.scores import OneScore

Surrogate = SlalomSurrogate | OneScore


@dataclass(frozen=True)
class EvidenceSettings:
    """How rows judge a surrogate.

    Attributes:
        margin: share of the range of all answers that a prediction may go beyond it. Rows that
            were not asked may well be a little more extreme than those that were.
        rounding: share of the mean squared answer. Errors below it are rounding, and no fit is
            better than another for having less of it.
    """

    margin: float = 0.1
    rounding: float = 1e-14


EVIDENCE = EvidenceSettings()


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

    def joined(self, other: AnsweredRows) -> AnsweredRows:
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
        return self.wide.joined(self.local)

    def joined(self, other: AnsweredHeldOut) -> AnsweredHeldOut:
        """These rows and then others."""
        return AnsweredHeldOut(self.local.joined(other.local), self.wide.joined(other.wide))


@dataclass(frozen=True)
class Missed:
    """What predictions miss on held-out rows; the first axes, if any, are those of several.

    Attributes:
        local: (..., m, C), predicted minus true change against the whole text, few deletions.
        wide: (..., m, C), the same for many deletions.
        beyond: (..., C), squared error that wide rows do not show: of predictions for unasked rows
            that leave the range of answers.
    """

    local: Tensor
    wide: Tensor
    beyond: Tensor


@dataclass(frozen=True)
class Trial:
    """Held-out rows and unasked ones as one table, so that one prediction tells all.

    Attributes:
        held_out: the rows with answers.
        rows: the whole text, the local rows, the wide rows and the unasked ones.
        full: (C,), the model's outputs on the whole text.
        limits: the lowest, the mean and the highest of all answers, (C,) each.
    """

    held_out: AnsweredHeldOut
    rows: MaskRows
    full: Tensor
    limits: tuple[Tensor, Tensor, Tensor]

    def missed(self, predicted: Tensor) -> Missed:
        """What predictions (..., m, C) for ``rows`` miss."""
        local, wide = self.held_out.both
        few, many = len(local.outputs), len(wide.outputs)
        sizes = [1, few, many, predicted.shape[-2] - 1 - few - many]
        whole, of_local, of_wide, of_unasked = torch.split(predicted, sizes, dim=-2)
        beyond = self._out_of_range(of_unasked) - self._out_of_range(of_wide)
        return Missed(
            of_local - whole - (local.outputs - self.full),
            of_wide - whole - (wide.outputs - self.full),
            beyond.clamp(min=0),
        )

    def _out_of_range(self, predicted: Tensor) -> Tensor:
        """Mean squared distance from the mean answer, (..., C), of predictions out of range."""
        lowest, mean, highest = self.limits
        margin = EVIDENCE.margin * (highest - lowest)
        outside = (predicted < lowest - margin) | (predicted > highest + margin)
        return (outside * (predicted - mean) ** 2).mean(dim=-2)


@dataclass(frozen=True)
class Evidence:
    """All a sampling method knows: rows to fit, to choose and to report on.

    Attributes:
        fit: rows to fit.
        choose: rows that decide between fits; None where none are left.
        report: rows for the report; None likewise.
        full: (C,), the model's outputs on the whole text.
        offsets: (n,), the log of each unit's occurrences: its importance before anything is
            known of it.
        work: where fits and covariances are handed in, perhaps with those of other texts.
        whole_variance: (C,), of ``full``, where the model does not repeat itself; else None.
        moves: whether units after a deleted one move up.
    """

    fit: AnsweredRows
    choose: AnsweredHeldOut | None
    report: AnsweredHeldOut | None
    full: Tensor
    offsets: Tensor
    work: WorkPool
    whole_variance: Tensor | None = None
    moves: bool = True

    @property
    def settled(self) -> Evidence:
        """The same once the choice is made: the rows that decided it are fitted, too."""
        if self.choose is None:
            return self
        return replace(self, fit=self.fit.joined(self.choose.together), choose=None)

    def fit_slalom(self, request: FitRequest) -> Fit:
        """A SLALOM fitted as requested."""
        return self.fit_slaloms([request])[0]

    def fit_slaloms(self, requests: Sequence[FitRequest]) -> list[Fit]:
        """SLALOMs fitted as requested, those that are alike together."""
        return self.work.run(fit_each, requests)

    def errors(self, surrogate: Surrogate | TwoScores, rows: AnsweredRows) -> Tensor:
        """Predicted minus true change against the whole text, (m, C)."""
        whole = torch.ones_like(rows.table[:1])
        predicted = surrogate.predict(rows.table) - surrogate.predict(whole)
        return predicted - (rows.outputs - self.full)

    @functools.cached_property
    def choice(self) -> Trial:
        """The rows to choose by, ready to judge predictions."""
        assert self.choose is not None
        return self._trial(self.choose)

    @functools.cached_property
    def test(self) -> Trial:
        """The rows for the report, ready to judge predictions."""
        assert self.report is not None
        return self._trial(self.report)

    def _trial(self, held_out: AnsweredHeldOut) -> Trial:
        local, wide = (rows.table for rows in held_out.both)
        rows = torch.cat([torch.ones_like(wide[:1]), local, wide, self.unasked])
        return Trial(held_out, MaskRows(rows), self.full, self._range)

    @property
    def unasked(self) -> Tensor:
        """Rows of every size that nobody asks about, (m, n)."""
        return _unasked(self.fit.counts.shape[1], self.full.device)

    @functools.cached_property
    def _range(self) -> tuple[Tensor, Tensor, Tensor]:
        """The lowest, the mean and the highest of all answers, (C,) each."""
        outputs = [self.fit.outputs]
        for part in (self.choose, self.report):
            if part is not None:
                outputs += [rows.outputs for rows in part.both]
        answers = torch.cat(outputs)
        return answers.amin(dim=0), answers.mean(dim=0), answers.amax(dim=0)


@functools.lru_cache(maxsize=64)
def _unasked(units: int, device: torch.device) -> Tensor:
    """Rows of every size, (m, n); texts of one length have the same ones."""
    masks = rows_of_every_size(units)
    return torch.as_tensor(masks, device=device).to(torch.float64)
