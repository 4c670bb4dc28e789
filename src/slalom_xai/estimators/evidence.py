"""What a sampling method knows of a text: perturbed texts with the model's outputs.

Some are fitted, some decide between fits, and some are kept for the report.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.queries import WorkPool
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.surrogates.count_tables import Counts, table_of
from slalom_xai.surrogates.fit import Fit, FitRequest, fit_each
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.scores import OneScore

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
        return replace(self, fit=self.fit.joined(self.choose.together), choose=None)

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
