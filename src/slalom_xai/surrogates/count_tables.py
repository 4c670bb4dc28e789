"""The counts of rows as a fit uses them, for several texts at once.

What it has to do: a fit needs its rows N, (m, p) counts, in three products only:

    N x,    N' y,    N' diag(q) N          (and sums of the rows of each length)

Why in two forms: rows are mostly tables (``DenseRows``), but ``slalom-eff`` asks rows of two units
among hundreds. Such rows are kept as the indices of their units (``ShortRows``). The products then
cost as much as reading the rows, and no table is written. Both forms give the same numbers up to
rounding; the tables are the reference in the tests.

Shapes: B texts, m rows, n units, p slots (the units and perhaps a sink), l units in a short row.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class CountTableSettings:
    """Where one form of rows is faster than the other; results do not depend on it.

    Attributes:
        short: units. Rows with at most so many different slots are kept by index. A short Gram
            matrix costs m l^2 scattered additions, a table m p^2 that are far cheaper each.
        looked_at: rows that are looked at before all are: enough to see that rows are long, as
            they mostly are.
        halved: slots. From so many on, a Gram matrix is computed on one side of its diagonal only.
            Below, the blocks are too small to be worth it.
        strips: blocks that such a matrix is computed in.
    """

    short: int = 4
    looked_at: int = 8
    halved: int = 512
    strips: int = 4


COUNT_TABLES = CountTableSettings()


@dataclass(frozen=True)
class Sequences:
    """Rows of one text that have few units each: a table of counts (m, n) that is not written out.

    Attributes:
        indices: (m, l), the units of each row; a unit may stand there twice.
        units: n.
    """

    indices: Tensor
    units: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table: m, n."""
        return len(self.indices), self.units

    def __len__(self) -> int:
        """How many rows."""
        return len(self.indices)

    def __getitem__(self, rows: Tensor | slice) -> Sequences:
        """Some of the rows."""
        return Sequences(self.indices[rows], self.units)

    def table(self) -> Tensor:
        """The counts, (m, n)."""
        ones = torch.ones(self.indices.shape, dtype=torch.float64, device=self.indices.device)
        return ones.new_zeros(self.shape).scatter_add_(1, self.indices, ones)


Counts = Tensor | Sequences  # (m, n)


def counts_of(sequences: Tensor, units: int) -> Counts:
    """Rows given by the indices of their units (m, l), in the form that is fastest to fit."""
    rows = Sequences(sequences, units)
    if sequences.shape[1] <= COUNT_TABLES.short:
        return rows
    return rows.table()


def table_of(counts: Counts) -> Tensor:
    """Counts written out as a table, (m, n)."""
    if isinstance(counts, Sequences):
        return counts.table()
    return counts


class Rows(Protocol):
    """The counts N, (B, m, p), of B texts."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""

    def matmul(self, of_slots: Tensor) -> Tensor:
        """N x, sums over slots: (B, p, k) -> (B, m, k)."""

    def transposed_matmul(self, of_rows: Tensor) -> Tensor:
        """N' y, sums over rows: (B, m, k) -> (B, p, k)."""

    def gram(self, weights: Tensor) -> Tensor:
        """N' diag(q) N under row weights q (B, m) of any sign: (B, p, p)."""

    def group_sums(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group.

        Args:
            groups: (B, m), the group of each row, below ``many``.
            many: how many groups there are.
            weights: (B, m).

        Returns:
            (B, many, p).
        """


@dataclass(frozen=True)
class DenseRows:
    """Rows as a table, (B, m, p)."""

    counts: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        batch, rows, size = self.counts.shape
        return batch, rows, size

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""
        return self.counts[:, 0]

    def matmul(self, of_slots: Tensor) -> Tensor:
        """N x, sums over slots: (B, p, k) -> (B, m, k)."""
        return self.counts @ of_slots

    def transposed_matmul(self, of_rows: Tensor) -> Tensor:
        """N' y, sums over rows: (B, m, k) -> (B, p, k)."""
        # Always one memory layout, so that sums are rounded alike wherever ``of_rows`` comes from.
        return (of_rows.contiguous().mT @ self.counts).mT

    def gram(self, weights: Tensor) -> Tensor:
        """N' diag(q) N under row weights q (B, m) of any sign: (B, p, p)."""
        counts = self.counts
        weighed = weights[..., None] * counts
        size = counts.shape[2]
        if size < COUNT_TABLES.halved:
            return counts.mT @ weighed
        gram = weights.new_empty(len(counts), size, size)
        width = -(-size // COUNT_TABLES.strips)
        for start in range(0, size, width):  # the matrix is symmetric: each strip is used twice
            strip = slice(start, start + width)
            block = counts[..., start:].mT @ weighed[..., strip]
            gram[:, start:, strip] = block
            gram[:, strip, start:] = block.mT
        return gram

    def group_sums(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group: (B, many, p)."""
        batch, _, size = self.shape
        flat = (groups + many * torch.arange(batch, device=groups.device)[:, None]).flatten()
        weighed = (weights[..., None] * self.counts).flatten(0, 1)  # (B m, p)
        sums = self.counts.new_zeros(batch * many, size).index_add_(0, flat, weighed)
        return sums.reshape(batch, many, size)


@dataclass(frozen=True)
class ShortRows:
    """Rows of few different slots: a fast form of ``DenseRows``.

    Rows come last in both tensors, because long sums are fast in that order.

    Attributes:
        indices: (B, l, m), the slots of each row. One may be given twice.
        times: (B, l, m), how often each slot stands there; 0 is allowed.
        slots: p.
    """

    indices: Tensor
    times: Tensor
    slots: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        return self.indices.shape[0], self.indices.shape[2], self.slots

    @functools.cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Pairs of slots in each row.

        Returns:
            the entry of each pair in a flat (p, p) matrix, (B, l l m), and its count, (B, l l, m).
        """
        entries = self.indices[:, :, None] * self.slots + self.indices[:, None]
        times = self.times[:, :, None] * self.times[:, None]
        return entries.flatten(1), times.flatten(1, 2)

    def first(self) -> Tensor:
        """The first row of each text, (B, p)."""
        nothing = self.times.new_zeros(len(self.indices), self.slots)
        return nothing.scatter_add_(1, self.indices[..., 0], self.times[..., 0])

    def at(self, of_slots: Tensor) -> Tensor:
        """The entries of (B, k, p) that belong to the slots of each row: (B, k, l, m)."""
        index = self.indices.flatten(1)[:, None].expand(-1, of_slots.shape[1], -1)
        gathered = of_slots.gather(2, index)
        return gathered.reshape(*of_slots.shape[:2], *self.indices.shape[1:])

    def matmul(self, of_slots: Tensor) -> Tensor:
        """N x, sums over slots: (B, p, k) -> (B, m, k)."""
        return (self.times[:, None] * self.at(of_slots.mT)).sum(dim=2).mT

    def transposed_matmul(self, of_rows: Tensor) -> Tensor:
        """N' y, sums over rows: (B, m, k) -> (B, p, k)."""
        parts = (self.times[:, None] * of_rows.mT[:, :, None]).flatten(2)  # (B, k, l m)
        index = self.indices.flatten(1)[:, None].expand(parts.shape)
        sums = of_rows.new_zeros(*parts.shape[:2], self.slots).scatter_add_(2, index, parts)
        return sums.mT

    def gram(self, weights: Tensor) -> Tensor:
        """N' diag(q) N under row weights q (B, m) of any sign: (B, p, p)."""
        return self._matrix(weights[:, None] * self._pairs[1])

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """L' R of two matrices (m, p) that have entries only where these rows have counts.

        Args:
            left: (B, l, m), the entries of L.
            right: (B, l, m), the entries of R.

        Returns:
            (B, p, p).
        """
        return self._matrix(left[:, :, None] * right[:, None])

    def _matrix(self, parts: Tensor) -> Tensor:
        """Adds what each pair of each row gives to its entry: (B, l l, m) -> (B, p, p)."""
        parts = parts.flatten(1)
        flat = parts.new_zeros(len(parts), self.slots**2).scatter_add_(1, self._pairs[0], parts)
        return flat.reshape(len(parts), self.slots, self.slots)

    def group_sums(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Weighted sums of the rows of each group: (B, many, p)."""
        index = (groups[:, None] * self.slots + self.indices).flatten(1)
        parts = (weights[:, None] * self.times).flatten(1)
        sums = weights.new_zeros(len(parts), many * self.slots).scatter_add_(1, index, parts)
        return sums.reshape(-1, many, self.slots)


def short_rows(sequences: Tensor, size: int) -> ShortRows:
    """Rows given by the indices of their slots (B, m, l), of ``size`` slots."""
    indices = sequences.mT.contiguous()
    times = torch.ones(indices.shape, dtype=torch.float64, device=sequences.device)
    return ShortRows(indices, times, size)


def rows_of(counts: Tensor) -> Rows:
    """A table of counts (B, m, p) in the form that is fastest to use."""
    short = COUNT_TABLES.short
    if counts.shape[2] <= 2 * short or _longest(counts[:, : COUNT_TABLES.looked_at]) > short:
        return DenseRows(counts)
    longest = _longest(counts)
    if longest > short:
        return DenseRows(counts)
    times, indices = counts.topk(longest, dim=2)
    return ShortRows(indices.mT.contiguous(), times.mT.contiguous(), counts.shape[2])


def _longest(counts: Tensor) -> int:
    """The most different slots that a row has."""
    return int(counts.count_nonzero(dim=2).max())


def rows_of_one(counts: Counts) -> Rows:
    """The rows of one text, as a batch of one."""
    if isinstance(counts, Sequences):
        return short_rows(counts.indices[None], counts.units)
    return rows_of(counts[None])
