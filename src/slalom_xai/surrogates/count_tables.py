"""Rows of counts as a fit uses them, several texts at once: sums over columns, sums over rows, and weighted Gram matrices.

Everything a fit needs of its rows are these three products, so that rows of two units, as ``slalom-eff`` asks them, can be kept by the
places of their units: a Gram matrix then costs as much as reading the rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

HALVED = (
    512  # columns from which a Gram matrix is worth computing on one side of its diagonal alone
)
SHORT = 4  # rows of at most so many different columns are kept by their places


@dataclass(frozen=True)
class Sequences:
    """Rows of one text that are few units each, by the places of these, (m, l): a table of counts (m, n) that is not written out."""

    places: Tensor
    units: int

    @property
    def shape(self) -> tuple[int, int]:
        """m, n."""
        return len(self.places), self.units

    def __len__(self) -> int:
        """How many rows."""
        return len(self.places)

    def __getitem__(self, rows: Tensor | slice) -> Sequences:
        """Some of the rows."""
        return Sequences(self.places[rows], self.units)

    def table(self) -> Tensor:
        """The counts, (m, n)."""
        ones = torch.ones(self.places.shape, dtype=torch.float64, device=self.places.device)
        return ones.new_zeros(self.shape).scatter_add_(1, self.places, ones)


Counts = Tensor | Sequences  # (m, n)


def counts_of(sequences: Tensor, units: int) -> Counts:
    """Of rows by the places of their units (m, l), in the form that is fastest to fit."""
    rows = Sequences(sequences, units)
    return rows if sequences.shape[1] <= SHORT else rows.table()


def table_of(counts: Counts) -> Tensor:
    """Counts written out."""
    return counts.table() if isinstance(counts, Sequences) else counts


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

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""

    def take(self, texts: Tensor) -> Rows:
        """Only these texts."""


@dataclass(frozen=True)
class DenseRows:
    """Rows as they are, (B, m, p)."""

    counts: Tensor

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
        return (
            rows.contiguous().mT @ self.counts
        ).mT  # one layout, so that sums are rounded alike wherever rows come from

    def gram(self, weights: Tensor) -> Tensor:
        """Products of columns under row weights (B, m) of any sign: (B, p, p)."""
        counts = self.counts
        weighed = weights[..., None] * counts
        size = counts.shape[2]
        if size < HALVED:
            return counts.mT @ weighed
        gram = weights.new_empty(len(counts), size, size)
        part = -(-size // 4)
        for start in range(0, size, part):  # what is below the diagonal is what is above it
            block = counts[..., start:].mT @ weighed[..., start : start + part]
            gram[:, start:, start : start + part] = block
            gram[:, start : start + part, start:] = block.mT
        return gram

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""
        batch, _, columns = self.shape
        flat = (groups + many * torch.arange(batch, device=groups.device)[:, None]).flatten()
        sums = self.counts.new_zeros(batch * many, columns)
        return sums.index_add_(0, flat, (weights[..., None] * self.counts).flatten(0, 1)).reshape(
            batch, many, columns
        )

    def take(self, texts: Tensor) -> DenseRows:
        """Only these texts."""
        return DenseRows(self.counts[texts])


@dataclass(frozen=True)
class ShortRows:
    """Rows of few different columns: their places (B, l, m) and how often each stands there; a place may be given 0 times, or twice.

    Rows come last, because that is the order in which long sums are fast.
    """

    places: Tensor
    times: Tensor
    columns: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        return self.places.shape[0], self.places.shape[2], self.columns

    @functools.cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Where the products of each row's places stand in a matrix, (B, l l m), and how often, (B, l l, m)."""
        index = self.places[:, :, None] * self.columns + self.places[:, None]
        return index.flatten(1), (self.times[:, :, None] * self.times[:, None]).flatten(1, 2)

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""
        return self.times.new_zeros(len(self.places), self.columns).scatter_add_(
            1, self.places[..., 0], self.times[..., 0]
        )

    def at(self, columns: Tensor) -> Tensor:
        """What columns have at the places of the rows: (B, k, p) -> (B, k, l, m)."""
        index = self.places.flatten(1)[:, None].expand(-1, columns.shape[1], -1)
        return columns.gather(2, index).reshape(*columns.shape[:2], *self.places.shape[1:])

    def totals(self, columns: Tensor) -> Tensor:
        """Sums over columns: (B, p, k) -> (B, m, k)."""
        return (self.times[:, None] * self.at(columns.mT)).sum(dim=2).mT

    def back(self, rows: Tensor) -> Tensor:
        """Sums over rows: (B, m, k) -> (B, p, k)."""
        parts = (self.times[:, None] * rows.mT[:, :, None]).flatten(2)
        index = self.places.flatten(1)[:, None].expand(parts.shape)
        return rows.new_zeros(*parts.shape[:2], self.columns).scatter_add_(2, index, parts).mT

    def gram(self, weights: Tensor) -> Tensor:
        """Products of columns under row weights (B, m) of any sign: (B, p, p)."""
        return self._matrix(weights[:, None] * self._pairs[1])

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Products of columns of two matrices that have their entries where these rows have theirs, (B, l, m) each: (B, p, p)."""
        return self._matrix(left[:, :, None] * right[:, None])

    def _matrix(self, parts: Tensor) -> Tensor:
        parts = parts.flatten(1)
        flat = parts.new_zeros(len(parts), self.columns**2).scatter_add_(1, self._pairs[0], parts)
        return flat.reshape(len(parts), self.columns, self.columns)

    def by_group(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group (B, m): (B, many, p)."""
        index = (groups[:, None] * self.columns + self.places).flatten(1)
        parts = (weights[:, None] * self.times).flatten(1)
        return (
            weights.new_zeros(len(parts), many * self.columns)
            .scatter_add_(1, index, parts)
            .reshape(-1, many, self.columns)
        )

    def take(self, texts: Tensor) -> ShortRows:
        """Only these texts."""
        return ShortRows(self.places[texts], self.times[texts], self.columns)


def short_rows(places: Tensor, columns: int) -> ShortRows:
    """Of sequences of columns, (B, m, l)."""
    turned = places.mT.contiguous()
    return ShortRows(
        turned, torch.ones(turned.shape, dtype=torch.float64, device=places.device), columns
    )


def rows_of(counts: Tensor) -> Rows:
    """Counts (B, m, p) in the form that is fastest to use."""
    some = counts[:, :8]  # enough to tell where rows are long, as they mostly are
    longest = (
        SHORT + 1
        if counts.shape[2] <= 2 * SHORT or int(some.count_nonzero(dim=2).max()) > SHORT
        else int(counts.count_nonzero(dim=2).max())
    )
    if longest > SHORT:
        return DenseRows(counts)
    times, places = counts.topk(longest, dim=2)
    return ShortRows(places.mT.contiguous(), times.mT.contiguous(), counts.shape[2])


def rows_of_one(counts: Counts) -> Rows:
    """The rows of one text."""
    return (
        short_rows(counts.places[None], counts.units)
        if isinstance(counts, Sequences)
        else rows_of(counts[None])
    )
