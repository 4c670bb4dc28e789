"""How well surrogates predict rows that they were not fitted to.

Choices between fits minimise

    log E_local + log E_wide,

the mean squared errors of changes against the whole text on rows with few and with many
deletions. Logarithms keep the larger of the two from drowning the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import EVIDENCE, AnsweredRows, Evidence, Surrogate
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.quality import Agreement, FewAndMany, Fidelity, agreements
from slalom_xai.surrogates.row_weights import inverse_variance


def held_out_errors(evidence: Evidence, predicted: Tensor) -> tuple[Tensor, Tensor]:
    """Mean squared errors on the local and on the wide rows to choose by, (...) each.

    What is predicted beyond the range of all answers counts as an error of wide rows.

    Args:
        evidence: with the rows.
        predicted: (..., m, C), for the rows of ``evidence.choice``.
    """
    missed = evidence.choice.missed(predicted)
    local = (missed.local**2).mean(dim=(-2, -1))
    wide = (missed.wide**2).mean(dim=(-2, -1))
    return local, wide + missed.beyond.mean(dim=-1)


def held_out_losses(evidence: Evidence, predicted: Tensor) -> Tensor:
    """What choices minimise: the log errors of few and of many deletions, added up, (...).

    Args:
        evidence: with the rows.
        predicted: (..., m, C), for the rows of ``evidence.choice``.
    """
    floor = EVIDENCE.rounding * (evidence.fit.outputs**2).mean() + TINY
    both = torch.stack(held_out_errors(evidence, predicted))
    return both.clamp(min=floor).log().sum(dim=0)


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise, of one surrogate."""
    return float(held_out_losses(evidence, evidence.choice.rows.predict(surrogate)))


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
    both = [evidence.choice.rows.predict(fit.surrogate) for fit in (plain, weighted)]
    loss, other = held_out_losses(evidence, torch.stack(both)).tolist()
    best = plain if loss <= other else weighted
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
    predicting: list[Surrogate | TwoScores] = [surrogate]
    two_at = linear_at = 0
    if isinstance(surrogate, SlalomSurrogate):
        two = _two_scores_alone(surrogate)
        if two is not surrogate:
            two_at = len(predicting)
            predicting.append(two)
    if linear is not None:
        linear_at = len(predicting)
        predicting.append(linear)
    found = []
    for of_column in _few_and_many(evidence, predicting, exact):
        own = of_column[0]
        alone = of_column[two_at] if isinstance(surrogate, SlalomSurrogate) else None
        fidelity = Fidelity(own.local, own.wide, two_scores=alone)
        if linear is not None:
            beside = of_column[linear_at]
            fidelity = replace(fidelity, linear_local=beside.local, linear_wide=beside.wide)
        found.append(fidelity)
    return tuple(found)


def _two_scores_alone(surrogate: SlalomSurrogate) -> SlalomSurrogate | TwoScores:
    """What values and importances predict by themselves: without what corrects them."""
    if surrogate.two_scores is not None:
        return surrogate.two_scores
    if surrogate.correction is not None:
        return replace(surrogate, correction=None)
    return surrogate


def _few_and_many(
    evidence: Evidence, predicting: Sequence[Surrogate | TwoScores], exact: bool
) -> list[list[FewAndMany]]:
    """How well changes by few and by many deletions are predicted, for each column.

    Args:
        evidence: with the rows.
        predicting: what is measured.
        exact: the first of them is the model.
    """
    trial = evidence.test
    local, wide = trial.held_out.both
    predicted = torch.stack([trial.rows.predict(one) for one in predicting])
    missed = trial.missed(predicted)
    beyond = missed.beyond.cpu()
    if exact:
        beyond[0] = 0.0
    few = _agreements(evidence, local, missed.local, torch.zeros_like(beyond))
    many = _agreements(evidence, wide, missed.wide, beyond)
    return [
        [FewAndMany(*both) for both in zip(*of_column, strict=True)]
        for of_column in zip(few, many, strict=True)
    ]


def _agreements(
    evidence: Evidence, rows: AnsweredRows, missed: Tensor, beyond: Tensor
) -> list[list[Agreement]]:
    """How well changes are predicted, for each column: a list of all that predict.

    Args:
        evidence: with the answer to the whole text.
        rows: with answers.
        missed: (k, m, C), predicted minus true changes.
        beyond: (k, C), squared error of predictions that leave the range of answers.
    """
    true = (rows.outputs - evidence.full).cpu()
    predicted = true + missed.cpu()
    levels = rows.outputs.abs().amax(dim=0).tolist()
    return [
        agreements(predicted[..., column], true[:, column], level, beyond[:, column].tolist())
        for column, level in enumerate(levels)
    ]
