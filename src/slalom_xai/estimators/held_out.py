"""How well formulas predict perturbed texts that they were not fitted to.

Choices between fits minimise

    log E_few + log E_any,

the mean squared errors of changes against the whole text where few units and where any number of
them are removed. Logarithms keep the larger of the two from drowning the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from slalom_xai.estimators.evidence import AnsweredRows, Evidence, Surrogate
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity, compare_changes
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.row_weights import inverse_variance

_ROUNDING = 1e-14  # share of the mean squared output: no fit is better for having less error


def held_out_loss(evidence: Evidence, surrogate: Surrogate) -> float:
    """What choices minimise: the log errors of few and of any number of removals, added up."""
    assert evidence.choose is not None
    floor = _ROUNDING * float((evidence.fit.outputs**2).mean()) + TINY
    errors = [
        float((evidence.errors(surrogate, rows) ** 2).mean()) for rows in evidence.choose.both
    ]
    return sum(math.log(max(error, floor)) for error in errors)


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
    losses = [held_out_loss(evidence, fit.surrogate) for fit in (plain, weighted)]
    best = plain if losses[0] <= losses[1] else weighted
    return replace(best, whole_variance=evidence.whole_variance)


def measure(
    evidence: Evidence, surrogate: Surrogate, linear: AdditiveSurrogate | None = None
) -> tuple[Fidelity, ...] | None:
    """Fidelity per column on the rows kept for the report; None where there are none.

    Args:
        evidence: with the rows.
        surrogate: what is measured.
        linear: a linear fit of the same calls to compare it with; None where there is none.
    """
    if evidence.report is None:
        return None
    rows = evidence.report
    formulas = [surrogate] if linear is None else [surrogate, linear]
    changed, calls = count_changes(evidence.full, [evidence.fit, *rows.both])
    found = []
    both = [compare(evidence.full, part, formulas) for part in rows.both]
    for few, any_number in zip(*both, strict=True):
        beside = None if linear is None else FewAndAny(few[1], any_number[1])
        found.append(Fidelity(few[0], any_number[0], beside, changed=changed, calls=calls))
    return tuple(found)


def compare(
    full: Tensor, rows: AnsweredRows, formulas: Sequence[Surrogate]
) -> list[list[Agreement]]:
    """How well formulas predict changes: for each column a list of all formulas.

    Args:
        full: (C,), the model's output for the whole text.
        rows: perturbed texts with the model's outputs.
        formulas: what is measured.
    """
    whole = torch.ones_like(rows.table[:1])
    predicted = torch.stack([one.predict(rows.table) - one.predict(whole) for one in formulas])
    return compare_columns(full, rows.outputs, predicted)


def compare_columns(full: Tensor, outputs: Tensor, predicted: Tensor) -> list[list[Agreement]]:
    """The same from predicted changes (k, m, C) for texts with outputs (m, C)."""
    true = outputs - full
    levels = outputs.abs().amax(dim=0).tolist()
    return [
        compare_changes(predicted[..., column], true[:, column], level)
        for column, level in enumerate(levels)
    ]


def count_changes(full: Tensor, parts: Sequence[AnsweredRows]) -> tuple[int, int]:
    """How many of the calls gave another output than the whole text, and how many there were."""
    outputs = torch.cat([part.outputs for part in parts])
    limit = 2e-6 * outputs.abs().amax(dim=0)
    changed = ((outputs - full).abs() > limit).any(dim=1)
    return int(changed.sum()), len(outputs)
