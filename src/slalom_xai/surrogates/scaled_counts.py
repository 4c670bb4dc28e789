"""Matrices of counts whose rows are scaled, and products of them under the problem's weights.

What it has to do: all derivatives of a SLALOM's predictions are counts times a factor of the row
times a factor of the slot (see ``curvature``). The factors of slots are applied afterwards. What is
left are matrices ``A_t = diag(g_t) N`` with N the counts (m, p), and their products

    <A_s, A_t>  =  (H A_s)' M (H A_t)         H = I - 1 e_1'         M = Q - Q G S G' Q

Q is the diagonal of row weights. H takes the first row away where the fit is anchored. G says which
row has which length and S shrinks the offsets, which are thereby eliminated.

Why it is done this way: written out,

    A_s' Q A_t                              a Gram matrix of the counts under weights q g_s g_t
      - (A_s' q) a_t' - a_s (A_t' q - a_t)'   where anchored: a_t is the first row of A_t
      - (G' Q H A_s)' S (G' Q H A_t)          where there are length offsets

so no matrix A_t is ever written, and what an anchor and offsets add is of low rank.

Shapes: B texts, m rows, p slots, T matrices, L possible lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.problem import Problem


@dataclass(frozen=True)
class ScaledCounts:
    """T matrices ``A_t = diag(g_t) N``, by what their products need.

    Attributes:
        scales: (B, m, T), the factors g.
        first: (B, T, p), the first row of each matrix; None without an anchor.
        weighted_sums: (B, T, p), over all rows, A'q; None without an anchor.
        by_length: (B, T, L, p), weighted sums over the rows of each length, G'QHA; None without
            length offsets.
    """

    scales: Tensor
    first: Tensor | None = None
    weighted_sums: Tensor | None = None
    by_length: Tensor | None = None


def scale_counts(problem: Problem, scales: Tensor) -> ScaledCounts:
    """The counts times factors of the row, (B, m, T)."""
    if not problem.anchored and problem.lengths is None:
        return ScaledCounts(scales)
    weighed = problem.row_weights[..., None] * scales
    by_length = _sums_by_length(problem, weighed)
    if not problem.anchored:
        return ScaledCounts(scales, by_length=by_length)
    first = scales[:, 0, :, None] * problem.rows.first()[:, None]
    if by_length is None or problem.lengths is None:
        weighted_sums = problem.rows.transposed_matmul(weighed).mT
        return ScaledCounts(scales, first, weighted_sums)
    weighted_sums = by_length.sum(dim=2)
    weight = problem.lengths.sums(problem.row_weights[..., None])  # (B, L, 1)
    by_length -= weight[:, None] * first[:, :, None]
    return ScaledCounts(scales, first, weighted_sums, by_length)


def _sums_by_length(problem: Problem, weighed: Tensor) -> Tensor | None:
    """Sums of counts times (B, m, T) over the rows of each length, (B, T, L, p)."""
    if problem.lengths is None:
        return None
    of_row, many = problem.lengths.of_row, problem.lengths.shrink.shape[1]
    parts = [problem.rows.group_sums(of_row, many, part) for part in weighed.unbind(dim=2)]
    return torch.stack(parts, dim=1)


def product(
    problem: Problem, left: ScaledCounts, right: ScaledCounts, i: int, j: int, many: int = 1
) -> Tensor:
    """``sum over t < many of <left_{i+t}, right_{j+t}>``, (B, p, p)."""
    of_left, of_right = slice(i, i + many), slice(j, j + many)
    scales = left.scales[..., of_left] * right.scales[..., of_right]
    together = scales.sum(dim=2) if many > 1 else scales[..., 0]
    gram = problem.rows.gram(problem.row_weights * together)
    if problem.anchored:
        assert left.first is not None
        assert left.weighted_sums is not None
        assert right.first is not None
        assert right.weighted_sums is not None
        a, b = left.first[:, of_left], right.first[:, of_right]
        left_sums = left.weighted_sums[:, of_left]
        right_sums = right.weighted_sums[:, of_right]
        gram -= left_sums.mT @ b + a.mT @ (right_sums - b)
    if problem.lengths is not None:
        assert left.by_length is not None
        assert right.by_length is not None
        shrunk = problem.lengths.shrink[:, None, :, None] * right.by_length[:, of_right]
        gram -= left.by_length[:, of_left].flatten(1, 2).mT @ shrunk.flatten(1, 2)
    return gram


def symmetric_products(
    problem: Problem, matrices: ScaledCounts, blocks: int, many: int = 1
) -> Tensor:
    """All products of one set of matrices with itself, in blocks of ``many`` that are summed.

    Returns:
        (B, blocks, blocks, p, p); those below the diagonal are transposes of those above it.
    """
    if blocks == 1:
        return product(problem, matrices, matrices, 0, 0, many)[:, None, None]
    grid: dict[tuple[int, int], Tensor] = {}
    for k in range(blocks):
        for j in range(k, blocks):
            grid[k, j] = product(problem, matrices, matrices, k * many, j * many, many)
            if k < j:
                grid[j, k] = grid[k, j].mT
    in_order = [grid[k, j] for k in range(blocks) for j in range(blocks)]
    size = problem.rows.shape[2]
    return torch.stack(in_order, dim=1).reshape(-1, blocks, blocks, size, size)
