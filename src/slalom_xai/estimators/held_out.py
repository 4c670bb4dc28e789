"""How well surrogates predict rows that they were not fitted to.

Choices between fits minimise

    log E_local + log E_wide,

the mean squared errors of changes against the whole text on rows with few and with many
deletions. Logarithms keep the larger of the two from drowning the other.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import EVIDENCE, AnsweredRows, Evidence, Surrogate
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.quality import Agreement, FewAndMany, Fidelity, agreement
from slalom_xai.surrogates.row_weights import inverse_variance


def held_out_errors(evidence: Evidence, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
    """Mean squared errors on the local and on the wide rows to choose by.

    What the surrogate predicts beyond the range of all answers counts as an error of wide rows.
    """
    assert evidence.choose is not None
    local = (evidence.errors(surrogate, evidence.choose.local) ** 2).mean()
    wide = (evidence.errors(surrogate, evidence.choose.wide) ** 2).mean()
    return local, wide + evidence.beyond(surrogate, evidence.choose.wide).mean()


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise: the log errors of few and of many deletions, added up."""
    floor = EVIDENCE.rounding * (evidence.fit.outputs**2).mean() + TINY
    both = torch.stack(held_out_errors(evidence, surrogate))
    return float(both.clamp(min=floor).log().sum())


def linear_fit(evidence: Evidence) -> AdditiveFit:
    """The linear explanation of the same calls.

    Rows are weighted by how well they can be predicted or not, whichever held-out rows prefer.
    """
    rows = evidence.fit
    plain = fit_additive(rows.counts, rows.outputs, evidence.full)
    if evidence.choose is None:
        return replace(plain, whole_variance=evidence.whole_variance)
    residuals = plain.surrogate.predict(rows.table) - rows.outputs
    weights = inverse_variance(residuals, rows.deleted)
    weighted = fit_additive(rows.counts, rows.outputs, evidence.full, weights)
    best = min(plain, weighted, key=lambda fit: held_out_loss(evidence, fit.surrogate))
    return replace(best, whole_variance=evidence.whole_variance)


def measure(
    evidence: Evidence,
    surrogate: Surrogate,
    linear: AdditiveSurrogate | None = None,
    exact: bool = False,
) -> tuple[Fidelity, ...] | None:
    """Fidelity per column on the rows kept for the report; None where there are none.

    Args:
        evidence: with the rows.
        surrogate: what is measured.
        linear: a linear fit of the same calls to compare it with; None where there is none.
        exact: the surrogate is the model: what it predicts beyond all answers is right.
    """
    if evidence.report is None:
        return None
    own = _few_and_many(evidence, surrogate, exact)
    beside: list[FewAndMany] | list[None] = [None] * len(own)
    if linear is not None:
        beside = _few_and_many(evidence, linear)
    two: list[FewAndMany] | list[None] = [None] * len(own)
    if isinstance(surrogate, SlalomSurrogate):
        two = own
        if surrogate.two_scores is not None:
            two = _few_and_many(evidence, surrogate.two_scores)
    found = []
    for column, (ours, others) in enumerate(zip(own, beside, strict=True)):
        fidelity = Fidelity(ours.local, ours.wide, two_scores=two[column])
        if others is not None:
            fidelity = replace(fidelity, linear_local=others.local, linear_wide=others.wide)
        found.append(fidelity)
    return tuple(found)


def _few_and_many(
    evidence: Evidence, predicts: Surrogate | TwoScores, exact: bool = False
) -> list[FewAndMany]:
    """How well changes by few and by many deletions are predicted, for each column."""
    assert evidence.report is not None
    local, wide = evidence.report.both
    nothing = [0.0] * len(evidence.full)
    beyond = nothing
    if not exact:
        beyond = evidence.beyond(predicts, wide).tolist()
    both = zip(
        _agreements(evidence, predicts, local, nothing),
        _agreements(evidence, predicts, wide, beyond),
        strict=True,
    )
    return [FewAndMany(*of_column) for of_column in both]


def _agreements(
    evidence: Evidence, predicts: Surrogate | TwoScores, rows: AnsweredRows, beyond: list[float]
) -> list[Agreement]:
    """How well changes are predicted, for each column."""
    true = (rows.outputs - evidence.full).cpu()
    predicted = true + evidence.errors(predicts, rows).cpu()
    levels = rows.outputs.abs().amax(dim=0).tolist()
    return [
        agreement(predicted[:, column], true[:, column], level, beyond[column])
        for column, level in enumerate(levels)
    ]
