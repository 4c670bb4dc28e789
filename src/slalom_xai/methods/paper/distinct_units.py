"""The distinct units of a text, and how what was fitted to them becomes scores of all units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.methods.base import Findings
from slalom_xai.methods.counts import TINY, rows_of
from slalom_xai.methods.evidence import Evidence
from slalom_xai.methods.held_out import linear_fit, measure
from slalom_xai.methods.paper.fit import (
    Curvature,
    Fit,
    Problem,
    State,
    curvature_of,
    make_problem,
    project,
)
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_derivatives
from slalom_xai.methods.scores import FORMULAS
from slalom_xai.queries import Queries

# How sure a fit is of its scores: standard errors from how far groups of rows pull at them.
#
# Residuals are more misfit than noise and differ in size from row to row. A sandwich needs no
# model of them: with H the curvature of the objective and g_i row i's part in its slope,
#
#     cov = H^{-1} ( sum_i g_i g_i' ) H^{-1}
#
# H^{-1} g_i is how far the parameters would move without row i. So rows are put into groups, and
# what the scores change where the parameters move as each group pulls is squared and added up.
# With VV the curvature in the values, X = VV^{-1} SV' and Z the Schur complement (see ``fit``), a
# group moves
#
#     the importances by   Z^{-1} h                           h = g^s - sum_c X_c' g^{v_c}
#     the values by        VV^{-1} g^{v_c} - X_c Z^{-1} h
#
# Standard errors are widened for the parameters that the fit spent.
#
# Shapes: G groups of rows, m rows, n units, p slots, C columns.


@dataclass(frozen=True)
class ErrorSettings:
    """Constants of the standard errors.

    Attributes:
        groups: of rows, at most. More tell the errors more precisely, by one part in the root of
            twice their number.
        misfit: standard errors are widened by this factor. Residuals are misfit more than noise and
            row weights are estimated, so errors against known truths were larger than the
            sandwich's by about this.
        ridges: fractions of the mean curvature that are added, one after the other, until the
            curvature can be inverted. The first is at rounding level and hardly changes an error.
        least_freedom: rows that must be left beside the parameters; with fewer, residuals say
            nothing about errors.
        step: of differences, as a part of how far a group moves the parameters.
    """

    groups: int = 200
    misfit: float = 1.1
    ridges: tuple[float, ...] = (1e-12, 1e-8, 1e-5)
    least_freedom: float = 0.5
    step: float = 1e-3


ERRORS = ErrorSettings()


@dataclass(frozen=True)
class Moves:
    """How far each group of rows moves the parameters, widened.

    Attributes:
        values: (G, p, C).
        importances: (G, p), those of the units with mean 0.
    """

    values: Tensor
    importances: Tensor

    def spread(self, copies: Tensor) -> Moves:
        """Of parameters that are copies: the index of the slot each is a copy of, (p',)."""
        return Moves(self.values[:, copies], self.importances[:, copies])


def moves_of(fit: Fit) -> Moves:
    """How far groups of the fitted rows move its parameters."""
    request, surrogate = fit.request, fit.surrogate
    rows = rows_of(request.counts, [float(request.sink)])
    problem = make_problem([request], [rows])
    units = surrogate.units
    importances, values = problem.centre.clone(), problem.mean.repeat(1, units + 1, 1)
    own = slice(0, units + request.sink)
    importances[0, own] = surrogate.slot_importances()[0]
    values[0, own] = surrogate.slot_values()[0]
    state = project(problem, importances, values)
    curvature = curvature_of(problem, state)
    by_values, by_importances = _group_slopes(problem, state)
    inverse = _inverse(curvature.schur[0])
    value_inverse = torch.cholesky_inverse(state.factor[0])
    rest = by_importances - torch.einsum("cgp,cpq->gq", by_values, curvature.follow[0])
    moved = rest @ inverse
    followed = by_values @ value_inverse - moved @ curvature.follow[0].mT  # (C, G, p)
    wider = _widening(problem, curvature, value_inverse, inverse)
    moved = moved - moved[:, :units].mean(dim=1, keepdim=True)
    return Moves(wider * followed.permute(1, 2, 0)[:, own], wider * moved[:, own])


def _group_slopes(problem: Problem, state: State) -> tuple[Tensor, Tensor]:
    """Each group's part in the slope, by the values (C, G, p) and by the importances (G, p)."""
    pull = (problem.row_weights * state.scales)[..., None] * (state.predicted - problem.outputs)
    pulls = torch.cat([pull, (pull * state.predicted).sum(dim=2, keepdim=True)], dim=2)[0].T
    many = min(ERRORS.groups, pulls.shape[1])
    groups = torch.arange(pulls.shape[1], device=pulls.device) % many
    sums = state.weights * problem.rows.group_sums(groups, many, pulls)  # (C + 1, G, p)
    effect = (state.values[0].T[:, None] * sums[:-1]).sum(dim=0)
    return sums[:-1], effect - sums[-1]


def _inverse(schur: Tensor) -> Tensor:
    """The inverse (p, p) of a curvature that rounding may have left indefinite; else NaN."""
    mean_curvature = schur.diagonal().mean().abs() + TINY
    for share in ERRORS.ridges:
        ridged = schur.clone()
        ridged.diagonal().add_(share * mean_curvature)
        factor, failed = torch.linalg.cholesky_ex(ridged)
        if not bool(failed):
            return torch.cholesky_inverse(factor)
    return torch.full_like(schur, math.nan)


def _widening(
    problem: Problem, curvature: Curvature, value_inverse: Tensor, inverse: Tensor
) -> float:
    """The factor misfit * sqrt(rows / (rows - parameters spent)).

    A parameter that its prior holds is not spent. NaN where the parameters use up the rows:
    residuals then say nothing about errors.
    """
    _, rows, columns = problem.outputs.shape
    real = problem.real[0]
    held = problem.importance_ridge[0] * (real @ inverse.diagonal())
    held = held + columns * problem.value_ridge[0] * (real @ value_inverse.diagonal())
    spent = float((columns + 1) * real.sum() - 1 - held)
    freedom = rows * columns - spent
    if freedom <= ERRORS.least_freedom:
        return math.nan
    return ERRORS.misfit * math.sqrt(rows * columns / freedom)


def standard_errors(surrogate: SlalomSurrogate, moves: Moves, column: int) -> dict[str, Tensor]:
    """Standard errors (n,) of every score for one column.

    Args:
        surrogate: what was fitted, of one head.
        moves: of its parameters.
        column: which.
    """
    values, importances = surrogate.slot_values()[0, :, column], surrogate.slot_importances()[0]
    by_values, by_importances = moves.values[..., column], moves.importances
    errors = {}
    for name, formula in FORMULAS.items():
        there, back = (
            formula(values + step * by_values, importances + step * by_importances, surrogate.units)
            for step in (ERRORS.step, -ERRORS.step)
        )
        errors[name] = (there - back).norm(dim=0) / (2 * ERRORS.step)
    of_values, of_importances = shapley_derivatives(surrogate, column)
    changes = by_values @ of_values.T + by_importances @ of_importances.T
    return errors | {"shapley": changes.norm(dim=0)}


# The distinct units of a text, and how what was fitted to them becomes scores of all units.


@dataclass(frozen=True)
class DistinctUnits:
    """The K distinct units of a text of n units.

    Attributes:
        first: (K,), the index of the first unit that reads like each of them.
        of_unit: (n,), which of them each unit is.
        shift: (n,), what its importance gains where a unit stands for several occurrences.
    """

    first: NDArray[np.int64]
    of_unit: NDArray[np.int64]
    shift: NDArray[np.float64]

    @classmethod
    def of(cls, queries: Queries) -> DistinctUnits:
        """Those of the text that is asked about."""
        _, first, of_unit = np.unique(queries.prompt.codes, return_index=True, return_inverse=True)
        return cls(first, of_unit, np.log(queries.prompt.occurrences))

    def __len__(self) -> int:
        """K."""
        return len(self.first)

    @property
    def units(self) -> int:
        """All units of the text, n."""
        return len(self.of_unit)

    def counts(
        self, masks: NDArray[np.bool_], occurrences: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Masks over units (m, n) to counts over distinct units (m, K)."""
        onto = np.zeros((self.units, len(self)))
        onto[np.arange(self.units), self.of_unit] = occurrences
        return np.asarray(masks @ onto)

    def spread(self, surrogate: SlalomSurrogate) -> SlalomSurrogate:
        """The same function over units."""
        device = surrogate.values.device
        units = torch.as_tensor(self.of_unit, device=device)
        shift = torch.as_tensor(self.shift, device=device)
        return SlalomSurrogate(
            surrogate.values[:, units],
            surrogate.importances[:, units] + shift,
            surrogate.sink_values,
            surrogate.sink_importances,
        ).normalise()

    def spread_moves(self, moves: Moves, sink: bool) -> Moves:
        """How far the copied scores move; a sink comes after all units."""
        copied = self.of_unit
        if sink:
            copied = np.concatenate([copied, [len(self)]])
        return moves.spread(torch.as_tensor(copied, device=moves.values.device))


def fitted_findings(evidence: Evidence, distinct: DistinctUnits, fit: Fit) -> Findings:
    """A fit over distinct units as what a method found out about units, with standard errors.

    Args:
        evidence: rows over units.
        distinct: the distinct units.
        fit: to the same rows over distinct units.
    """
    surrogate = distinct.spread(fit.surrogate)
    moves = distinct.spread_moves(moves_of(fit), fit.surrogate.has_sink)
    columns = range(len(evidence.full))
    errors = [standard_errors(surrogate, moves, column) for column in columns]
    fidelity = measure(evidence, surrogate, linear_fit(evidence).surrogate)
    return Findings(surrogate, tuple(errors), fidelity)


def plain_findings(
    evidence: Evidence,
    distinct: DistinctUnits,
    surrogate: SlalomSurrogate,
    notes: tuple[str, ...] = (),
) -> Findings:
    """The same for solvers that say nothing about their errors."""
    spread = distinct.spread(surrogate)
    fidelity = measure(evidence, spread, linear_fit(evidence).surrogate)
    return Findings(spread, ({},) * len(evidence.full), fidelity, notes)
