"""Shares a budget of calls out over rows to fit, to choose between fits and to report on.

The two held-out sets are drawn first, half of each with few units deleted and half with any
number, because a surrogate may be good at one and bad at the other. The rest of the budget
goes to the fit: a few rows of one or two units, many with few deletions, and some of every
size between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.slalom.rows import (
    DESIGN,
    Masks,
    RowPool,
    check_budget,
    count_distinct_rows,
    even_counts,
    every_mask,
    halved_counts,
    held_out_size,
    least_budget,
    log_uniform_counts,
    uniform_counts,
)
from slalom_xai.system.row_keys import Keys


@dataclass(frozen=True)
class HeldOut:
    """Rows that no fit sees, each set (rows, n).

    Attributes:
        local: 1 to 10 units deleted.
        wide: 1 to all but one deleted; the same rows as ``local`` where both mean the same.
    """

    local: Masks
    wide: Masks

    @property
    def complete(self) -> bool:
        """Whether there are rows of both kinds."""
        return len(self.local) > 0 and len(self.wide) > 0

    @property
    def size(self) -> int:
        """How many distinct rows."""
        if self.local is self.wide:
            return len(self.wide)
        return len(self.local) + len(self.wide)


@dataclass(frozen=True)
class Plan:
    """Disjoint sets of rows; the whole text is the first row to fit.

    Attributes:
        fit: (rows, n), rows to fit on.
        choose: rows to choose between fits; None where the text has too few distinct rows.
        report: rows to report on; None likewise.
    """

    fit: Masks
    choose: HeldOut | None
    report: HeldOut | None


def plan_rows(
    codes: NDArray[np.int64],
    budget: int,
    parameters: int,
    rng: np.random.Generator,
    keys: Callable[[Masks], Keys] | None = None,
    pool: RowPool | None = None,
    always: Masks | None = None,
) -> Plan:
    """Splits a budget of calls over rows to fit, to choose and to report.

    Args:
        codes: (n,), equal where two units read the same.
        budget: calls at most, the whole text among them.
        parameters: what the fit must determine.
        rng: the source of all randomness.
        keys: numbers (m,) that are equal where masks (m, n) read the same; needed where equal
            codes do not say it all.
        pool: where rows are taken from, to be asked for more later; a new one by default.
        always: (m, n), rows to fit in any case, first among those after the whole text.

    Raises:
        BudgetError: the budget is below ``least_budget``.
    """
    check_budget(len(codes), budget, least_budget(codes, parameters))
    available = min(budget, count_distinct_rows(codes))
    pool = pool or RowPool(codes, keys)
    given = pool.take_whole()
    if always is not None:
        given = np.concatenate([given, pool.take(always)])
    spare = available - parameters
    if spare < 2 * DESIGN.least_held_out:
        fit = _rows_to_fit(pool, available - len(given), rng, given)
        return Plan(np.concatenate([given, fit]), None, None)
    size = min(held_out_size(budget), spare // 2)
    report = draw_held_out(pool, size, rng)
    choose = draw_held_out(pool, size, rng)
    left = max(0, budget - len(given) - report.size - choose.size)
    fit = _rows_to_fit(pool, left, rng, given)
    return Plan(np.concatenate([given, fit]), _if_complete(choose), _if_complete(report))


def few_rows(pool: RowPool, rows: int, rng: np.random.Generator) -> Masks:
    """So many rows (m, n) to learn from where there are few; fewer where they run out.

    Most keep about half of the units. The others keep any number, spread evenly.
    """
    if pool.units < 2:
        return np.zeros((0, pool.units), dtype=bool)
    longest = pool.units - 1
    halved = round(DESIGN.halved_share * rows)
    half = pool.draw(halved, halved_counts(pool.units, rng), rng)
    wide = pool.draw(rows - len(half), even_counts(1, longest, rng), rng)
    drawn = np.concatenate([half, wide])
    left = rows - len(drawn)
    if left > 0 and pool.units <= DESIGN.enumerable:
        rest = rng.permutation(pool.take(every_mask(pool.units)), axis=0)
        drawn = np.concatenate([drawn, rest[:left]])
    return rng.permutation(drawn, axis=0)


def extend_plan(pool: RowPool, rows: int, rng: np.random.Generator) -> Plan:
    """New rows beyond those of an earlier plan, shared out in the same way."""
    size = held_out_size(rows)
    report = draw_held_out(pool, size, rng)
    choose = draw_held_out(pool, size, rng)
    return Plan(_rows_to_fit(pool, rows - report.size - choose.size, rng), choose, report)


def draw_held_out(
    pool: RowPool, rows: int, rng: np.random.Generator, local_share: float = 0.5
) -> HeldOut:
    """Local and wide rows, ``rows`` together; one set for both where they mean the same."""
    longest = pool.units - 1
    if longest <= DESIGN.most_local:
        masks = pool.draw(rows, even_counts(1, longest, rng), rng, quota=True)
        return HeldOut(masks, masks)
    few = int(local_share * rows)
    local = pool.draw(few, even_counts(1, DESIGN.most_local, rng), rng, quota=True)
    wide = pool.draw(rows - few, even_counts(1, longest, rng), rng, quota=True)
    return HeldOut(local, wide)


def _if_complete(rows: HeldOut) -> HeldOut | None:
    return rows if rows.complete else None


def _rows_to_fit(
    pool: RowPool, rows: int, rng: np.random.Generator, given: Masks | None = None
) -> Masks:
    """Short rows, then deletions; every remaining row where there are no more than wanted.

    Args:
        pool: where rows come from.
        rows: how many.
        rng: draws them.
        given: (m, n), rows that are fitted as well; they count in the shares of their kinds.
    """
    units = pool.units
    if units <= DESIGN.enumerable and count_distinct_rows(pool.codes) <= rows + pool.handed_out:
        remaining = pool.take(every_mask(units))
        return rng.permutation(remaining, axis=0)
    kept = np.zeros(0, dtype=np.int64)
    if given is not None:
        kept = given[1:].sum(axis=1)  # the first is the whole text
    given_short = int((kept <= 2).sum())
    total = rows + len(kept)
    short_share, local_share, wide_share = _shares(total, units)
    short = _short_rows(pool, max(0, int(short_share * total) - given_short), rng)
    long = total - given_short - len(short)
    drawn = [short]
    if units - 1 > DESIGN.most_local:
        few = uniform_counts(1, DESIGN.most_local, rng)
        given_few = int((kept >= units - DESIGN.most_local).sum())
        wanted = max(0, int(local_share * long) - given_few)
        drawn.append(pool.draw(wanted, few, rng, quota=True))
        many = uniform_counts(1, units - 1, rng)
        drawn.append(pool.draw(int(wide_share * long), many, rng, quota=True))
    left = max(0, rows - sum(map(len, drawn)))
    drawn.append(pool.draw(left, log_uniform_counts(units - 1, rng), rng))
    return rng.permutation(np.concatenate(drawn), axis=0)[:rows]


def _shares(rows: int, units: int) -> tuple[float, float, float]:
    """The shares of short rows, and of local and wide ones among the others."""
    if rows < DESIGN.scarce * units:
        return 0.0, DESIGN.scarce_local_share, DESIGN.scarce_wide_share
    return DESIGN.short_share, DESIGN.local_share, DESIGN.wide_share


def _short_rows(pool: RowPool, rows: int, rng: np.random.Generator) -> Masks:
    """Single units for up to half of the rows, pairs for the rest."""
    shuffled = np.eye(pool.units, dtype=bool)[rng.permutation(pool.units)]
    singles = pool.take(shuffled, (rows + 1) // 2)
    if pool.units < 3:
        return singles
    all_but_two = uniform_counts(pool.units - 2, pool.units - 2, rng)
    pairs = pool.draw(rows - len(singles), all_but_two, rng)
    return np.concatenate([singles, pairs])
