"""Rows cut into batches: every policy by which the package does it.

A batch is a table, so rows that are shorter than its longest one are filled up. Few large batches
are fast, and so is little filling; long batches of rows of unequal length have much of it. Rows are
therefore sorted by length first, and cut wherever a batch is full. What counts as full depends on
who asks:

- ``cut_by_padding``: rows of any texts. A batch is full when its tokens are, or when too many of
  them would be filling.
- ``cut_by_room``: rows that share a beginning, which is not read again. A batch is full when the
  tokens that are read, or the borrowed ones in memory, are.
- ``groups_by_length``: texts to learn from. Those of nearly equal length change their company from
  one epoch to the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slalom_xai.models.rows import Indices


@dataclass(frozen=True)
class CuttingSettings:
    """When a batch ends.

    Attributes:
        padding: filling in a batch, as a share of its tokens, at most. More makes batches larger
            and fewer, and wastes as much of the time.
        little: a batch is not ended for less filling than this share of a full one: each batch has
            an overhead of its own.
        borrowed: borrowed tokens that take as much memory in a batch as one that is read.
        noise: tokens by which lengths are blurred before texts to learn from are sorted.
    """

    padding: float = 0.04
    little: float = 1 / 64
    borrowed: int = 4
    noise: float = 16.0


CUTTING = CuttingSettings()


def _cut(count: int, end: Callable[[int], int]) -> Iterator[slice]:
    """Slices of ``count`` rows, of which each goes from its start to the end found for it."""
    start = 0
    while start < count:
        last = end(start)
        yield slice(start, last)
        start = last


def cut_by_padding(sizes: Indices, batch_tokens: Callable[[], int]) -> Iterator[slice]:
    """Cuts rows when a batch's tokens are full, and before filling grows large.

    Args:
        sizes: tokens in each row, longest first, (rows,).
        batch_tokens: tokens a batch holds at most, asked for each: it changes where memory runs
            out.
    """

    def end(start: int) -> int:
        room = batch_tokens()
        longest = max(1, int(sizes[start]))
        last = min(len(sizes), start + max(1, room // longest))
        filling = np.cumsum(longest - sizes[start:last])
        tolerated = CUTTING.padding * longest * np.arange(1, last - start + 1)
        over = filling > np.maximum(tolerated, room * CUTTING.little)
        if over.any():
            last = start + int(over.argmax())
        equal = start + int(np.searchsorted(-sizes[start:last], -sizes[start], side="right"))
        if 2 * (equal - start) >= last - start:
            return equal  # equally long rows need neither filling nor a mask
        return last

    return _cut(len(sizes), end)


def cut_by_room(sizes: Indices, shared: int, batch_tokens: int) -> Iterator[slice]:
    """Cuts rows that borrow their first tokens when what they take is full.

    Args:
        sizes: tokens in each row, longest first, (rows,).
        shared: tokens that all of them borrow; those are in memory and not read.
        batch_tokens: tokens that are read in a batch, filling included; or ``borrowed`` times as
            many in all.
    """

    def end(start: int) -> int:
        longest = int(sizes[start])
        in_memory = -(-longest // CUTTING.borrowed)  # rounded up
        return start + max(1, batch_tokens // max(longest - shared, in_memory))

    return _cut(len(sizes), end)


def groups_by_length(
    lengths: Sequence[int], *, tokens: int, rows: int, rng: random.Random | None, exact: bool
) -> list[list[int]]:
    """Groups texts of similar length.

    Args:
        lengths: tokens in each text.
        tokens: most tokens in a group, filling included; a longer text is a group of its own.
        rows: most texts in a group.
        rng: mixes texts and groups; None: in order.
        exact: only texts of equal length, for a model that cannot be padded.
    """
    noise = [0.0] * len(lengths)
    if rng:
        noise = [rng.uniform(0, CUTTING.noise) for _ in lengths]
    blurred = list(lengths) if exact else [a + b for a, b in zip(lengths, noise, strict=True)]
    order = sorted(range(len(lengths)), key=lambda row: (blurred[row], noise[row]))

    def end(start: int) -> int:
        longest = 0
        for index in range(start, min(len(order), start + rows)):
            length = lengths[order[index]]
            longest = max(longest, length)
            full = (index - start + 1) * longest > tokens
            other = exact and length != lengths[order[start]]
            if index > start and (full or other):
                return index
        return min(len(order), start + rows)

    groups = [order[part] for part in _cut(len(order), end)]
    if rng:
        rng.shuffle(groups)
    return groups
