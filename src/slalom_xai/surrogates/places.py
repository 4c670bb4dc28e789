"""Where units stand: how far each has moved up, because units before it are gone.

A model that has learnt places answers otherwise if a word stands elsewhere. Deleting one word moves
every later word up by one, and what that does to the answer looks like an interaction of the words
that are gone. It is none: a word that has moved by three does the same in every row in which it
has. So each unit that is kept and has moved gets an entry of its own, by how far it has moved,

    phi_ik(x) = x_i hat_k(c_i(x)),      c_i(x) the number of units before i that x lacks

where hat_k is 1 at the k-th of ``KNOTS``, 0 at the others and linear between them. Two rows are
alike by ``phi(x) . phi(x')``: in how many units that have moved equally far.

Shapes: m rows, n units, k knots.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Single places for few deletions. Beyond, units that have moved about as far are taken together.
KNOTS = (*range(13), 14, 17, 20, 25, 32, 45, 70, 110, 180)
_MOST = 2_400  # entries of a row, where there are not more units


def knots(units: int) -> tuple[int, ...]:
    """Those of ``KNOTS`` that count for so many units, and 0, which does not.

    The last stands for all that is further. Long texts have fewer, so that rows can be compared in
    good time.
    """
    reached = sum(knot < units for knot in KNOTS[1:])
    many = max(1, min(reached, _MOST // units))
    return KNOTS[: many + 1]


def place_entries(rows: Tensor) -> Tensor:
    """Phi of rows (..., m, n), with entries from 0 to 1: (..., m, n k).

    All are 0 for the whole text, where nothing has moved.
    """
    missing = 1 - rows
    moved = (missing.cumsum(dim=-1) - missing).unsqueeze(-2)  # (..., m, 1, n)
    at = rows.new_tensor(knots(rows.shape[-1]))[:, None]
    hats = ((moved - at[:-1]) / (at[1:] - at[:-1])).clamp_(0, 1)  # (..., m, k, n)
    falling = ((at[2:] - moved) / (at[2:] - at[1:-1])).clamp_(0, 1)
    inner = hats[..., :-1, :]  # the last hat does not fall
    torch.minimum(inner, falling, out=inner)
    return hats.mul_(rows.unsqueeze(-2)).flatten(-2)


def alike_in_places(rows: Tensor, others: Tensor) -> Tensor:
    """In how many units that have moved equally far rows and others are alike, (..., m, m').

    On a CPU in single precision, which takes half the time: these are sums of n small fractions.
    """
    first, second = rows, others
    if rows.device.type == "cpu":
        first, second = rows.float(), others.float()
    return (place_entries(first) @ place_entries(second).mT).to(rows)
