"""Rows about several texts, numbered through, and batches of them as a model takes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slalom_xai.models import Row
from slalom_xai.models.rows import Indices, Rows
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.token_rows import KeptTokens, TokenRows

Batch = tuple[Indices, int]  # the rows of a batch, by index, and the tokens that they borrow
BatchRows = TokenBatch | Sequence[Row]  # the rows of a batch as a model takes them


@dataclass(frozen=True)
class NumberedRows:
    """Several sets of rows, whose m rows are numbered through.

    Attributes:
        sets: rows about one text each.
        owner: (m,), the set that a row is in.
        index: (m,), where it is there.
    """

    sets: Sequence[Rows]
    owner: Indices
    index: Indices

    @classmethod
    def of(cls, sets: Sequence[Rows]) -> NumberedRows:
        """Rows of several sets, in the order of the sets."""
        counts = [len(rows) for rows in sets]
        owner = np.repeat(np.arange(len(sets)), counts)
        return cls(sets, owner, np.concatenate([np.arange(count) for count in counts]))

    def row(self, number: int) -> Row:
        """One row as the model takes it."""
        rows = self.sets[int(self.owner[number])]
        return rows.row(int(self.index[number]))

    def sorted(self, numbers: Indices) -> Indices:
        """Some rows such that those of one set are next to each other."""
        return numbers[self.owner[numbers].argsort(kind="stable")]

    def taken(self, numbers: Indices) -> list[Rows]:
        """Some rows by set, ``numbers`` sorted."""
        owner, index = self.owner[numbers], self.index[numbers]
        starts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
        return [
            self.sets[int(owner[start])].take(index[start:stop])
            for start, stop in itertools.pairwise(starts)
        ]

    def kept_of_one_text(self) -> list[KeptTokens]:
        """The sets, where all of them keep tokens of one and the same text; otherwise nothing."""
        kept = [rows for rows in self.sets if isinstance(rows, KeptTokens)]
        if len(kept) < len(self.sets) or any(rows.text is not kept[0].text for rows in kept):
            return []
        return kept


def taken_rows(
    asked: NumberedRows, batches: Iterable[Batch], order: list[Indices]
) -> Iterator[BatchRows]:
    """The rows of each batch as the model takes them; their numbers are added to ``order``."""
    for batch, shared in batches:
        numbers = asked.sorted(batch)
        order.append(numbers)
        yield _as_taken(asked.taken(numbers), shared)


def _as_taken(parts: Sequence[Rows], shared: int) -> TokenBatch | list[Row]:
    """The rows of several texts, as the model takes them."""
    tokens = [part for part in parts if isinstance(part, TokenRows)]
    if tokens:
        return TokenBatch(tokens, shared)
    return [part.row(index) for part in parts for index in range(len(part))]


def some_rows(rows: BatchRows, indices: Indices) -> TokenBatch | list[Row]:
    """Some rows of a batch."""
    if isinstance(rows, TokenBatch):
        return rows.take(indices)
    return [rows[index] for index in indices]
