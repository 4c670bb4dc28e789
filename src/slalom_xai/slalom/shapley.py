"""Shapley values: each unit's share of the prediction.

The Shapley value of a unit is what it adds to the output when it joins the others, averaged over
all orders in which they may come. A unit that joins changes two sums, and the formula is cheap:
so orders are simply drawn, a few thousand, and each costs one cumulative sum. Two things make few
orders enough. Each drawn order is used in all its rotations (spread evenly), so that every unit
comes early as often as late. And each is used backwards as well.

The model's own Shapley values differ from those of the formula by what the formula leaves. A linear
fit of that, weighted as Kernel SHAP weights, is added.

Shapes: n units, C columns (explained outputs), m perturbed texts.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from slalom_xai.slalom.formula import Formulas

_CELLS = 2_000_000  # outputs along orders that are held at once
ENUMERATED = 10  # units: a text of up to so many has its 1,024 subsets added up exactly


def compute_shapley(formulas: Formulas, orders: int = 2000) -> Tensor:
    """The Shapley values of formulas, (K, n), summing to F(all) - F(nothing).

    Args:
        formulas: K of them, such as ``form.split()``.
        orders: how many orders to average over, where there are too many subsets for all of them.
    """
    if formulas.units <= ENUMERATED:
        return _from_all_subsets(formulas)
    return _from_orders(formulas, orders)


def _from_all_subsets(formulas: Formulas) -> Tensor:
    """The definition: the weighted sum over all subsets of the other units."""
    n = formulas.units
    numbers = torch.arange(2**n)
    inside = ((numbers[:, None] >> torch.arange(n)) & 1).to(formulas.inner)  # (2^n, n)
    sizes = inside.sum(dim=1).long()
    weights = torch.tensor(
        [1 / (n * math.comb(n - 1, size)) if size < n else 0.0 for size in range(n + 1)],
        dtype=inside.dtype,
    )
    shares = []
    for some in torch.split(torch.arange(len(formulas)), max(1, _CELLS // inside.numel())):
        outputs = formulas.pick(some).predict(inside)  # (k, 2^n)
        gains = []
        for unit in range(n):
            without = numbers[inside[:, unit] == 0]
            gain = outputs[:, without + (1 << unit)] - outputs[:, without]
            gains.append(gain @ weights[sizes[without]])
        shares.append(torch.stack(gains, dim=1))
    return torch.cat(shares)


def _from_orders(formulas: Formulas, orders: int) -> Tensor:
    order = _draw_orders(formulas.units, orders)  # (R, n): unit by place
    place = torch.argsort(order, dim=1)  # (R, n): place by unit
    shares = torch.empty(len(formulas), formulas.units, dtype=formulas.inner.dtype)
    paired = torch.isfinite(formulas.importances[:, formulas.units : -1]).any(dim=1)
    for kind in (paired, ~paired):
        for some in torch.split(kind.nonzero()[:, 0], max(1, _CELLS // order.numel())):
            shares[some] = _add_up_gains(formulas.pick(some), order, place)
    return shares


def _add_up_gains(formulas: Formulas, order: Tensor, place: Tensor) -> Tensor:
    """What each unit adds where it joins, averaged over orders, (k, n)."""
    n, weights = formulas.units, formulas.weights
    heard = [weights, weights * formulas.inner]
    places = torch.arange(n)
    sums = [
        torch.cumsum(each[:, :n][:, order], dim=2) + each[:, -1, None, None] * (n - 1 - places)
        for each in heard
    ]
    for pair in range(formulas.pairs.shape[1]):
        importance = formulas.importances[:, n + pair]
        if not torch.isfinite(importance).any():
            continue
        first, second = formulas.pairs[:, pair].long().T
        complete = torch.maximum(place[:, first], place[:, second]).T  # (k, R)
        there = places >= complete[..., None]  # (k, R, n): both units of the pair are
        for total, each in zip(sums, heard, strict=True):
            total += there * each[:, n + pair, None, None]
    outputs = formulas.bound(sums[1] / sums[0])  # (k, R, n)
    outputs[..., 1:] -= outputs[..., :-1].clone()
    outputs[..., 0] -= formulas.bound(formulas.inner[:, -1])[:, None]
    gains = outputs.new_zeros(len(formulas), n)
    return gains.index_add_(1, order.reshape(-1), outputs.flatten(1)) / len(order)


@functools.lru_cache(maxsize=16)
def _draw_orders(n: int, orders: int) -> Tensor:
    """Random orders (R, n) with rotations spread evenly, each forwards and backwards."""
    generator = torch.Generator().manual_seed(n)
    rotations = min(n, 16)
    drawn = max(1, orders // (2 * rotations))
    base = torch.stack([torch.randperm(n, generator=generator) for _ in range(drawn)])
    shifts = (torch.arange(rotations) * n) // rotations
    starts = torch.randint(n, (drawn, 1), generator=generator)
    places = (torch.arange(n) + shifts[:, None, None] + starts) % n  # (rotations, drawn, n)
    turned = torch.gather(base.expand(rotations, -1, -1), 2, places).reshape(-1, n)
    return torch.cat([turned, turned.flip(1)])


def fit_rest(
    counts: Tensor, left: Tensor, groups: Tensor | None = None, told: Tensor | None = None
) -> Tensor:
    """A linear fit of what the formula leaves, by Kernel SHAP's weights, (..., n, C), summing to 0.

    Args:
        counts: (..., m, n), perturbed texts.
        left: (..., m, C), the model's output less the formula's.
        groups: (..., m), numbers from 0 to G - 1: the fit is made G times, without each of the
            groups, and there are (..., G, n, C) scores.
        told: (..., m), 0 for texts that only fill up; None: there are none.
    """
    n = counts.shape[-1]
    if n < 2:
        shape = left.shape[:-2] if groups is None else (*left.shape[:-2], int(groups.max()) + 1)
        return left.new_zeros(*shape, n, left.shape[-1])
    kept = counts.sum(dim=-1)
    weight = 1 / (kept * (n - kept)).clamp(min=1)
    if told is not None:
        weight = weight * told
    # Scores that sum to 0: those of all units but the last, and less their sum for the last.
    design = counts[..., :-1] - counts[..., -1:]
    design = torch.cat([design, torch.ones_like(design[..., :1])], dim=-1)
    weighted = design * weight[..., None]
    gram, right = (weighted.transpose(-1, -2) @ part for part in (design, left))
    if groups is not None:
        # The calls of each group one after the other, (..., G, calls of a group). A call with
        # weight 0 fills up the smaller groups.
        places, real = _sort_by_group(groups)
        weighted, design, left = (
            part.gather(-2, places[..., None].expand(*places.shape, part.shape[-1])).reshape(
                *real.shape, part.shape[-1]
            )
            for part in (weighted, design, left)
        )
        weighted = weighted * real[..., None]
        gram = gram[..., None, :, :] - weighted.transpose(-1, -2) @ design
        right = right[..., None, :, :] - weighted.transpose(-1, -2) @ left
    scale = gram.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    steady = gram + 1e-3 * scale * torch.eye(n, dtype=gram.dtype, device=gram.device)
    # Cholesky's factors: MKL's batched LU fails once torch's number of threads has changed.
    scores = torch.cholesky_solve(right, torch.linalg.cholesky(steady))[..., :-1, :]
    return torch.cat([scores, -scores.sum(dim=-2, keepdim=True)], dim=-2)


def _sort_by_group(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Where the calls of each group stand, (..., G calls), and which of these places are real.

    The second is (..., G, calls of a group).
    """
    count = int(groups.max()) + 1
    member = groups[..., None, :] == torch.arange(count)[:, None]  # (..., G, m)
    most = int(member.sum(dim=-1).max())
    places = member.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :most]
    real = torch.arange(most) < member.sum(dim=-1, keepdim=True)
    return places.flatten(-2), real
