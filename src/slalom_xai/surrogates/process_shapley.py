"""Shapley values of a Gaussian process with what else predicts, and how sure they are.

What it has to do: average what each unit adds over all orders in which units may come,

    phi_i = mean over orders of  F(units before i, and i) - F(units before i).

Why it is done this way: growth with the number deleted leaves no closed form. So orders are drawn,
each with its reverse, which takes away most of the chance. What the values lack in orders is seen
from how orders differ; what the process does not know of its rows follows from its kernel:

    variance = a' k a - |L^-1 k(rows, .) a|^2,     a = +-1 / orders on the rows of unit i

L is the factor of the kernel of the rows that it has seen.

Shapes: n units, R orders, C columns (explained outputs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.conditioning import Conditioned
from slalom_xai.surrogates.places import place_entries

ORDERS = 32  # at most, half of them the reverses of others
FEWEST_ORDERS = 4
_ROWS = 8_000  # rows to predict, at most, where the text allows as few
_CELLS = 1_000_000  # entries of a kernel that are held at once, where one order allows as few


@dataclass(frozen=True)
class ProcessShapley:
    """Shapley values of what predicts.

    Attributes:
        values: (n, C); they sum to F(all) - F(empty).
        errors: (n, C), standard errors.
    """

    values: Tensor
    errors: Tensor


def process_shapley(
    known: Conditioned, beside: Callable[[Tensor], Tensor] | None = None
) -> ProcessShapley:
    """Shapley values of a process that has seen rows; always the same for the same process.

    Args:
        known: the process.
        beside: rows (m, n) to what is added to predictions (m, C), where more than the process
            predicts.
    """
    units = known.process.units
    half = max(FEWEST_ORDERS, min(ORDERS, _ROWS // units)) // 2
    orders = _orders(units, half).to(known.rows.device)
    rows = _growing(orders).to(known.rows)  # (R, n + 1, n)
    places = orders.argsort(dim=1)  # (R, n), when each unit comes
    predicted, told = _over_orders(known, rows, places)
    own = _own(known, rows, places)
    if known.process.kernel.has_places:
        level = known.process.kernel.place_level
        predicted = predicted + known.process.by_places(rows)
        moved = _by_unit(place_entries(rows), places).mean(dim=0)  # (n, n k)
        told = told + level * moved @ place_entries(known.rows).T
        own = own + level * moved.pow(2).sum(dim=1)
    if beside is not None:
        predicted = predicted + beside(rows.flatten(0, 1)).reshape(predicted.shape)
    by_unit = _by_unit(predicted, places)
    both_ways = (by_unit[:half] + by_unit[half:]) / 2
    by_chance = both_ways.var(dim=0) / half
    known_part = (known.solved(told.T) ** 2).sum(dim=0)
    errors = known.scaled(own - known_part)
    return ProcessShapley(by_unit.mean(dim=0), (by_chance + errors**2).sqrt())


def _over_orders(known: Conditioned, rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted changes (R, n + 1, C), and what units change in the kernel, on average (n, m).

    Both without what units do that have moved.
    """
    orders, _, units = rows.shape
    weights = known.process.weights[:-1]  # without the whole text's, at which the kernel is 0
    told = known.rows.new_zeros(units, len(known.rows))
    predicted = []
    at_once = max(1, _CELLS // (len(known.rows) * (units + 1)))
    for some, comes in zip(torch.split(rows, at_once), torch.split(places, at_once), strict=True):
        shared = known.process.kernel.anchored(some.flatten(0, 1), known.rows, places=False)
        predicted.append((shared @ weights).reshape(*some.shape[:2], -1))
        told += _by_unit(shared.reshape(*some.shape[:2], -1), comes).sum(dim=0)
    return torch.cat(predicted), told / orders


def _by_unit(numbers: Tensor, places: Tensor) -> Tensor:
    """What each unit adds to numbers of growing rows (R, n + 1, k), (R, n, k)."""
    gained = numbers.diff(dim=1)  # in the order of each
    number = torch.arange(len(places), device=places.device)[:, None]
    return gained[number, places]


def _orders(units: int, half: int) -> Tensor:
    """Orders (2 half, n): so many that are drawn, and then their reverses."""
    generator = torch.Generator().manual_seed(units)
    drawn = torch.rand(half, units, generator=generator).argsort(dim=1)
    return torch.cat([drawn, drawn.flip(1)])


def _growing(orders: Tensor) -> Tensor:
    """Rows that gain one unit after the other, (R, n + 1, n), from no unit to all."""
    many, units = orders.shape
    rows = torch.zeros(many, units + 1, units, device=orders.device)
    rows[:, 1:] = torch.nn.functional.one_hot(orders, units).cumsum(dim=1)
    return rows


def _own(known: Conditioned, rows: Tensor, places: Tensor) -> Tensor:
    """The variance of each unit's value before any row is seen and before any scale, (n,).

    Without what units do that have moved.
    """
    orders, _, units = rows.shape
    kernel, own = known.process.kernel, []
    numbers = torch.arange(orders, device=rows.device)
    signs = torch.cat([rows.new_ones(orders), -rows.new_ones(orders)]) / orders
    at_once = max(1, _CELLS // (2 * orders * (2 * orders + units)))
    for at in torch.split(places.T, at_once):
        both = torch.cat([rows[numbers, at + 1], rows[numbers, at]], dim=1)  # (k, 2 R, n)
        own.append(kernel.without_places(both, both) @ signs @ signs)
    with_whole = kernel.with_whole(rows).unsqueeze(-1)
    by_whole = _by_unit(with_whole, places).mean(dim=0)[:, 0]
    return torch.cat(own) - by_whole**2 / kernel.whole
