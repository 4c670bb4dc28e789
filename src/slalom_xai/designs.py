"""Which perturbed texts to ask about.

A row is a mask over the units: True keeps a unit. Two rows are the same question when the
kept units read the same, so every set of rows here is free of repeats, and the rows to fit,
to choose between fits and to report on share none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import BudgetError
from slalom_xai.row_keys import CELLS, INERT, Keys, kept_keys, mixed

Masks = NDArray[np.bool_]

LOCAL = 10  # a local row deletes at most this many units
LEAST_HELD_OUT = 10  # rows to choose, and again rows to report on, where they can be had at all
ENOUGH_HELD_OUT = 40  # rows of each kind that a budget of a few hundred should spend
MOST_HELD_OUT = 400  # more rows than this tell little more
SHORT_SHARE = 0.125  # of the rows to fit, on one or two units
LOCAL_SHARE = 0.35  # of the longer rows to fit, 1 to 10 units deleted
WIDE_SHARE = 0.3  # and any number of units deleted, all equally likely; the numbers of the rest are log-uniform
ENUMERABLE = 12  # texts up to this many units are enumerated
MOST_LOOKED_AT = 1000  # rows of every size that are predicted but not asked
CELLS_LOOKED_AT = 400_000  # and their rows times units, in long texts
PLENTY = 10**9  # more rows than are ever drawn


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
        return bool(len(self.local)) and bool(len(self.wide))

    @property
    def rows(self) -> int:
        """Distinct rows."""
        return len(self.wide) if self.local is self.wide else len(self.local) + len(self.wide)


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


def least_budget(codes: NDArray[np.int64], parameters: int) -> int:
    """The fewest calls that fit ``parameters`` and leave rows to choose and to report."""
    return min(parameters + 2 * LEAST_HELD_OUT, distinct_rows(codes))


def check_budget(codes: NDArray[np.int64], budget: int, parameters: int) -> None:
    """Raises BudgetError where a budget is below the least."""
    least = least_budget(codes, parameters)
    if budget < least:
        raise BudgetError(
            f"budget {budget} is too small for a text of {len(codes)} units, which needs at least {least} calls: "
            "raise the budget or shorten the text"
        )


def default_budget(codes: NDArray[np.int64], parameters: int) -> int:
    """Ten calls a unit up to 5000, at least 300, and a quarter more than the least that works."""
    units = len(codes)
    return max(300, min(10 * units, 5000), math.ceil(1.25 * least_budget(codes, parameters)))


def most_budget(codes: NDArray[np.int64], parameters: int) -> int:
    """What a method that chooses its own budget may spend: 30 calls a unit up to 5000, and never less than the default."""
    return max(default_budget(codes, parameters), min(30 * len(codes), 5000))


def distinct_rows(codes: NDArray[np.int64]) -> int:
    """How many different non-empty rows a text has; counted exactly up to a million million, which is plenty.

    Units with the code ``INERT`` change no row; one of them kept alone reads as nothing kept.
    """
    telling = codes[codes != INERT]
    rows, before = 1, dict[int, int]()  # distinct subsequences so far, the empty one among them
    for code in telling.tolist():
        rows, before[code] = 2 * rows - before.get(code, 0), rows
        if rows > 10**12:
            break
    return rows - 1 if len(telling) == len(codes) else rows


def held_out_rows(budget: int) -> int:
    """How many calls of a budget go to a held-out set: a tenth, more of a small one."""
    enough = min(ENOUGH_HELD_OUT, budget // 5)
    return min(max(budget // 10, enough, LEAST_HELD_OUT), MOST_HELD_OUT)


def plan_rows(
    codes: NDArray[np.int64],
    budget: int,
    parameters: int,
    rng: np.random.Generator,
    keys: Callable[[Masks], Keys] | None = None,
    pool: Pool | None = None,
) -> Plan:
    """Splits a budget of calls over rows to fit, to choose and to report.

    Args:
        codes: (n,), equal where two units read the same.
        budget: calls at most, the whole text among them.
        parameters: what the fit must determine.
        rng: the source of all randomness.
        keys: numbers (m,) that are equal where masks (m, n) read the same; needed where equal codes do not say it all.
        pool: where rows are taken from, to be asked for more later; a new one by default.

    Raises:
        BudgetError: the budget is below ``least_budget``.
    """
    check_budget(codes, budget, parameters)
    units, available = len(codes), min(budget, distinct_rows(codes))
    pool = pool or Pool(codes, keys)
    whole = pool.take(np.ones((1, units), dtype=bool))
    spare = available - parameters
    if spare < 2 * LEAST_HELD_OUT:
        return Plan(np.concatenate([whole, _rows_to_fit(pool, available - 1, rng)]), None, None)
    rows = min(held_out_rows(budget), spare // 2)
    report, choose = (held_out(pool, rows, rng) for _ in range(2))
    fit = _rows_to_fit(pool, budget - 1 - report.rows - choose.rows, rng)
    return Plan(
        np.concatenate([whole, fit]),
        choose if choose.complete else None,
        report if report.complete else None,
    )


def more_rows(pool: Pool, rows: int, rng: np.random.Generator) -> Plan:
    """New rows beyond an earlier plan's, shared out in the same way."""
    report, choose = (held_out(pool, held_out_rows(rows), rng) for _ in range(2))
    return Plan(_rows_to_fit(pool, rows - report.rows - choose.rows, rng), choose, report)


class Pool:
    """Hands out each distinct row once.

    Args:
        codes: (n,), equal where two units read the same.
        keys: masks (m, n) to numbers (m,) that are equal where they read the same; by default what the codes say.
    """

    def __init__(
        self, codes: NDArray[np.int64], keys: Callable[[Masks], Keys] | None = None
    ) -> None:
        self.codes = codes
        self.units = len(codes)
        self._keys = keys or (lambda masks: kept_keys(masks, mixed(codes)))
        self._seen = np.zeros(0, dtype=np.int64)

    def take(self, masks: Masks, limit: int | None = None) -> Masks:
        """Those of ``masks`` that are new, at most ``limit``."""
        masks = masks[masks.any(axis=1)]
        keys = self._keys(masks)
        fresh = np.flatnonzero(self._new(keys))[:limit]
        self._seen = np.concatenate([self._seen, keys[fresh]])
        return masks[fresh]

    @property
    def handed_out(self) -> int:
        """Distinct rows so far."""
        return len(self._seen)

    def claim(self, keys: Keys) -> NDArray[np.bool_]:
        """Which rows with these keys are new, (m,); none is from then on."""
        new = self._new(keys)
        self._seen = np.concatenate([self._seen, keys[new]])
        return new

    def _new(self, keys: Keys) -> NDArray[np.bool_]:
        """The first of each key that was not seen before."""
        new = np.zeros(len(keys), dtype=bool)
        new[np.unique(keys, return_index=True)[1]] = True
        return new & ~np.isin(keys, self._seen)

    def draw(
        self,
        wanted: int,
        deleted: Callable[[int], NDArray[np.int64]],
        rng: np.random.Generator,
        quota: bool = False,
    ) -> Masks:
        """Up to ``wanted`` new rows with numbers deleted from ``deleted``; fewer where they run out.

        With ``quota`` at most a quarter of the rows that delete a given number is taken,
        so that held-out sets leave something to fit on.
        """
        taken: list[Masks] = [np.zeros((0, self.units), dtype=bool)]
        left, barren = wanted, 0
        allowed = self._quotas() if quota else None
        while left > 0 and barren < 30:
            numbers = deleted(left)
            masks = deletions(self.units, numbers, rng)
            if allowed is not None:
                masks = masks[_nth_of_its_kind(numbers) < allowed[numbers]]
                allowed = allowed - np.bincount(numbers, minlength=len(allowed))
            fresh = self.take(masks, left)
            taken.append(fresh)
            left -= len(fresh)
            barren = 0 if len(fresh) else barren + 1
        return np.concatenate(taken)

    def _quotas(self) -> NDArray[np.int64]:
        """A quarter of the rows that delete 0, 1, ... units, at least one; plenty where they are countless."""
        quotas = np.full(self.units + 1, PLENTY)
        rows = 1
        for number in range(self.units // 2 + 1):
            quotas[[number, self.units - number]] = max(1, rows // 4)
            rows = rows * (self.units - number) // (number + 1)
            if rows > PLENTY:
                break
        return quotas


def _nth_of_its_kind(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many equal numbers stand before each, (m,)."""
    order = numbers.argsort(kind="stable")
    starts = np.searchsorted(numbers[order], numbers[order])
    nth = np.empty_like(order)
    nth[order] = np.arange(len(order)) - starts
    return nth


def deletions(units: int, deleted: NDArray[np.int64], rng: np.random.Generator) -> Masks:
    """One mask for each number in ``deleted``, which units go being uniform; (len(deleted), units)."""
    masks = np.empty((len(deleted), units), dtype=bool)
    rows = max(1, CELLS // units)
    for start in range(0, len(deleted), rows):
        part = deleted[start : start + rows, None]
        drawn = rng.random((len(part), units))
        least = np.take_along_axis(
            np.sort(drawn, axis=1), part.clip(max=units - 1), axis=1
        )  # of what is kept
        masks[start : start + rows] = (drawn >= least) & (part < units)
    return masks


def uniform_counts(
    low: int, high: int, rng: np.random.Generator
) -> Callable[[int], NDArray[np.int64]]:
    """Numbers deleted, uniform on low..high."""
    return lambda size: rng.integers(low, high + 1, size)


def even_counts(
    low: int, high: int, rng: np.random.Generator
) -> Callable[[int], NDArray[np.int64]]:
    """Numbers deleted, uniform on low..high and spread evenly: few draws cover every size too."""

    def counts(size: int) -> NDArray[np.int64]:
        places = (rng.permutation(size) + rng.random(size)) / size
        return (low + np.floor(places * (high - low + 1))).astype(np.int64).clip(low, high)

    return counts


def rows_of_every_size(units: int) -> Masks:
    """Rows that are not asked, to see what a surrogate predicts: always the same for as many units."""
    rng = np.random.default_rng(units)
    rows = min(MOST_LOOKED_AT, max(100, CELLS_LOOKED_AT // units))
    return deletions(units, even_counts(1, units - 1, rng)(rows), rng)


def log_uniform_counts(high: int, rng: np.random.Generator) -> Callable[[int], NDArray[np.int64]]:
    """Numbers deleted, log-uniform on 1..high: as many rows around 1 to 10 as around 10 to 100."""
    return lambda size: (
        np.floor(np.exp(rng.random(size) * math.log(high + 1))).astype(np.int64).clip(1, high)
    )


def held_out(pool: Pool, rows: int, rng: np.random.Generator) -> HeldOut:
    """Local and wide rows, half of ``rows`` each; one set for both where they mean the same."""
    if pool.units - 1 <= LOCAL:
        masks = pool.draw(rows, even_counts(1, pool.units - 1, rng), rng, quota=True)
        return HeldOut(masks, masks)
    local = pool.draw(rows // 2, even_counts(1, LOCAL, rng), rng, quota=True)
    return HeldOut(
        local, pool.draw(rows - rows // 2, even_counts(1, pool.units - 1, rng), rng, quota=True)
    )


def _rows_to_fit(pool: Pool, rows: int, rng: np.random.Generator) -> Masks:
    """Short rows first, then deletions; every remaining row where there are no more than asked for."""
    units = pool.units
    if units <= ENUMERABLE and distinct_rows(pool.codes) <= rows + pool.handed_out:
        remaining = pool.take(_every_mask(units))
        return rng.permutation(remaining, axis=0)
    drawn = [_short_rows(pool, int(SHORT_SHARE * rows), rng)]
    long = rows - len(drawn[0])
    if units - 1 > LOCAL:
        drawn.append(
            pool.draw(int(LOCAL_SHARE * long), uniform_counts(1, LOCAL, rng), rng, quota=True)
        )
        drawn.append(
            pool.draw(int(WIDE_SHARE * long), uniform_counts(1, units - 1, rng), rng, quota=True)
        )
    drawn.append(pool.draw(rows - sum(map(len, drawn)), log_uniform_counts(units - 1, rng), rng))
    return rng.permutation(np.concatenate(drawn), axis=0)


def _short_rows(pool: Pool, rows: int, rng: np.random.Generator) -> Masks:
    """Single units for up to half of the rows, pairs for the rest."""
    singles = pool.take(
        np.eye(pool.units, dtype=bool)[rng.permutation(pool.units)], (rows + 1) // 2
    )
    if pool.units < 3:
        return singles
    pairs = pool.draw(rows - len(singles), uniform_counts(pool.units - 2, pool.units - 2, rng), rng)
    return np.concatenate([singles, pairs])


def _every_mask(units: int) -> Masks:
    """All non-empty masks, whole text first."""
    numbers = np.arange(2**units - 1, 0, -1)
    return ((numbers[:, None] >> np.arange(units)) & 1).astype(bool)


def short_sequences(
    pool: Pool,
    rows: int,
    length: int,
    rng: np.random.Generator,
    keys: Callable[[NDArray[np.int64]], Keys],
) -> NDArray[np.int64]:
    """Up to ``rows`` new sequences of distinct kinds of units drawn uniformly, (rows, length) (Algorithm 1)."""
    _, kinds = np.unique(pool.codes, return_index=True)
    if len(kinds) ** length <= 4 * rows:
        every = np.stack(np.meshgrid(*[kinds] * length, indexing="ij"), axis=-1).reshape(-1, length)
        return rng.permutation(every[pool.claim(keys(every))], axis=0)[:rows]
    taken = np.zeros((0, length), dtype=np.int64)
    while (left := rows - len(taken)) > 0:
        drawn = rng.choice(kinds, (left, length))
        taken = np.concatenate([taken, drawn[pool.claim(keys(drawn))]])
    return taken
