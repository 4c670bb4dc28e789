"""The covariance of a fit's parameters, and the weights that rows deserve."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts, ShortRows, table_of
from slalom_xai.surrogates.fit import Fit
from slalom_xai.surrogates.formula import SlalomSurrogate, columns, weights
from slalom_xai.surrogates.problem import FitRequest, Problem, make_problem
from slalom_xai.surrogates.projection import State, curvature_of, project

MISFIT = 1.1  # residuals are misfit more than noise, and weights are estimated: errors found are larger than the sandwich's by about this
HELD = (1e-12, 1e-8, 1e-5)  # of the mean curvature, added until an inverse can be had
EVENNESS = 0.8  # rows are weighted by this power of their inverse variance: few deletions count for much, many are not forgotten


@dataclass(frozen=True)
class Covariance:
    """The sandwich covariance of the values of each class and the importances, over the P columns of all heads.

    Attributes:
        joint: (C, 2 P, 2 P), values before importances, with a common shift of all importances projected out over the units; the
            importances of an additive head have none.
        copied: (P',), where the parameters of scores are copies of these, the column that each is a copy of.
    """

    joint: Tensor
    copied: Tensor | None = None

    def of(self, column: int, by_values: Tensor, by_importances: Tensor) -> Tensor:
        """The variances (k,) of scores of one class, from their derivatives (k, P) by its values and by the importances."""
        slopes = torch.cat([self._gathered(by_values), self._gathered(by_importances)], dim=1)
        return ((slopes @ self.joint[column]) * slopes).sum(dim=1)

    def of_few(self, column: int, places: Tensor, slopes: Tensor) -> Tensor:
        """The variances (k,) of scores of one class that depend on few parameters each: their places (k, few) and derivatives."""
        if self.copied is not None:
            places = torch.cat([self.copied, self.copied + self.joint.shape[1] // 2])[places]
        between = self.joint[column][places[:, :, None], places[:, None, :]]
        return ((between @ slopes[..., None])[..., 0] * slopes).sum(dim=1)

    def _gathered(self, slopes: Tensor) -> Tensor:
        """Derivatives by copies (k, P') as derivatives by what they are copies of, (k, P)."""
        if self.copied is None:
            return slopes
        return slopes.new_zeros(len(slopes), self.joint.shape[1] // 2).scatter_add_(
            1, self.copied.expand(len(slopes), -1), slopes
        )

    def spread(self, columns: Tensor) -> Covariance:
        """Of parameters that are copied: the column each is a copy of, (P',)."""
        return Covariance(self.joint, columns if self.copied is None else self.copied[columns])


def covariance(
    counts: Counts, outputs: Tensor, fit: Fit, whole_variance: Tensor | None = None
) -> Covariance:
    """At the optimum of ``fit``, widened for the parameters it spent.

    Args:
        counts: (m, n), the rows that were fitted.
        outputs: (m, C), what the model answered.
        fit: to them.
        whole_variance: (C,), of the answer to the whole text, where the model is noisy.
    """
    surrogate = fit.surrogate
    heads = len(surrogate.values) - fit.extras.additive
    problem = make_problem(
        [
            FitRequest(
                counts,
                outputs,
                fit.row_weights,
                surrogate.has_sink,
                fit.prior,
                heads,
                None,
                fit.extras,
            )
        ]
    )
    state = project(
        problem, surrogate.column_importances()[None], surrogate.column_values()[None], settled=True
    )
    curvature = curvature_of(problem, state)
    across = (
        curvature.across[0].reshape(-1, outputs.shape[1], len(curvature.schur[0])).transpose(0, 1)
    )  # (C, P, S)
    value_inverse, importance_inverse = (
        torch.cholesky_inverse(state.factor[0]),
        _definite_inverse(curvature.schur[0]),
    )
    meat = _short_meat(problem, state, across) or _meat(
        problem, state, columns(table_of(counts), surrogate.has_sink), across
    )
    widening = _widening(problem, value_inverse, importance_inverse, len(across))
    centred = _centred(
        importance_inverse.reshape(len(importance_inverse), heads, -1), surrogate.units
    ).flatten(1)
    if fit.extras.additive:
        centred = torch.cat(
            [centred, centred.new_zeros(len(centred), len(value_inverse) - centred.shape[1])], dim=1
        )
    whole = _WholeText.of(problem, surrogate) if problem.anchored else None
    noise = None
    if problem.anchored and whole_variance is not None:
        noise = _pull_of_the_whole_text(
            problem, state, columns(table_of(counts), surrogate.has_sink)
        )
    del state, curvature  # of a long text they are hundreds of megabytes
    width = len(value_inverse)
    joint = value_inverse.new_empty(len(across), 2 * width, 2 * width)
    for filled, by_values, mixed, part in zip(joint, meat.values, meat.mixed, across, strict=True):
        # Rows pull at the values by inverse (rows) - follow' (beyond), and at the importances by centred' (beyond).
        follow = importance_inverse @ part.T
        on_rows, on_beyond = (
            by_values @ value_inverse - mixed @ follow,
            mixed.T @ value_inverse - meat.own @ follow,
        )
        filled[:width, :width] = value_inverse @ on_rows - follow.T @ on_beyond
        filled[:width, width:] = on_beyond.T @ centred
        filled[width:, :width] = filled[:width, width:].T
        filled[width:, width:] = centred.T @ meat.own @ centred
    joint.mul_(widening**2)
    if whole is not None:
        whole.hold(joint)
    if whole is not None and noise is not None and whole_variance is not None:
        alone, shared = value_inverse @ noise.by_values, noise.beyond(across)
        moves = (torch.cat([part @ importance_inverse, -centred.T]) for part in across)
        whole.add_noise(joint, alone, shared, moves, whole_variance)
    return Covariance(joint)


@dataclass(frozen=True)
class _WholeText:
    """What the answer to the whole text does in an anchored fit: it decides the constant of the values.

    Attributes:
        slopes: (C, 2 P), of the prediction for the whole text, by values and importances.
        size: columns of the first head, whose values take the constant.
    """

    slopes: Tensor
    size: int

    @classmethod
    def of(cls, problem: Problem, surrogate: SlalomSurrogate) -> _WholeText:
        """From what was fitted."""
        shares = weights(problem.rows.first(), surrogate.column_importances())[0]  # (K, p)
        values = surrogate.column_values()
        heads = torch.einsum("kp,kpc->kc", shares, values)
        tilts = shares[..., None] * (values - heads[:, None])  # (K, p, C)
        tilts[problem.free :] = 0.0  # an additive head's importances are given
        flat = shares.flatten().expand(values.shape[2], -1)
        return cls(torch.cat([flat, tilts.flatten(0, 1).T], dim=1), shares.shape[1])

    @property
    def constant(self) -> Tensor:
        """The direction in which a constant moves the parameters, (2 P,)."""
        direction = torch.zeros_like(self.slopes[0])
        direction[: self.size] = 1.0
        return direction

    def hold(self, joint: Tensor) -> None:
        """Moves the constant so that the whole text's prediction stays, in covariances (C, 2 P, 2 P)."""
        constant = self.constant
        for spread, slope in zip(joint, self.slopes, strict=True):
            moved = spread @ slope
            spread.addr_(constant, moved, alpha=-1).addr_(moved, constant, alpha=-1)
            spread.addr_(constant, constant, alpha=float(slope @ moved))

    def add_noise(
        self,
        joint: Tensor,
        alone: Tensor,
        shared: Tensor,
        moves: Iterable[Tensor],
        variance: Tensor,
    ) -> None:
        """Adds what noise of the whole text's answer does to the parameters.

        Args:
            joint: (C, 2 P, 2 P), covariances.
            alone: (P,), how far one more in the answer moves the values of its own class at once.
            shared: (C, S), how it pulls at the importances, which all classes share.
            moves: C of (2 P, S), how such a pull moves the parameters of each class.
            variance: (C,), of the answer.
        """
        constant, every = self.constant, (shared * variance[:, None]).T @ shared
        for c, (spread, move) in enumerate(zip(joint, moves, strict=True)):
            move = move - constant[:, None] * (self.slopes[c] @ move)
            others = move @ shared[c]
            own = others.clone()
            own[: len(alone)] -= alone
            own += constant * (1 + float(self.slopes[c][: len(alone)] @ alone))
            spread += move @ every @ move.T
            spread.addr_(others, others, alpha=-float(variance[c]))
            spread.addr_(own, own, alpha=float(variance[c]))


@dataclass(frozen=True)
class _Pull:
    """How one more in every residual pulls: at values, (P,), and by class at importances, (C, S)."""

    by_values: Tensor
    by_importances: Tensor

    def beyond(self, across: Tensor) -> Tensor:
        """At the importances, beyond what the values make of it, (C, S)."""
        return self.by_importances - torch.stack([self.by_values @ part for part in across])


def _pull_of_the_whole_text(problem: Problem, state: State, counts: Tensor) -> _Pull:
    """Of the answer that every change is measured from."""
    heads, free, weight = state.heads[0], problem.free, problem.row_weights[0]
    shares = counts[:, None] * state.weights[0] * state.features.scales[0, ..., None]  # (m, K, p)
    by_values = weight @ problem.beyond_length(problem.from_anchor(shares.flatten(1)[None]))[0]
    by_importances = []
    for c in range(heads.shape[2]):
        slopes = shares[:, :free] * (state.values[0, :free, :, c] - heads[:, :free, c, None])
        slopes = problem.beyond_length(problem.from_anchor(slopes.flatten(1)[None]))
        by_importances.append(weight @ slopes[0])
    return _Pull(by_values, torch.stack(by_importances))


@dataclass(frozen=True)
class _Meat:
    """Products, summed over rows, of each row's parts in the slope of the objective.

    Attributes:
        values: C of (P, P), of the part by the values of a class.
        mixed: C of (P, S), of that part with the one by the importances beyond what the values of all classes make of it.
        own: (S, S), of the latter.
    """

    values: list[Tensor]
    mixed: list[Tensor]
    own: Tensor


def _meat(problem: Problem, state: State, counts: Tensor, across: Tensor) -> _Meat:
    by_values, by_importances = _row_slopes(problem, state, counts)
    beyond = by_importances - sum(
        (rows @ part for rows, part in zip(by_values, across, strict=True)),
        start=torch.zeros_like(by_importances),
    )
    return _Meat(
        [rows.T @ rows for rows in by_values],
        [rows.T @ beyond for rows in by_values],
        beyond.T @ beyond,
    )


def _short_meat(problem: Problem, state: State, across: Tensor) -> _Meat | None:
    """The same without tables of rows, where rows are short and the slopes are 0 wherever the counts are; None elsewhere."""
    rows = problem.rows
    if (
        not isinstance(rows, ShortRows)
        or state.heads.shape[2] > 1
        or problem.anchored
        or problem.lengths is not None
    ):
        return None
    shares = (
        rows.times * rows.at(state.weights[:, 0, None])[:, 0] * state.features.scales.mT
    )  # (1, l, m)
    pulls = (
        shares[:, None] * (problem.row_weights[..., None] * state.residuals).mT[:, :, None]
    )  # (1, C, l, m)
    by_importance = (
        pulls * (rows.at(state.values[:, 0].mT) - state.heads[:, :, 0].mT[:, :, None])
    ).sum(dim=1)
    by_value = pulls.unbind(dim=1)
    grid = [[rows.products(one, other)[0] for other in by_value] for one in by_value]
    with_importance = [rows.products(one, by_importance)[0] for one in by_value]
    mixed = [
        part - sum(line[d] @ across[d] for d in range(len(line)))
        for part, line in zip(with_importance, grid, strict=True)
    ]
    own = rows.products(by_importance, by_importance)[0]
    for part, beyond, of_class in zip(with_importance, mixed, across, strict=True):
        own = own - part.T @ of_class - of_class.T @ beyond
    return _Meat([line[c] for c, line in enumerate(grid)], mixed, own)


def _row_slopes(problem: Problem, state: State, counts: Tensor) -> tuple[list[Tensor], Tensor]:
    """Each row's part in the slope of the objective: by the values of each class, C of (m, P), and by the importances, (m, S)."""
    heads, free = state.heads[0], problem.free
    shares = counts[:, None] * state.weights[0] * state.features.scales[0, ..., None]  # (m, K, p)
    scaled = (problem.row_weights[..., None] * problem.beyond_length(state.residuals))[0]  # (m, C)
    by_values = problem.beyond_length(problem.from_anchor(shares.flatten(1)[None]))[0]
    by_importances = torch.zeros_like(by_values[:, : free * counts.shape[1]])
    for c in range(scaled.shape[1]):
        slopes = (
            shares[:, :free] * (state.values[0, :free, :, c] - heads[:, :free, c, None])
        ).flatten(1)
        by_importances += (
            problem.beyond_length(problem.from_anchor(slopes[None]))[0] * scaled[:, c, None]
        )
    return [by_values * scaled[:, c, None] for c in range(scaled.shape[1])], by_importances


def _definite_inverse(schur: Tensor) -> Tensor:
    """The inverse of a curvature that rounding, or a fit that stopped early, may have left indefinite."""
    level = schur.diagonal().mean().abs() + 1e-300
    for share in HELD:
        held = schur.clone()
        held.diagonal().add_(share * level)
        factor, failed = torch.linalg.cholesky_ex(held)
        if not bool(failed):
            return torch.cholesky_inverse(factor)
    if not bool(schur.isfinite().all()):
        return torch.full_like(schur, math.nan)
    curvatures, directions = torch.linalg.eigh((schur + schur.T) / 2)
    inverse: Tensor = (directions / curvatures.abs().clamp(min=HELD[-1] * level)) @ directions.T
    return inverse


def _widening(
    problem: Problem, value_inverse: Tensor, importance_inverse: Tensor, classes: int
) -> float:
    """sqrt(rows / (rows - parameters spent)); a parameter held by its prior is not spent.

    NaN where the parameters use up the rows: residuals then say nothing about errors.
    """
    _, rows, size = problem.rows.shape
    penalties = problem.value_penalty[0, :, None].expand(-1, size).flatten()
    held = (
        problem.importance_penalty[0] * importance_inverse.diagonal().sum()
        + classes * (penalties * value_inverse.diagonal()).sum()
    )
    spent = classes * len(value_inverse) + len(importance_inverse) - problem.free - held
    if problem.lengths is not None:
        spent = (
            spent
            + classes
            * (problem.lengths.shrink[0, problem.lengths.of_row[0]] * problem.row_weights[0]).sum()
        )
    left = rows * classes - float(spent)
    return MISFIT * math.sqrt(rows * classes / left) if left > 0.5 else math.nan


def _centred(importances: Tensor, units: int) -> Tensor:
    return importances - importances[..., :units].mean(dim=-1, keepdim=True)


def inverse_variance(residuals: Tensor, deleted: Tensor) -> Tensor:
    """Row weights (m,) from how residuals grow with the number deleted.

    The log mean squared residuals of equally filled groups of rows are followed by a parabola in the log of the number deleted,
    within the range of the groups.
    """
    squared = (residuals**2).sum(dim=1)
    size = torch.log(deleted.to(squared) + 0.5)
    groups = torch.tensor_split(size.argsort(stable=True), min(12, max(2, len(size) // 20)))
    x = torch.stack([size[group].mean() for group in groups])
    y = torch.stack([squared[group].mean() for group in groups]).clamp(min=1e-30).log()
    powers = min(3, len(groups))
    design = torch.stack([x**power for power in range(powers)], dim=1)
    gram = design.T @ design
    gram.diagonal().add_(1e-9 * gram.diagonal().mean())
    curve = torch.linalg.solve(gram, design.T @ y)
    level = sum(
        (curve[power] * size**power for power in range(powers)), start=torch.zeros_like(size)
    ).clamp(y.min(), y.max())
    raw = torch.exp(-EVENNESS * level)
    return raw / raw.mean()


def length_penalty(fit: Fit, counts: Tensor) -> float:
    """The ridge on length offsets that their own spread calls for, from the residuals of a fit without or with them.

    With row weights that sum to one and residuals of mean weighted square s2, the mean residual of rows of one length varies by
    s2 / (m Q) by chance, Q being their weight together; what it varies beyond that is the variance of the offsets.
    """
    residuals, weight = fit.residuals, fit.row_weights
    length = counts.sum(dim=1).round().long()
    if fit.surrogate.length_offsets is not None:
        residuals = residuals - fit.surrogate.length_offsets[length]
    many = counts.shape[1] + 1
    total = torch.zeros(many, dtype=weight.dtype, device=weight.device).index_add_(
        0, length, weight
    )
    sums = residuals.new_zeros(many, residuals.shape[1]).index_add_(
        0, length, weight[:, None] * residuals
    )
    total[[0, -1]] = 0.0
    seen = total > 0
    if not bool(seen.any()):
        return math.inf
    chance = (
        float((weight[:, None] * residuals**2).sum()) / residuals.shape[1] / len(weight)
    )  # s2 / m
    mean = sums[seen] / total[seen, None]
    by_chance = chance / total[seen]
    certainty = 1 / (by_chance + by_chance.median()) ** 2
    spread = float((certainty * ((mean**2).mean(dim=1) - by_chance)).sum() / certainty.sum())
    return chance / spread if spread > 0 else math.inf
