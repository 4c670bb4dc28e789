"""Slope and curvature of the objective in the importances, the values following them.

What it has to do: give what a step of Gauss and Newton needs at a point of the search. With the
values projected out (see ``projection``), that is a function of the importances s alone.

The derivatives of head k's prediction F_kc of column c, with the notation of ``projection``:

    by the values        E_k D_k                            E_k  = diag(1 / W_k) N
    by the importances   (E_k diag(v_kc) - P_kc) D_k        P_kc = diag(F_kc / W_k) N

so every block of the curvature is made of products <.,.> of the matrices E and P:

    values, values            VV_kj  =  <E_k, E_j>                             (known: state.blocks)
    importances, values       SV_kcj =  diag(v_kc) VV_kj  -  <P_kc, E_j>
    importances, importances  SS_kj  =  sum_c [ SV_kcj diag(v_jc) - diag(v_kc) <P_jc, E_k>'
                                                + <P_jc, P_kc>' ]

each between D_k and D_j. Columns share importances, so the last is a sum over them. Eliminating the
values leaves the Schur complement

    SS - sum_c SV_c VV^{-1} SV_c'

Why it is done this way: no matrix of derivatives (m, p) is written for any head or column, and the
factor of VV is the one that gave the values.

Adding one number to all importances of a head changes nothing. That direction gets a curvature of
its own, so that the matrix can be factored.

Shapes: B texts, m rows, p slots, K heads, F of them free (fitted), C columns (explained outputs),
S = F p importances that are fitted, P = K p.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.problem import Problem
from slalom_xai.surrogates.projection import State
from slalom_xai.surrogates.scaled_counts import (
    ScaledCounts,
    product,
    scale_counts,
    symmetric_products,
)


@dataclass(frozen=True)
class CurvatureSettings:
    """Constants of the curvature.

    Attributes:
        least_left: the least part of an importance's own curvature that damping is relative to.
            Where values can stand in for an importance, hardly any of its curvature is left, and
            damping relative to nothing would not damp. Smaller values mean longer first steps
            there.
    """

    least_left: float = 1e-6


CURVATURE = CurvatureSettings()


@dataclass(frozen=True)
class Curvature:
    """In the fitted importances, and how the values follow them.

    Attributes:
        schur: (B, S, S), with the direction of a common shift per head held.
        diagonal: (B, S), what damping is relative to.
        slope: (B, S), half the derivative of the objective.
        across: (B, P, C S), VV^{-1} SV': the derivative of the best values by the importances, up
            to its sign.
    """

    schur: Tensor
    diagonal: Tensor
    slope: Tensor
    across: Tensor


@dataclass(frozen=True)
class _FreeHeads:
    """The heads whose importances are fitted, less each head's mean prediction.

    Values and predictions may lose any constant without changing a derivative by the importances,
    because only their difference counts. Taking the mean keeps digits.

    Attributes:
        values: (B, F, C, p).
        predicted: (B, m, F, C).
        scaled: the matrices P; their F C scales are F_kc / W_k.
    """

    values: Tensor
    predicted: Tensor
    scaled: ScaledCounts

    @classmethod
    def of(cls, problem: Problem, state: State) -> _FreeHeads:
        """At a point of the search."""
        batch, heads, _, columns = state.values.shape
        free = problem.free_heads
        mean = problem.row_weights[:, None] @ state.heads.flatten(2)
        level = mean.reshape(batch, heads, columns)
        values = (state.values - level[:, :, None])[:, :free].mT
        predicted = (state.heads - level[:, None])[:, :, :free]
        scales = (state.scaled.scales[..., :free, None] * predicted).flatten(2)
        return cls(values, predicted, scale_counts(problem, scales))


def curvature_of(problem: Problem, state: State) -> Curvature:
    """Slope and curvature at a point of the search."""
    free = _FreeHeads.of(problem, state)
    with_values = _products_with_values(problem, state, free)
    cross = free.values[:, :, :, None, :, None] * state.blocks[:, : problem.free_heads, None]
    cross -= with_values  # SV before it is weighted, (B, F, C, K, p, p)
    own = _importance_curvature(problem, state, free, cross, with_values)
    diagonal = own.diagonal(dim1=1, dim2=2).clone()
    _hold_common_shifts(problem, own, diagonal)
    cross *= state.weights[:, : problem.free_heads, None, None, :, None]
    cross *= state.weights[:, None, None, :, None, :]
    schur, across = _without_values(own, cross, state.factor)
    left = schur.diagonal(dim1=1, dim2=2).clamp(min=CURVATURE.least_left * diagonal)
    return Curvature(schur, left, _slope(problem, state, free), across)


def _products_with_values(problem: Problem, state: State, free: _FreeHeads) -> Tensor:
    """<P_kc, E_j>, (B, F, C, K, p, p)."""
    batch, heads, size = state.weights.shape
    columns = state.values.shape[3]
    parts = []
    for index in range(problem.free_heads * columns):
        for head in range(heads):
            parts.append(product(problem, free.scaled, state.scaled, index, head))
    shape = (batch, problem.free_heads, columns, heads, size, size)
    return torch.stack(parts, dim=1).reshape(shape)


def _importance_curvature(
    problem: Problem, state: State, free: _FreeHeads, cross: Tensor, with_values: Tensor
) -> Tensor:
    """SS, weighted and with its ridge, (B, S, S).

    Args:
        problem: what is fitted.
        state: the point of the search.
        free: its fitted heads.
        cross: SV before it is weighted, (B, F, C, K, p, p).
        with_values: <P_kc, E_j>, (B, F, C, K, p, p).
    """
    batch, heads, columns, size = free.values.shape
    from_left = free.values[:, :, :, None, :, None]  # diag(v_kc)
    from_right = free.values.transpose(1, 2)[:, None, :, :, None]  # diag(v_jc)
    swapped = with_values[:, :, :, :heads].permute(0, 3, 2, 1, 5, 4)  # <P_jc, E_k>'
    own = cross[:, :, :, :heads] * from_right
    own -= from_left * swapped
    own = own.sum(dim=2) if columns > 1 else own[:, :, 0]  # (B, F, F, p, p)
    products = symmetric_products(problem, free.scaled, heads, columns)  # <P_kc, P_jc>
    own += products.transpose(1, 2).mT
    weights = state.weights[:, :heads].flatten(1)
    flat = own.transpose(2, 3).reshape(batch, heads * size, heads * size) * weights[:, :, None]
    flat *= weights[:, None]
    flat.diagonal(dim1=1, dim2=2).add_(problem.penalties.importance[:, None])
    return flat


def _hold_common_shifts(problem: Problem, own: Tensor, diagonal: Tensor) -> None:
    """Adds the mean curvature to the direction of a common shift of each head's importances.

    Args:
        problem: what is fitted.
        own: SS, (B, S, S), changed in place.
        diagonal: (B, S), its diagonal before.
    """
    heads, padding = problem.free_heads, problem.padding
    size = padding.real.shape[1]
    by_head = diagonal.reshape(len(diagonal), heads, size) * padding.real[:, None]
    level = by_head.sum(dim=(1, 2)) / (heads * padding.sizes**2)
    for head in range(heads):
        of_head = slice(head * size, (head + 1) * size)
        own[:, of_head, of_head] += level[:, None, None] * padding.pairs()


def _without_values(own: Tensor, cross: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """The Schur complement, and VV^{-1} SV'.

    Args:
        own: SS, (B, S, S).
        cross: SV, weighted, (B, F, C, K, p, p).
        factor: of VV, (B, P, P).

    Returns:
        (B, S, S) and (B, P, C S).
    """
    batch, free, columns, heads, size, _ = cross.shape
    by_importance = cross.permute(0, 1, 4, 2, 3, 5)
    by_importance = by_importance.reshape(-1, free * size, columns, heads * size)  # (B, S, C, P)
    across = torch.cholesky_solve(by_importance.permute(0, 3, 2, 1).flatten(2), factor)
    following = across.reshape(batch, heads * size, columns, free * size)  # (B, P, C, S)
    following = following.transpose(1, 2).flatten(1, 2)  # (B, C P, S)
    return own - by_importance.flatten(2) @ following, across


def _slope(problem: Problem, state: State, free: _FreeHeads) -> Tensor:
    """Half the derivative of the objective by the fitted importances, (B, S)."""
    heads, columns = free.predicted.shape[2:]
    # The derivative is w_j sum_ic n_ij / W_i (v_jc - F_ic) pull_ic. Rows come last: that is fast.
    pull = problem.pull(state.residuals).mT[:, None]  # (B, 1, C, m)
    pulled = state.scaled.scales.mT[:, :heads, None] * pull  # (B, F, C, m)
    drawn = pulled * free.predicted.movedim(1, 3)
    drawn = drawn.sum(dim=2) if columns > 1 else drawn[:, :, 0]  # (B, F, m)
    of_rows = torch.cat([pulled.flatten(1, 2), drawn], dim=1).mT
    sums = problem.rows.transposed_matmul(of_rows).mT  # (B, F C + F, p)
    by_value = sums[:, : heads * columns].reshape(free.values.shape)
    by_prediction = sums[:, heads * columns :]
    effect = (free.values * by_value).sum(dim=2) - by_prediction
    away = (state.importances - problem.penalties.importance_centre)[:, :heads]
    ridge = problem.penalties.importance[:, None, None] * away
    return (state.weights[:, :heads] * effect + ridge).flatten(1)
