"""The covariance of a fit's parameters: how far they would move with other rows.

What it has to do: give standard errors of values and importances, and through their derivatives
those of every score (``scores``).

Why a sandwich: residuals are more misfit than noise and differ in size from row to row. A sandwich

    cov = H^{-1} ( sum_i g_i g_i' ) H^{-1}

needs no model of them: H is the curvature of the objective ("bread"), g_i is row i's part in its
slope ("meat", see ``sandwich``). The inverse of H is used in blocks. With VV the curvature in the
values, X = VV^{-1} SV' (``values_by_importances``) and Z the Schur complement of ``curvature``, a
row moves

    the importances by   Z^{-1} h_i                          h_i = g_i^s - X' g_i^v
    the values by        VV^{-1} g_i^v - X Z^{-1} h_i

The covariance is widened for the parameters that the fit spent, and, in an anchored fit, for what
``whole_text`` says.

Shapes: m rows, K heads, p slots, C columns, n_v = K p values, n_s fitted importances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.assembly import make_problem
from slalom_xai.surrogates.batching import only
from slalom_xai.surrogates.count_tables import Counts
from slalom_xai.surrogates.curvature import Curvature, curvature_of
from slalom_xai.surrogates.fit import BATCHES, Fit, kind_of
from slalom_xai.surrogates.near_zero import TINY
from slalom_xai.surrogates.problem import FitRequest, Problem
from slalom_xai.surrogates.projection import State, project
from slalom_xai.surrogates.sandwich import Meat, meat_of
from slalom_xai.surrogates.whole_text import Pull, WholeText


@dataclass(frozen=True)
class CovarianceSettings:
    """Constants of the covariance.

    Attributes:
        misfit: standard errors are widened by this factor. Residuals are misfit more than noise and
            row weights are estimated, so errors against known truths were larger than the
            sandwich's by about this; ``research/benchmarks/coverage.py`` measures it.
        ridges: fractions of the mean curvature that are added, one after the other, until the
            curvature can be inverted. The first is at rounding level and hardly changes an error.
        least_freedom: rows that must be left beside the parameters; with fewer, residuals say
            nothing about errors.
    """

    misfit: float = 1.1
    ridges: tuple[float, ...] = (1e-12, 1e-8, 1e-5)
    least_freedom: float = 0.5


COVARIANCE = CovarianceSettings()


@dataclass(frozen=True)
class Covariance:
    """The covariance of the values of each column and the importances, over all slots and heads.

    Attributes:
        joint: (C, 2 n_v, 2 n_v), values before importances. A common shift of all importances
            over the units is projected out. The importances of an additive head are fixed and
            have none.
        copied: (n_v',), where the parameters of scores are copies of these, the index of the slot
            that each is a copy of; None where they are not.
    """

    joint: Tensor
    copied: Tensor | None = None

    def of(self, column: int, by_values: Tensor, by_importances: Tensor) -> Tensor:
        """Variances (k,) of scores of one column.

        Args:
            column: which.
            by_values: (k, n_v), derivatives of the scores.
            by_importances: (k, n_v), as well.
        """
        slopes = torch.cat([self._gathered(by_values), self._gathered(by_importances)], dim=1)
        return ((slopes @ self.joint[column]) * slopes).sum(dim=1)

    def of_few(self, column: int, indices: Tensor, slopes: Tensor) -> Tensor:
        """Variances (k,) of scores of one column that depend on few parameters each.

        Args:
            column: which.
            indices: (k, few), of the parameters, values before importances.
            slopes: (k, few), derivatives by them.
        """
        if self.copied is not None:
            both = torch.cat([self.copied, self.copied + self.joint.shape[1] // 2])
            indices = both[indices]
        between = self.joint[column][indices[:, :, None], indices[:, None, :]]
        return ((between @ slopes[..., None])[..., 0] * slopes).sum(dim=1)

    def _gathered(self, slopes: Tensor) -> Tensor:
        """Derivatives by copies (k, n_v') as derivatives by what they are copies of, (k, n_v)."""
        if self.copied is None:
            return slopes
        nothing = slopes.new_zeros(len(slopes), self.joint.shape[1] // 2)
        return nothing.scatter_add_(1, self.copied.expand(len(slopes), -1), slopes)

    def spread(self, copies: Tensor) -> Covariance:
        """Of parameters that are copied: the index of the slot each is a copy of, (n_v',)."""
        if self.copied is not None:
            copies = self.copied[copies]
        return Covariance(self.joint, copies)


@dataclass(frozen=True)
class CovarianceRequest:
    """What a covariance depends on.

    Attributes:
        counts: (m, n), the rows that were fitted.
        outputs: (m, C), what the model answered.
        fit: to them.
        whole_variance: (C,), of the answer to the whole text, where the model is noisy.
    """

    counts: Counts
    outputs: Tensor
    fit: Fit
    whole_variance: Tensor | None = None


def covariance(
    counts: Counts, outputs: Tensor, fit: Fit, whole_variance: Tensor | None = None
) -> Covariance:
    """At the optimum of ``fit``, widened for the parameters it spent.

    The arguments are those of ``CovarianceRequest``.
    """
    return covariances([CovarianceRequest(counts, outputs, fit, whole_variance)])[0]


def covariances(requests: Sequence[CovarianceRequest]) -> list[Covariance]:
    """Of several fits; those of one kind and size share what takes longest, their curvature."""
    alike: dict[object, list[int]] = {}
    for index, request in enumerate(requests):
        kind = kind_of(_request(request)), tuple(request.counts.shape)
        alike.setdefault(kind, []).append(index)
    found: dict[int, Covariance] = {}
    for indices in alike.values():
        rows, units = requests[indices[0]].counts.shape
        together = max(1, BATCHES.together // (rows * units))
        for start in range(0, len(indices), together):
            some = indices[start : start + together]
            found.update(zip(some, _of_one_size([requests[i] for i in some]), strict=True))
    return [found[index] for index in range(len(requests))]


def _of_one_size(requests: Sequence[CovarianceRequest]) -> list[Covariance]:
    """The covariances of fits that make one problem without padding."""
    problem = make_problem([_request(request) for request in requests])
    parts = _parts(problem, requests)
    if len(requests) == 1:
        return [_covariance(problem, requests[0], *parts[0])]
    found = []
    for index, request in enumerate(requests):
        found.append(_covariance(only(index, problem), request, *parts[index]))
    return found


def _covariance(
    problem: Problem, request: CovarianceRequest, bread: Bread, meat: Meat, pull: Pull | None
) -> Covariance:
    """Of one fit, from its parts."""
    joint = bread.around(meat)
    joint.mul_(_widening(problem, bread) ** 2)
    if not problem.anchored:
        return Covariance(joint)
    whole = WholeText.of(problem, request.fit.surrogate)
    whole.hold(joint)
    if pull is not None and request.whole_variance is not None:
        alone = bread.value_inverse @ pull.by_values
        shared = pull.beyond(bread.values_by_importances)
        moves = (
            torch.cat([part @ bread.inverse, -bread.centred.T])
            for part in bread.values_by_importances
        )
        whole.add_noise(joint, alone, shared, moves, request.whole_variance)
    return Covariance(joint)


def _request(request: CovarianceRequest) -> FitRequest:
    """What the fit was asked for."""
    fit = request.fit
    return FitRequest(
        counts=request.counts,
        outputs=request.outputs,
        row_weights=fit.row_weights,
        sink=fit.surrogate.has_sink,
        prior=fit.prior,
        heads=len(fit.surrogate.values) - fit.extras.additive,
        extras=fit.extras,
    )


@dataclass(frozen=True)
class Bread:
    """The inverse curvature, in blocks.

    Attributes:
        value_inverse: VV^{-1}, (n_v, n_v), the same for every column.
        inverse: Z^{-1}, (n_s, n_s).
        centred: (n_s, n_v), Z^{-1} with the mean over the units taken from each head's importances,
            and nothing for an additive head.
        values_by_importances: X, (C, n_v, n_s), how the values follow the importances.
    """

    value_inverse: Tensor
    inverse: Tensor
    centred: Tensor
    values_by_importances: Tensor

    @classmethod
    def of(cls, problem: Problem, state: State, curvature: Curvature, units: int) -> Bread:
        """At the optimum."""
        columns, heads = state.values.shape[3], problem.free_heads
        schur = curvature.schur[0]
        values_by_importances = curvature.values_by_importances[0]  # (n_v, C n_s)
        values_by_importances = values_by_importances.reshape(-1, columns, len(schur))
        values_by_importances = values_by_importances.transpose(0, 1)
        value_inverse = torch.cholesky_inverse(state.factor[0])
        inverse = definite_inverse(schur)
        by_head = inverse.reshape(len(inverse), heads, -1)
        centred = by_head - by_head[..., :units].mean(dim=-1, keepdim=True)
        centred = centred.flatten(1)
        missing = len(value_inverse) - centred.shape[1]  # the slots of an additive head
        if missing:
            centred = torch.cat([centred, centred.new_zeros(len(centred), missing)], dim=1)
        return cls(value_inverse, inverse, centred, values_by_importances)

    def around(self, meat: Meat) -> Tensor:
        """The sandwich, (C, 2 n_v, 2 n_v).

        With ``follow = Z^{-1} X'``, a row moves the values by ``VV^{-1} g - follow' h`` and
        the importances by ``centred' h``; the blocks are the products of these.
        """
        width = len(self.value_inverse)
        columns = len(self.values_by_importances)
        joint = self.value_inverse.new_empty(columns, 2 * width, 2 * width)
        parts = zip(joint, meat.values, meat.mixed, self.values_by_importances, strict=True)
        for filled, by_values, mixed, part in parts:
            follow = self.inverse @ part.T
            on_rows = by_values @ self.value_inverse - mixed @ follow
            on_rest = mixed.T @ self.value_inverse - meat.importances @ follow
            filled[:width, :width] = self.value_inverse @ on_rows - follow.T @ on_rest
            filled[:width, width:] = on_rest.T @ self.centred
            filled[width:, :width] = filled[:width, width:].T
            filled[width:, width:] = self.centred.T @ meat.importances @ self.centred
        return joint


def _parts(
    problem: Problem, requests: Sequence[CovarianceRequest]
) -> list[tuple[Bread, Meat, Pull | None]]:
    """All that needs the state and the curvature, for each text.

    For a long text these are hundreds of megabytes, which are free again when this returns.
    """
    surrogates = [request.fit.surrogate for request in requests]
    importances = torch.stack([surrogate.slot_importances() for surrogate in surrogates])
    values = torch.stack([surrogate.slot_values() for surrogate in surrogates])
    state = project(problem, importances, values, settled=True)
    curvature = curvature_of(problem, state)
    if len(requests) == 1:
        return [_parts_of_one(problem, state, curvature, requests[0])]
    parts = []
    for index, request in enumerate(requests):
        of_text = (only(index, problem), only(index, state), only(index, curvature))
        parts.append(_parts_of_one(*of_text, request))
    return parts


def _parts_of_one(
    problem: Problem, state: State, curvature: Curvature, request: CovarianceRequest
) -> tuple[Bread, Meat, Pull | None]:
    """The parts of one text."""
    bread = Bread.of(problem, state, curvature, request.fit.surrogate.units)
    meat = meat_of(problem, state, request.counts, bread.values_by_importances)
    if not problem.anchored or request.whole_variance is None:
        return bread, meat, None
    return bread, meat, Pull.of_the_whole_text(problem, state, request.counts)


def definite_inverse(schur: Tensor) -> Tensor:
    """The inverse of a curvature that rounding or an early stop may have left indefinite.

    Args:
        schur: (n_s, n_s).

    Returns:
        (n_s, n_s). Directions that curve the wrong way count by the size of their curvature.
    """
    mean_curvature = schur.diagonal().mean().abs() + TINY
    for share in COVARIANCE.ridges:
        ridged = schur.clone()
        ridged.diagonal().add_(share * mean_curvature)
        factor, failed = torch.linalg.cholesky_ex(ridged)
        if not bool(failed):
            return torch.cholesky_inverse(factor)
    if not bool(schur.isfinite().all()):
        return torch.full_like(schur, math.nan)
    curvatures, directions = torch.linalg.eigh((schur + schur.T) / 2)
    sizes = curvatures.abs().clamp(min=COVARIANCE.ridges[-1] * mean_curvature)
    inverse: Tensor = (directions / sizes) @ directions.T
    return inverse


def _widening(problem: Problem, bread: Bread) -> float:
    """The factor misfit * sqrt(rows / (rows - parameters spent)).

    A parameter that its prior holds is not spent. NaN where the parameters use up the rows:
    residuals then say nothing about errors.
    """
    rows = problem.rows.shape[1]
    columns = len(bread.values_by_importances)
    penalties = problem.penalties.value[0].flatten()
    held = (
        problem.penalties.importance[0] * bread.inverse.diagonal().sum()
        + columns * (penalties * bread.value_inverse.diagonal()).sum()
    )
    parameters = columns * len(bread.value_inverse) + len(bread.inverse) - problem.free_heads
    spent = parameters - held
    if problem.lengths is not None:
        shrink = problem.lengths.shrink[0, problem.lengths.of_row[0]]
        spent = spent + columns * (shrink * problem.row_weights[0]).sum()
    freedom = rows * columns - float(spent)
    if freedom <= COVARIANCE.least_freedom:
        return math.nan
    return COVARIANCE.misfit * math.sqrt(rows * columns / freedom)
