"""Rows of a vocabulary as flat lists of entries: never as large as rows times items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from slalom_xai.vocabulary.products import Layout, Map, maps_by_index


@dataclass(frozen=True)
class SparseRows:
    """m rows of a vocabulary of V items, as e entries.

    Attributes:
        row: (e,), the row that an entry is in.
        item: (e,), the item.
        count: (e,), how often it stands there, float64.
        rows: m.
        items: V.
    """

    row: Tensor
    item: Tensor
    count: Tensor
    rows: int
    items: int

    @classmethod
    def of(cls, row: Tensor, item: Tensor, rows: int, items: int) -> SparseRows:
        """From one entry for each item of each row; equal ones are counted."""
        codes, counts = torch.unique(row * items + item, return_counts=True)
        return cls(codes // items, codes % items, counts.double(), rows, items)

    @classmethod
    def joined(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """The rows of several, one after the other."""
        starts = accumulate((part.rows for part in parts[:-1]), initial=0)
        row = torch.cat([part.row + start for part, start in zip(parts, starts, strict=True)])
        return cls(
            row,
            torch.cat([part.item for part in parts]),
            torch.cat([part.count for part in parts]),
            sum(part.rows for part in parts),
            parts[0].items,
        )

    def take(self, indices: Tensor) -> SparseRows:
        """Some of the rows, (k,), each at most once."""
        place = torch.full((self.rows,), -1, dtype=torch.long)
        place[indices] = torch.arange(len(indices))
        kept = place[self.row] >= 0
        return SparseRows(
            place[self.row[kept]], self.item[kept], self.count[kept], len(indices), self.items
        )

    def summed(self, entries: Tensor) -> Tensor:
        """Sums (m,) of numbers (e,) over the entries of each row."""
        return torch.zeros(self.rows, dtype=entries.dtype).index_add_(0, self.row, entries)

    def maps(self, entries: Tensor) -> tuple[Map, Map]:
        """What the matrix of entries (e,) makes of (V,), and its transpose of (m,)."""
        if self._layout is not None:
            return self._layout.maps(entries)
        return maps_by_index(self.row, self.item, self.rows, self.items, entries)

    @cached_property
    def _layout(self) -> Layout | None:
        return Layout.of(self.row, self.item, self.rows, self.items)

    def by_item(self, entries: Tensor) -> Tensor:
        """Sums (V,) of numbers (e,) over the entries of each item."""
        return torch.zeros(self.items, dtype=entries.dtype).index_add_(0, self.item, entries)
