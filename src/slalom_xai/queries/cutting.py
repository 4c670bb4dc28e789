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


# Rows cut into batches of which each reads only what follows a beginning that its rows share.
#
# Rows are grouped by how much they share, and sorted by length within a group: a batch borrows
# what all of its rows share, so rows that share much should not be with rows that share little.
# Many groups borrow more and have more, smaller batches with more filling. The number of groups
# is the one that costs least, where cost = tokens read + batches * tokens of a full batch *
# ``batch_cost``.


@dataclass(frozen=True)
class SharingSettings:
    """When borrowing pays.

    Attributes:
        least_saved: share of the tokens that must be saved. On a CPU, saving none costs 1 to 3%
            of the time, and saving 0.07 gains 8%.
        group_counts: numbers of groups that are tried.
        batch_cost: starting a batch is taken to cost this share of the time of a full one.
    """

    least_saved: float = 0.05
    group_counts: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    batch_cost: float = 1 / 32


SHARING = SharingSettings()


@dataclass(frozen=True, eq=False)
class SharedBatch:
    """Rows that are asked together.

    Args:
        rows: their indices among all rows, (b,).
        shared: tokens they borrow.
        width: tokens read for each, filling included.
    """

    rows: Indices
    shared: int
    width: int

    @property
    def tokens(self) -> int:
        """Tokens read, filling included."""
        return len(self.rows) * self.width


@dataclass(frozen=True, eq=False)
class SharedPlan:
    """How rows are asked when they borrow, and what that saves.

    Args:
        batches: every row is in exactly one.
        tokens: read in all, the filling and the reading of the text included.
        plain_tokens: read in all where nothing is borrowed, filling included.
    """

    batches: tuple[SharedBatch, ...]
    tokens: int
    plain_tokens: int

    @property
    def saved(self) -> float:
        """Share of the tokens that need not be read; negative where borrowing costs more."""
        if not self.plain_tokens:
            return 0.0
        return 1 - self.tokens / self.plain_tokens

    @property
    def pays(self) -> bool:
        """Whether enough is saved to make up for what borrowing costs besides."""
        return self.saved >= SHARING.least_saved


def plan_batches(
    shared: Indices, lengths: Indices, batch_tokens: int, text_tokens: int
) -> SharedPlan:
    """Cuts rows into batches, such that few tokens are read in few batches.

    Args:
        shared: tokens that each row has in common with the beginning of the text, no more than are
            kept of it, (rows,).
        lengths: tokens in each row, at least 1, (rows,).
        batch_tokens: what a batch may take, see ``cut_by_room``.
        text_tokens: of the text, which is read once.
    """
    borrowed = np.minimum(shared, lengths - 1)  # the last token's answer is read off
    all_rows = np.arange(len(lengths))
    plain = _cut_shared(all_rows, np.zeros_like(borrowed), lengths, batch_tokens)
    by_share = np.argsort(-borrowed, kind="stable")
    best: list[SharedBatch] = []
    fewest = np.inf
    for count in SHARING.group_counts:
        if count > max(1, len(lengths)):
            break
        batches: list[SharedBatch] = []
        for group in np.array_split(by_share, count):
            batches += _cut_shared(group, borrowed, lengths, batch_tokens)
        cost = sum(batch.tokens + batch_tokens * SHARING.batch_cost for batch in batches)
        if cost < fewest:
            best, fewest = batches, cost
    plain_tokens = sum(batch.tokens for batch in plain)
    read = sum(batch.tokens for batch in best) + text_tokens
    return SharedPlan(tuple(best), read, plain_tokens)


def _cut_shared(
    group: Indices, shared: Indices, lengths: Indices, batch_tokens: int
) -> list[SharedBatch]:
    """Batches of some of the rows, longest first."""
    if not len(group):
        return []
    rows = group[np.argsort(-lengths[group], kind="stable")]
    sizes = lengths[rows]
    batches = []
    for part in cut_by_room(sizes, int(shared[rows].min()), batch_tokens):
        common = int(shared[rows[part]].min())
        batches.append(SharedBatch(rows[part], common, int(sizes[part.start]) - common))
    return batches
