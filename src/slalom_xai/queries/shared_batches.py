"""Rows cut into batches of which each reads only what follows a beginning that its rows share.

Rows are grouped by how much they share, and sorted by length within a group: a batch borrows what
all of its rows share, so rows that share much should not be with rows that share little. Many
groups borrow more and have more, smaller batches with more filling. The number of groups is the one
that costs least, where cost = tokens read + batches * tokens of a full batch * ``batch_cost``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom_xai.models.rows import Indices
from slalom_xai.queries.cutting import cut_by_room


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
    plain = _cut(all_rows, np.zeros_like(borrowed), lengths, batch_tokens)
    by_share = np.argsort(-borrowed, kind="stable")
    best: list[SharedBatch] = []
    fewest = np.inf
    for count in SHARING.group_counts:
        if count > max(1, len(lengths)):
            break
        batches: list[SharedBatch] = []
        for group in np.array_split(by_share, count):
            batches += _cut(group, borrowed, lengths, batch_tokens)
        cost = sum(batch.tokens + batch_tokens * SHARING.batch_cost for batch in batches)
        if cost < fewest:
            best, fewest = batches, cost
    plain_tokens = sum(batch.tokens for batch in plain)
    read = sum(batch.tokens for batch in best) + text_tokens
    return SharedPlan(tuple(best), read, plain_tokens)


def _cut(group: Indices, shared: Indices, lengths: Indices, batch_tokens: int) -> list[SharedBatch]:
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
