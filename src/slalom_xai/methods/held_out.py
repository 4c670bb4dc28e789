"""How well formulas predict perturbed texts that they were not fitted to.

Choices between fits minimise

    log E_few + log E_any,

the mean squared errors of changes against the whole text where few units and where any number of
them are removed. Logarithms keep the larger of the two from drowning the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.methods.additive import AdditiveFit, AdditiveSurrogate, fit_additive
from slalom_xai.methods.counts import TINY
from slalom_xai.methods.evidence import AnsweredRows, Evidence, Surrogate
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity, compare_changes

# What the residuals of a first fit say about the weights of rows in the next.
#
# Rows with many deletions are harder to predict. ``inverse_variance`` gives them less weight, as
# far as residuals grow.
#
# Shapes: m rows, C columns.


@dataclass(frozen=True)
class RowWeightSettings:
    """Constants of the row weights.

    Attributes:
        evenness: rows are weighted by this power of their inverse variance. At 1 a few rows with
            few deletions count for nearly everything; at 0 all rows count alike. 0.8 lets few
            deletions count for much without forgetting the others.
        most_groups: groups of rows that a curve is drawn through, at most.
        rows_a_group: rows that a group needs: fewer have too uncertain a mean.
        ridge: on the curve's coefficients, a fraction of the mean diagonal, for groups that are
            nearly alike in size.
    """

    evenness: float = 0.8
    most_groups: int = 12
    rows_a_group: int = 20
    ridge: float = 1e-9


ROW_WEIGHTS = RowWeightSettings()


def inverse_variance(residuals: Tensor, deleted: Tensor) -> Tensor:
    """Row weights from how residuals grow with the number of units deleted.

    Rows are put into equally filled groups by that number. A parabola in its logarithm follows the
    log mean squared residuals of the groups, and is not used beyond their range.

    Args:
        residuals: (m, C).
        deleted: (m,), how many units each row lacks.

    Returns:
        (m,), with mean 1.
    """
    squared = (residuals**2).sum(dim=1)
    size = torch.log(deleted.to(squared) + 0.5)
    most = max(2, len(size) // ROW_WEIGHTS.rows_a_group)
    many = min(ROW_WEIGHTS.most_groups, most)
    order = size.argsort(stable=True)
    x, y = _group_means(torch.stack([size, squared])[:, order], many)
    y = y.clamp(min=1e-30).log()
    curve = _parabola(x, y)
    log_error = _powers(size, len(curve)) @ curve
    raw = torch.exp(-ROW_WEIGHTS.evenness * log_error.clamp(y.min(), y.max()))
    return raw / raw.mean()


def _group_means(numbers: Tensor, many: int) -> Tensor:
    """Means (k, many) of numbers (k, m) over so many groups, one behind the other.

    Groups are filled equally; the first ones have one more where there is a remainder.
    """
    rows = numbers.shape[1]
    sizes = torch.full((many,), rows // many, device=numbers.device)
    sizes[: rows % many] += 1
    group = torch.arange(many, device=numbers.device).repeat_interleave(sizes, output_size=rows)
    sums = numbers.new_zeros(len(numbers), many).index_add_(1, group, numbers)
    return sums / sizes


def _powers(x: Tensor, count: int) -> Tensor:
    """1, x, x^2, ...: (m,) -> (m, count)."""
    return torch.stack([x**power for power in range(count)], dim=1)


def _parabola(x: Tensor, y: Tensor) -> Tensor:
    """Coefficients (3,), or as many as there are points (g,), of a least-squares parabola."""
    design = _powers(x, min(3, len(x)))
    gram = design.T @ design
    gram.diagonal().add_(ROW_WEIGHTS.ridge * gram.diagonal().mean())
    coefficients: Tensor = torch.linalg.solve(gram, design.T @ y)
    return coefficients


# How well formulas predict perturbed texts that they were not fitted to.


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
