"""Rows of counts as a fit uses them, several texts at once: sums over columns, sums over rows, and weighted Gram matrices.

Everything a fit needs of its rows are these three products, so that rows of two units, as ``slalom-eff`` asks them, can be kept by the
places of their units: a Gram matrix then costs as much as reading the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

HALVED = 512  # columns from which a Gram matrix is worth computing on one side of its diagonal alone
SHORT = 4  # rows of at most so many different columns are kept by their places


class Rows(Protocol):
    """Counts (B, m, p) of B texts."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""

    def totals(self, columns: Tensor) -> Tensor:
        """Sums over columns: (B, p, k) -> (B, m, k)."""

    def back(self, rows: Tensor) -> Tensor:
        """Sums over rows: (B, m, k) -> (B, p, k)."""

    def gram(self, weights: Tensor) -> Tensor:
        """Products of columns under row weights (B, m) of any sign: (B, p, p)."""

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """The product of columns of two matrices (B, k, p), in the precision of the Gram matrices: (B, p, p)."""

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""

    def take(self, texts: Tensor) -> Rows:
        """Only these texts."""


@dataclass(frozen=True)
class DenseRows:
    """Rows as they are.

    Attributes:
        counts: (B, m, p).
        single: the same in single precision, where that is enough for Gram matrices: they take most of the time, and half of it then.
    """

    counts: Tensor
    single: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        batch, rows, columns = self.counts.shape
        return batch, rows, columns

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""
        return self.counts[:, 0]

    def totals(self, columns: Tensor) -> Tensor:
        """Sums over columns: (B, p, k) -> (B, m, k)."""
        return self.counts @ columns

    def back(self, rows: Tensor) -> Tensor:
        """Sums over rows: (B, m, k) -> (B, p, k)."""
        return (rows.mT @ self.counts).mT

    def gram(self, weights: Tensor) -> Tensor:
        """Products of columns under row weights (B, m) of any sign: (B, p, p)."""
        counts = self.counts if self.single is None else self.single
        weighed = weights.to(counts)[..., None] * counts
        size = counts.shape[2]
        if size < HALVED:
            return (counts.mT @ weighed).to(weights)
        gram = weights.new_empty(len(counts), size, size)
        part = -(-size // 4)
        for start in range(0, size, part):  # what is below the diagonal is what is above it
            block = (counts[..., start:].mT @ weighed[..., start : start + part]).to(weights)
            gram[:, start:, start : start + part] = block
            gram[:, start : start + part, start:] = block.mT
        return gram

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """The product of columns of two matrices (B, k, p), in the precision of the Gram matrices: (B, p, p)."""
        return left.mT @ right if self.single is None else (left.to(self.single).mT @ right.to(self.single)).to(left)

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""
        batch, _, columns = self.shape
        flat = (groups + many * torch.arange(batch, device=groups.device)[:, None]).flatten()
        sums = self.counts.new_zeros(batch * many, columns)
        return sums.index_add_(0, flat, (weights[..., None] * self.counts).flatten(0, 1)).reshape(batch, many, columns)

    def take(self, texts: Tensor) -> DenseRows:
        """Only these texts."""
        return DenseRows(self.counts[texts], None if self.single is None else self.single[texts])


@dataclass(frozen=True)
class ShortRows:
    """Rows of few different columns: their places (B, m, l) and how often each stands there; a place may be given 0 times."""

    places: Tensor
    times: Tensor
    columns: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        return self.places.shape[0], self.places.shape[1], self.columns

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""
        return self.times.new_zeros(len(self.places), self.columns).scatter_add_(1, self.places[:, 0], self.times[:, 0])

    def totals(self, columns: Tensor) -> Tensor:
        """Sums over columns: (B, p, k) -> (B, m, k)."""
        batch, rows, length = self.places.shape
        index = self.places.reshape(batch, -1, 1).expand(-1, -1, columns.shape[2])
        return (self.times[..., None] * columns.gather(1, index).reshape(batch, rows, length, -1)).sum(dim=2)

    def back(self, rows: Tensor) -> Tensor:
        """Sums over rows: (B, m, k) -> (B, p, k)."""
        batch, many = len(self.places), rows.shape[2]
        parts = (self.times[..., None] * rows[:, :, None]).reshape(batch, -1, many)
        index = self.places.reshape(batch, -1, 1).expand(-1, -1, many)
        return rows.new_zeros(batch, self.columns, many).scatter_add_(1, index, parts)

    def gram(self, weights: Tensor) -> Tensor:
        """Products of columns under row weights (B, m) of any sign: (B, p, p)."""
        batch = len(self.places)
        index = (self.places[..., :, None] * self.columns + self.places[..., None, :]).reshape(batch, -1)
        parts = (weights[..., None, None] * self.times[..., :, None] * self.times[..., None, :]).reshape(batch, -1)
        flat = weights.new_zeros(batch, self.columns**2).scatter_add_(1, index, parts)
        return flat.reshape(batch, self.columns, self.columns)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """The product of columns of two matrices (B, k, p), in the precision of the Gram matrices: (B, p, p)."""
        return left.mT @ right

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""
        batch = len(self.places)
        index = (groups[..., None] * self.columns + self.places).reshape(batch, -1)
        flat = weights.new_zeros(batch, many * self.columns).scatter_add_(1, index, (weights[..., None] * self.times).reshape(batch, -1))
        return flat.reshape(batch, many, self.columns)

    def take(self, texts: Tensor) -> ShortRows:
        """Only these texts."""
        return ShortRows(self.places[texts], self.times[texts], self.columns)


def rows_of(counts: Tensor, exact: bool) -> Rows:
    """Counts (B, m, p) in the form that is fastest to use; ``exact``: with Gram matrices in the precision of the counts."""
    some = counts[:, :8]  # enough to tell where rows are long, as they mostly are
    longest = (
        SHORT + 1
        if counts.shape[2] <= 2 * SHORT or int(some.count_nonzero(dim=2).max()) > SHORT
        else int(counts.count_nonzero(dim=2).max())
    )
    if longest > SHORT:
        return DenseRows(counts, None if exact else counts.float())
    times, places = counts.topk(longest, dim=2)
    return ShortRows(places, times, counts.shape[2])
