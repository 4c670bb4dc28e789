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

Sizes: B texts, m rows, p slots, K heads, n_f of them free (their importances are fitted), C columns
(explained outputs), n_s = n_f p fitted importances, n_v = K p values of a column.
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
class Curvature:
    """In the fitted importances, and how the values follow them.

    Attributes:
        schur: (B, n_s, n_s), with the direction of a common shift per head held.
        diagonal: (B, n_s), of ``schur`` but not too small: what damping is relative to.
        slope: (B, n_s), half the derivative of the objective.
        values_by_importances: (B, n_v, C n_s), VV^{-1} SV': the derivative of the best values by
            the importances, up to its sign.
    """

    schur: Tensor
    diagonal: Tensor
    slope: Tensor
    values_by_importances: Tensor


@dataclass(frozen=True)
class _FreeHeads:
    """The heads whose importances are fitted, less each head's mean prediction.

    Values and predictions may lose any constant without changing a derivative by the importances,
    because only their difference counts. Taking the mean keeps digits.

    Attributes:
        values: (B, n_f, C, p).
        predicted: (B, m, n_f, C).
        scaled: the matrices P; their n_f C scales are F_kc / W_k.
    """

    values: Tensor
    predicted: Tensor
    scaled: ScaledCounts

    @classmethod
    def of(cls, problem: Problem, state: State) -> _FreeHeads:
        """At a point of the search."""
        batch, heads, _, columns = state.values.shape
        free = problem.free_heads
        # Row weights sum to one, so weighted sums are means.
        means = problem.row_weights[:, None] @ state.head_predictions.flatten(2)
        means = means.reshape(batch, heads, columns)
        values = (state.values - means[:, :, None])[:, :free].mT
        predicted = (state.head_predictions - means[:, None])[:, :, :free]
        scales = (state.scaled.scales[..., :free, None] * predicted).flatten(2)
        return cls(values, predicted, scale_counts(problem, scales))


def curvature_of(problem: Problem, state: State) -> Curvature:
    """Slope and curvature at a point of the search."""
    free = _FreeHeads.of(problem, state)
    with_values = _products_with_values(problem, state, free)
    sv = free.values[:, :, :, None, :, None] * state.blocks[:, : problem.free_heads, None]
    sv -= with_values  # SV before it is weighted, (B, n_f, C, K, p, p)
    ss = _importance_curvature(problem, state, free, sv, with_values)
    before = ss.diagonal(dim1=1, dim2=2).clone()
    _hold_common_shifts(problem, ss, before)
    sv *= state.weights[:, : problem.free_heads, None, None, :, None]
    sv *= state.weights[:, None, None, :, None, :]
    schur, values_by_importances = _without_values(ss, sv, state.factor)
    diagonal = schur.diagonal(dim1=1, dim2=2).clamp(min=problem.least_left * before)
    return Curvature(schur, diagonal, _slope(problem, state, free), values_by_importances)


def _products_with_values(problem: Problem, state: State, free: _FreeHeads) -> Tensor:
    """<P_kc, E_j>, (B, n_f, C, K, p, p)."""
    batch, heads, size = state.weights.shape
    columns = state.values.shape[3]
    parts = []
    for index in range(problem.free_heads * columns):
        for head in range(heads):
            parts.append(product(problem, free.scaled, state.scaled, index, head))
    shape = (batch, problem.free_heads, columns, heads, size, size)
    return torch.stack(parts, dim=1).reshape(shape)


def _importance_curvature(
    problem: Problem, state: State, free: _FreeHeads, sv: Tensor, with_values: Tensor
) -> Tensor:
    """SS, weighted and with its ridge, (B, n_s, n_s).

    Args:
        problem: what is fitted.
        state: the point of the search.
        free: its fitted heads.
        sv: SV before it is weighted, (B, n_f, C, K, p, p).
        with_values: <P_kc, E_j>, (B, n_f, C, K, p, p).
    """
    batch, heads, columns, size = free.values.shape
    from_left = free.values[:, :, :, None, :, None]  # diag(v_kc)
    from_right = free.values.transpose(1, 2)[:, None, :, :, None]  # diag(v_jc)
    swapped = with_values[:, :, :, :heads].permute(0, 3, 2, 1, 5, 4)  # <P_jc, E_k>'
    ss = sv[:, :, :, :heads] * from_right
    ss -= from_left * swapped
    ss = ss.sum(dim=2) if columns > 1 else ss[:, :, 0]  # (B, n_f, n_f, p, p)
    products = symmetric_products(problem, free.scaled, heads, columns)  # <P_kc, P_jc>
    ss += products.transpose(1, 2).mT
    weights = state.weights[:, :heads].flatten(1)
    flat = ss.transpose(2, 3).reshape(batch, heads * size, heads * size) * weights[:, :, None]
    flat *= weights[:, None]
    flat.diagonal(dim1=1, dim2=2).add_(problem.penalties.importance[:, None])
    return flat


def _hold_common_shifts(problem: Problem, ss: Tensor, diagonal: Tensor) -> None:
    """Adds the mean curvature to the direction of a common shift of each head's importances.

    Args:
        problem: what is fitted.
        ss: SS, (B, n_s, n_s), changed in place.
        diagonal: (B, n_s), its diagonal before.
    """
    heads, padding = problem.free_heads, problem.padding
    size = padding.real.shape[1]
    by_head = diagonal.reshape(len(diagonal), heads, size) * padding.real[:, None]
    mean_curvature = by_head.sum(dim=(1, 2)) / (heads * padding.sizes**2)
    for head in range(heads):
        of_head = slice(head * size, (head + 1) * size)
        ss[:, of_head, of_head] += mean_curvature[:, None, None] * padding.pairs()


def _without_values(ss: Tensor, sv: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """The Schur complement, and VV^{-1} SV'.

    Args:
        ss: SS, (B, n_s, n_s).
        sv: SV, weighted, (B, n_f, C, K, p, p).
        factor: of VV, (B, n_v, n_v).

    Returns:
        (B, n_s, n_s) and (B, n_v, C n_s).
    """
    batch, free, columns, heads, size, _ = sv.shape
    by_importance = sv.permute(0, 1, 4, 2, 3, 5)
    # (B, n_s, C, n_v)
    by_importance = by_importance.reshape(-1, free * size, columns, heads * size)
    values_by_importances = torch.cholesky_solve(
        by_importance.permute(0, 3, 2, 1).flatten(2), factor
    )
    # (B, n_v, C, n_s)
    following = values_by_importances.reshape(batch, heads * size, columns, free * size)
    following = following.transpose(1, 2).flatten(1, 2)  # (B, C n_v, n_s)
    return ss - by_importance.flatten(2) @ following, values_by_importances


def _slope(problem: Problem, state: State, free: _FreeHeads) -> Tensor:
    """Half the derivative of the objective by the fitted importances, (B, n_s)."""
    heads, columns = free.predicted.shape[2:]
    # The derivative is w_j sum_ic n_ij / W_i (v_jc - F_ic) pull_ic. Rows come last: that is fast.
    pull = problem.pull(state.residuals).mT[:, None]  # (B, 1, C, m)
    pulled = state.scaled.scales.mT[:, :heads, None] * pull  # (B, n_f, C, m)
    pulled_predictions = pulled * free.predicted.movedim(1, 3)
    pulled_predictions = (
        pulled_predictions.sum(dim=2) if columns > 1 else pulled_predictions[:, :, 0]
    )  # (B, n_f, m)
    of_rows = torch.cat([pulled.flatten(1, 2), pulled_predictions], dim=1).mT
    sums = problem.rows.transposed_matmul(of_rows).mT  # (B, n_f C + n_f, p)
    by_value = sums[:, : heads * columns].reshape(free.values.shape)
    by_prediction = sums[:, heads * columns :]
    effect = (free.values * by_value).sum(dim=2) - by_prediction
    penalties = problem.penalties
    from_centre = (state.importances - penalties.importance_centre)[:, :heads]
    ridge = penalties.importance[:, None, None] * from_centre
    return (state.weights[:, :heads] * effect + ridge).flatten(1)
