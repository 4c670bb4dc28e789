"""How many rows a text has, and how many calls a method may, should and must spend."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from slalom_xai.designs.settings import DESIGN
from slalom_xai.errors import BudgetError
from slalom_xai.row_keys import INERT

COUNTABLE = 10**12  # rows; a text with more has as many as anybody wants


def least_budget(codes: NDArray[np.int64], parameters: int) -> int:
    """The fewest calls that fit ``parameters`` and leave rows to choose and to report on."""
    return min(parameters + 2 * DESIGN.least_held_out, count_distinct_rows(codes))


def check_budget(units: int, budget: int, least: int) -> None:
    """Raises BudgetError where a budget for a text of so many units is below the least."""
    if budget < least:
        raise BudgetError(
            f"budget {budget} is too small for a text of {units} units, "
            f"which needs at least {least} calls: raise the budget, shorten the text, or use the "
            "method slalom, which needs less"
        )


def default_budget(codes: NDArray[np.int64], parameters: int) -> int:
    """Ten calls a unit up to 5000, at least 300, and a quarter more than the least that works."""
    by_length = min(DESIGN.default_calls_per_unit * len(codes), DESIGN.most_default)
    by_need = math.ceil(DESIGN.headroom * least_budget(codes, parameters))
    return max(DESIGN.least_default, by_length, by_need)


def count_distinct_rows(codes: NDArray[np.int64]) -> int:
    """How many different non-empty rows a text has; exact up to a million million.

    Going through the text, each unit doubles the number of distinct subsequences, less those
    that ended in an equal unit before. Units with the code ``INERT`` change no row; one of
    them kept alone reads as nothing kept.

    Args:
        codes: (n,), equal where two units read the same.
    """
    telling = codes[codes != INERT]
    rows = 1  # distinct subsequences so far, the empty one among them
    before: dict[int, int] = {}  # how many there were when a code last came
    for code in telling.tolist():
        doubled = 2 * rows - before.get(code, 0)
        before[code] = rows
        rows = doubled
        if rows > COUNTABLE:
            break
    if len(telling) == len(codes):
        return rows - 1
    return rows


def held_out_size(budget: int) -> int:
    """How many calls of a budget go to a held-out set: a tenth, more of a small one."""
    enough = min(DESIGN.enough_held_out, budget // DESIGN.small_held_out_part)
    wanted = max(budget // DESIGN.held_out_part, enough, DESIGN.least_held_out)
    return min(wanted, DESIGN.most_held_out)
