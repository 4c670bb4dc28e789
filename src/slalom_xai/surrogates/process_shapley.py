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

from slalom_xai.surrogates.process import Conditioned

ORDERS = 32  # at most, half of them the reverses of others
FEWEST_ORDERS = 4
_STEPS = 4_000_000_000  # of the work for errors, at most, where the text allows as few
_ROWS = 8_000  # rows to predict, at most, where the text allows as few


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
    known: Conditioned, predict: Callable[[Tensor], Tensor] | None = None
) -> ProcessShapley:
    """Shapley values of a process that has seen rows; always the same for the same process.

    Args:
        known: the process.
        predict: rows (m, n) to predictions (m, C), where more than the process predicts.
    """
    units = known.process.units
    predict = predict or known.process.predict
    half = max(FEWEST_ORDERS, min(ORDERS, _ROWS // units)) // 2
    orders = _orders(units, half).to(known.rows.device)
    rows = _growing(orders).to(known.rows)  # (R, n + 1, n)
    predicted = predict(rows.flatten(0, 1)).reshape(*rows.shape[:2], -1)
    gained = predicted.diff(dim=1)  # (R, n, C), in the order of each
    places = orders.argsort(dim=1)  # (R, n), when each unit comes
    by_unit = torch.gather(gained, 1, places[:, :, None].expand_as(gained))
    values = by_unit.mean(dim=0)
    both_ways = (by_unit[:half] + by_unit[half:]) / 2
    by_chance = both_ways.var(dim=0) / half
    some = _orders_for_errors(len(known.rows), units, half)
    errors = known.scaled(_unknown(known, rows[some], places[some]))
    return ProcessShapley(values, (by_chance + errors**2).sqrt())


def _orders_for_errors(rows: int, units: int, half: int) -> Tensor:
    """The numbers of the orders that say how sure values are: fewer, where each is much work.

    An average over fewer orders is less sure, so errors come out a little too large.
    """
    affordable = max(FEWEST_ORDERS, _STEPS // (rows**2 * units)) // 2
    some = torch.arange(min(half, affordable))
    return torch.cat([some, some + half])


def _orders(units: int, half: int) -> Tensor:
    """So many orders (2 half, n) and then their reverses."""
    generator = torch.Generator().manual_seed(units)
    drawn = torch.rand(half, units, generator=generator).argsort(dim=1)
    return torch.cat([drawn, drawn.flip(1)])


def _growing(orders: Tensor) -> Tensor:
    """Rows that gain one unit after the other, (R, n + 1, n), from no unit to all."""
    many, units = orders.shape
    rows = torch.zeros(many, units + 1, units, device=orders.device)
    rows[:, 1:] = torch.nn.functional.one_hot(orders, units).cumsum(dim=1)
    return rows


def _unknown(known: Conditioned, rows: Tensor, places: Tensor) -> Tensor:
    """The variance of each unit's value that the seen rows leave, before any scale, (n,)."""
    orders, _, units = rows.shape
    told = known.rows.new_zeros(len(known.rows), units)
    for order in range(orders):  # one at a time: together they may not fit into memory
        told += known.told(rows[order]).diff(dim=1)[:, places[order]] / orders
    known_part = (told**2).sum(dim=0)
    kernel, own = known.process.kernel, []
    numbers = torch.arange(orders, device=rows.device)
    signs = torch.cat([rows.new_ones(orders), -rows.new_ones(orders)]) / orders
    for unit in range(units):
        at = places[:, unit]
        with_and_without = torch.cat([rows[numbers, at + 1], rows[numbers, at]])
        own.append(signs @ kernel.anchored(with_and_without, with_and_without) @ signs)
    return torch.stack(own) - known_part
