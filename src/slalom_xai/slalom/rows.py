"""The perturbed texts of a text: how many there are, and each drawn once.

A row is a mask over the units: True keeps a unit. Two rows are the same question when the kept
units read the same, so every set of rows here is free of repeats.

From top to bottom: the numbers that decide which rows are asked, how many rows and calls there are,
how masks are drawn, and ``RowPool``, which hands out each row of a text once. ``plan`` shares a
budget of calls out among them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import BudgetError
from slalom_xai.system.row_keys import CELLS, INERT, Keys, kept_keys, mix_bits

# The numbers that decide which rows are asked, and how many.


@dataclass(frozen=True)
class DesignSettings:
    """How a budget is shared out. All shares trade one kind of error against another.

    Attributes:
        most_local: units; a local row deletes at most this many. A reader deletes a few words,
            not fifty.
        enumerable: units; every row of a text of up to this many is written out (4,095 rows).
        least_held_out: rows of a held-out set; fewer cannot tell a good fit from a bad one.
        enough_held_out: rows of a held-out set that a budget of a few hundred calls should spend.
        most_held_out: rows of a held-out set; more tell little more.
        held_out_part: calls; a large budget gives one call in so many to a held-out set.
        small_held_out_part: calls; a small budget gives up to one call in so many.
        quota_part: rows; at most one in so many of those that delete a given number of units is
            held out, so that the others are left to fit.
        short_share: share of the rows to fit that keep one or two units. These show values on
            their own.
        local_share: share of the longer rows to fit that delete 1 to ``most_local`` units.
        wide_share: share of the longer rows to fit that delete any number of units, all equally
            likely. The rest delete log-uniform numbers: half of them few units, half of them
            many.
        scarce: rows to fit per unit, below which a budget is small. No row then keeps so few units:
            with little known, deletions like those that are asked for tell more.
        scarce_local_share: ``local_share`` of a small budget.
        scarce_wide_share: ``wide_share`` of a small budget.
        halved_share: share of the rows that keep about half of the units, where rows are too few to
            hold some out. The rest keep any number, so that both kinds of rows can be predicted.
        default_calls_per_unit: calls per unit of a budget that nobody gave.
        most_calls_per_unit: calls per unit that a method may take which stops by itself.
        least_default: calls of the smallest default budget; short texts cost next to nothing.
        most_default: calls up to which default budgets grow with the text.
        headroom: factor between a default budget and the least that works.
        vain_draws: draws in a row without a new row after which a kind of row counts as used up.
        most_unasked: rows that are predicted but not asked, to see whether predictions stay in
            range.
        least_unasked: the same rows in a long text.
        unasked_cells: rows times units up to which there are ``most_unasked`` of them; bounds the
            time.
        listed_sequences: sequences are listed, not drawn, where there are fewer than so many
            times those that are wanted; drawing the last few new ones would take long.
    """

    most_local: int = 10
    enumerable: int = 12
    least_held_out: int = 10
    enough_held_out: int = 40
    most_held_out: int = 400
    held_out_part: int = 10
    small_held_out_part: int = 5
    quota_part: int = 4
    short_share: float = 0.03
    local_share: float = 0.45
    wide_share: float = 0.5
    scarce: int = 5
    scarce_local_share: float = 0.55
    scarce_wide_share: float = 0.4
    halved_share: float = 0.75
    default_calls_per_unit: int = 10
    most_calls_per_unit: int = 30
    least_default: int = 300
    most_default: int = 5000
    headroom: float = 1.25
    vain_draws: int = 30
    most_unasked: int = 1000
    least_unasked: int = 100
    unasked_cells: int = 400_000
    listed_sequences: int = 4


DESIGN = DesignSettings()


# How many rows a text has, and how many calls a method may, should and must spend.


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


# Masks (m, n) over units, drawn at random: first how many units go, then which.
#
# The functions ``..._counts`` return a function that draws numbers of deleted units. The held-out
# sets spread these numbers evenly, so that few rows cover every size; the rows to fit do without
# that.


Masks = NDArray[np.bool_]
Numbers = NDArray[np.int64]
DrawNumbers = Callable[[int], Numbers]


def deletions(units: int, deleted: Numbers, rng: np.random.Generator) -> Masks:
    """One mask for each number in ``deleted``; every choice of units is equally likely.

    Args:
        units: of the text, n.
        deleted: (m,), how many units each row lacks.
        rng: the source of randomness.

    Returns:
        (m, n), drawn in blocks, so that a long text needs little memory.
    """
    masks = np.empty((len(deleted), units), dtype=bool)
    block = max(1, CELLS // units)
    for start in range(0, len(deleted), block):
        part = deleted[start : start + block]
        drawn = rng.random((len(part), units))
        ordered = np.sort(drawn, axis=1)
        least_kept = ordered[np.arange(len(part)), np.minimum(part, units - 1)]
        masks[start : start + block] = (drawn >= least_kept[:, None]) & (part < units)[:, None]
    return masks


def uniform_counts(low: int, high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, uniform on low..high."""
    return lambda size: rng.integers(low, high + 1, size)


def even_counts(low: int, high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, uniform on low..high and spread evenly: a few cover every size too."""

    def draw(size: int) -> Numbers:
        quantiles = (rng.permutation(size) + rng.random(size)) / size
        numbers = low + np.floor(quantiles * (high - low + 1))
        return np.minimum(numbers.astype(np.int64), high)

    return draw


def halved_counts(units: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted where each unit goes with probability 1/2; never none and never all."""
    return lambda size: rng.binomial(units, 0.5, size).clip(1, units - 1)


def log_uniform_counts(high: int, rng: np.random.Generator) -> DrawNumbers:
    """Numbers deleted, log-uniform on 1..high: as many from 1 to 10 as from 10 to 100."""

    def draw(size: int) -> Numbers:
        numbers = np.floor(np.exp(rng.random(size) * math.log(high + 1)))
        return np.minimum(numbers.astype(np.int64), high)

    return draw


def every_mask(units: int) -> Masks:
    """All non-empty masks, (2**n - 1, n), the whole text first."""
    numbers = np.arange(2**units - 1, 0, -1)
    return ((numbers[:, None] >> np.arange(units)) & 1).astype(bool)


# Hands out each distinct row of a text once, whatever it is for.


COUNTLESS = 10**9  # rows of one size; more are never drawn


class RowPool:
    """Hands out each distinct row once.

    Args:
        codes: (n,), equal where two units read the same.
        keys: masks (m, n) to numbers (m,) that are equal where the masks read the same; by
            default what the codes say.

    Attributes:
        codes: as given.
        units: n.
    """

    def __init__(
        self, codes: NDArray[np.int64], keys: Callable[[Masks], Keys] | None = None
    ) -> None:
        self.codes = codes
        self.units = len(codes)
        self._keys = keys or (lambda masks: kept_keys(masks, mix_bits(codes)))
        self._seen: set[int] = set()

    @property
    def handed_out(self) -> int:
        """How many distinct rows so far."""
        return len(self._seen)

    def take_whole(self) -> Masks:
        """The row of the whole text, (1, n), where it is new."""
        return self.take(np.ones((1, self.units), dtype=bool))

    def take(self, masks: Masks, limit: int | None = None) -> Masks:
        """Those of ``masks`` that are new, at most ``limit``."""
        masks = masks[masks.any(axis=1)]
        if not len(masks):
            return masks
        return masks[self._fresh(self._keys(masks), limit)]

    def claim(self, keys: Keys) -> NDArray[np.bool_]:
        """Which rows with these keys are new, (m,); none is from then on."""
        new = np.zeros(len(keys), dtype=bool)
        new[self._fresh(keys)] = True
        return new

    def draw(
        self, wanted: int, deleted: DrawNumbers, rng: np.random.Generator, quota: bool = False
    ) -> Masks:
        """Up to ``wanted`` new rows; fewer where they run out.

        Args:
            wanted: rows.
            deleted: draws how many units each row lacks.
            rng: draws which.
            quota: take at most a quarter of the rows that delete a given number, so that
                held-out sets leave something to fit on.
        """
        taken: list[Masks] = [np.zeros((0, self.units), dtype=bool)]
        left, in_vain = wanted, 0
        allowed = self._quotas if quota else None
        while left > 0 and in_vain < DESIGN.vain_draws:
            numbers = deleted(left)
            masks = deletions(self.units, numbers, rng)
            if allowed is not None:
                masks = masks[_equals_before(numbers) < allowed[numbers]]
                allowed = allowed - np.bincount(numbers, minlength=len(allowed))
            fresh = self.take(masks, left)
            taken.append(fresh)
            left -= len(fresh)
            in_vain += 1
            if len(fresh):
                in_vain = 0
        return np.concatenate(taken)

    def _fresh(self, keys: Keys, limit: int | None = None) -> list[int]:
        """Where the first of each key stands that was not seen before; at most ``limit``.

        A set, and no sorted arrays: most draws are of a few rows.
        """
        fresh: list[int] = []
        for index, key in enumerate(keys.tolist()):
            if len(fresh) == limit:
                break
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(index)
        return fresh

    @functools.cached_property
    def _quotas(self) -> Numbers:
        """A quarter of the rows that delete 0, 1, ... units, at least one each, (n + 1,)."""
        quotas = np.full(self.units + 1, COUNTLESS)
        rows = 1  # that delete ``number`` units: a binomial coefficient
        for number in range(self.units // 2 + 1):
            quotas[[number, self.units - number]] = max(1, rows // DESIGN.quota_part)
            rows = rows * (self.units - number) // (number + 1)
            if rows > COUNTLESS:
                break
        return quotas


def _equals_before(numbers: Numbers) -> Numbers:
    """How many equal numbers come before each, (m,)."""
    order = numbers.argsort(kind="stable")
    starts = np.searchsorted(numbers[order], numbers[order])
    before = np.empty_like(order)
    before[order] = np.arange(len(order)) - starts
    return before


LOCAL = DESIGN.most_local
