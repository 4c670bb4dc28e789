"""Hands out each distinct row of a text once, whatever it is for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slalom_xai.designs.masks import DrawNumbers, Masks, Numbers, deletions
from slalom_xai.designs.settings import DESIGN
from slalom_xai.row_keys import Keys, kept_keys, mixed

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
        self._keys = keys or (lambda masks: kept_keys(masks, mixed(codes)))
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
