"""The counts of perturbed texts as fits use them, for several texts at once.

What it has to do: a fit needs its rows N, (m, p) counts, in three products only:

    N x,    N' y,    N' diag(q) N        (and sums of the rows of each group)

Why in two forms: rows are mostly tables (``DenseRows``), but ``slalom-eff`` sends texts of two
units among hundreds, and ``slalom-fidel`` texts that lack up to five. Such rows differ in few
places from one that they share, so they are kept as these places (``ShortRows``): N = 1 c' + S. The
products then cost as much as reading the places. Both forms give the same numbers up to rounding;
the tables are the reference in the tests.

Shapes: B problems, m rows, n units, p slots (the units and perhaps a sink), l places in a row, K
sets of weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class CountTableSettings:
    """Where one form of rows is faster than the other; results do not depend on it.

    Attributes:
        short: rows are kept by their places if a table has so many times as many columns, and no
            fewer columns than rows have pairs of places. A Gram matrix costs m l^2 scattered
            additions, that of a table m p^2 that are far cheaper each.
        looked_at: rows that are looked at before all are: enough to see that rows are long, as
            they mostly are.
    """

    short: int = 5
    looked_at: int = 8


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


def table_of(counts: Counts) -> Tensor:
    """Counts written out as a table, (m, n)."""
    if isinstance(counts, Sequences):
        return counts.table()
    return counts


@dataclass(frozen=True)
class DenseRows:
    """Rows as a table, (B, m, p)."""

    counts: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        batch, rows, size = self.counts.shape
        return batch, rows, size

    @property
    def cells(self) -> int:
        """How many numbers a product reads for each problem."""
        return self.counts[0].numel()

    def pick(self, problems: Tensor) -> DenseRows:
        """The rows of some problems."""
        return DenseRows(self.counts[problems])

    def matmul(self, of_slots: Tensor) -> Tensor:
        """N x, sums over slots: (B, p, k) -> (B, m, k)."""
        return self.counts @ of_slots

    def transposed_matmul(self, of_rows: Tensor) -> Tensor:
        """N' y, sums over rows: (B, m, k) -> (B, p, k)."""
        # Always one memory layout, so that sums are rounded alike wherever ``of_rows`` comes from.
        return (of_rows.contiguous().mT @ self.counts).mT

    def gram(self, weights: Tensor) -> Tensor:
        """N' diag(q) N under row weights q (B, K, m) of any sign: (B, K, p, p)."""
        parts = [self.counts.mT @ (q[..., None] * self.counts) for q in weights.unbind(dim=1)]
        return torch.stack(parts, dim=1)

    def group_sums(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Sums of the rows of each group, (K, many, p), for one problem.

        Args:
            groups: (m,), the group of each row, below ``many``.
            many: how many groups there are.
            weights: (K, m).
        """
        weighed = weights[..., None] * self.counts
        sums = weighed.new_zeros(len(weights), many, self.counts.shape[2])
        return sums.index_add_(1, groups, weighed)


@dataclass(frozen=True)
class ShortRows:
    """Rows N = 1 c' + S that differ in few places from one that they share.

    Rows come last in both tables of places, because long sums are fast in that order.

    Attributes:
        indices: (B, l, m), the slots of each row's places. One may be given twice.
        times: (B, l, m), what S has there; 0 is allowed.
        shared: (B, p), c.
    """

    indices: Tensor
    times: Tensor
    shared: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """B, m, p."""
        return len(self.indices), self.indices.shape[2], self.shared.shape[1]

    @property
    def cells(self) -> int:
        """How many numbers a product reads for each problem."""
        return max(self.indices.shape[1] * self.indices[0].numel(), self.shared.shape[1] ** 2)

    def pick(self, problems: Tensor) -> ShortRows:
        """The rows of some problems."""
        return ShortRows(self.indices[problems], self.times[problems], self.shared[problems])

    @functools.cached_property
    def _shares(self) -> bool:
        """Whether rows share anything."""
        return bool(self.shared.any())

    @functools.cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Pairs of places in each row, of which each is there in one order.

        Returns:
            the entry of each pair in a flat (p, p) matrix, and its product of counts, half of it
            for a place with itself, (B, pairs m) each.
        """
        places = self.indices.shape[1]
        first, second = torch.triu_indices(places, places, device=self.indices.device)
        entries = self.indices[:, first] * self.shared.shape[1] + self.indices[:, second]
        half = torch.where(first == second, 0.5, 1.0).to(self.times)[:, None]
        products = half * self.times[:, first] * self.times[:, second]
        return entries.flatten(1), products

    def matmul(self, of_slots: Tensor) -> Tensor:
        """N x, sums over slots: (B, p, k) -> (B, m, k)."""
        places = of_slots.mT.gather(2, self._index(of_slots.shape[2]))
        places = places.reshape(*places.shape[:2], *self.indices.shape[1:])  # (B, k, l, m)
        sums = (self.times[:, None] * places).sum(dim=2).mT
        return sums + self.shared[:, None] @ of_slots if self._shares else sums

    def transposed_matmul(self, of_rows: Tensor) -> Tensor:
        """N' y, sums over rows: (B, m, k) -> (B, p, k)."""
        parts = (self.times[:, None] * of_rows.mT[:, :, None]).flatten(2)  # (B, k, l m)
        sums = of_rows.new_zeros(*parts.shape[:2], self.shared.shape[1])
        sums = sums.scatter_add_(2, self._index(parts.shape[1]), parts).mT
        if not self._shares:
            return sums
        return sums + self.shared[..., None] * of_rows.sum(dim=1, keepdim=True)

    def _index(self, many: int) -> Tensor:
        """The slots of all places for so many sets of numbers, (B, many, l m)."""
        return self.indices.flatten(1)[:, None].expand(-1, many, -1)

    def gram(self, weights: Tensor) -> Tensor:
        """N' diag(q) N under row weights q (B, K, m) of any sign: (B, K, p, p)."""
        entries, products = self._pairs
        batch, sets, size = len(weights), weights.shape[1], self.shared.shape[1]
        parts = (weights[:, :, None] * products[:, None]).flatten(2)
        index = entries[:, None].expand_as(parts)
        half = parts.new_zeros(batch, sets, size * size).scatter_add_(2, index, parts)
        half = half.reshape(batch, sets, size, size)
        if self._shares:
            # S'q c' and half of the part c c'; both are there twice.
            own, total = self.shared[:, None], weights.sum(dim=2, keepdim=True)
            mixed = self.transposed_matmul(weights.mT).mT - total * own / 2
            half = half + mixed[..., None] * own[:, :, None]
        return half + half.mT

    def group_sums(self, groups: Tensor, many: int, weights: Tensor) -> Tensor:
        """Sums of the rows of each group, (K, many, p), for one problem.

        Args:
            groups: (m,), the group of each row, below ``many``.
            many: how many groups there are.
            weights: (K, m).
        """
        size = self.shared.shape[1]
        index = (groups * size + self.indices[0]).flatten()
        parts = (weights[:, None] * self.times[0]).flatten(1)
        sums = weights.new_zeros(len(weights), many * size).index_add_(1, index, parts)
        total = weights.new_zeros(len(weights), many).index_add_(1, groups, weights)
        return sums.reshape(-1, many, size) + total[..., None] * self.shared[0]


Rows = DenseRows | ShortRows


def rows_of(counts: Counts, sink: Sequence[float] = ()) -> Rows:
    """The rows of one problem in the form that is fastest to use.

    Args:
        counts: (m, n).
        sink: how often one more slot occurs in every row; empty for no such slot.
    """
    units = counts.shape[1]
    most = min(units // COUNT_TABLES.short, math.isqrt(2 * units))
    if isinstance(counts, Sequences):
        shared = torch.zeros(counts.units, dtype=torch.float64, device=counts.indices.device)
        if counts.indices.shape[1] <= most:
            times = torch.ones(counts.indices.shape, dtype=torch.float64, device=shared.device)
            return _make_short_rows(counts.indices, times, shared, sink)
        counts = counts.table()
    apart = counts - counts[:1]
    places = apart != 0
    if _longest(places[: COUNT_TABLES.looked_at]) > most or _longest(places) > most:
        last = counts.new_tensor([list(sink)]).expand(len(counts), -1)
        return DenseRows(torch.cat([counts, last], dim=1)[None])
    row, slot = places.nonzero().T
    starts = places.sum(dim=1).cumsum(dim=0) - places.sum(dim=1)
    place = torch.arange(len(row), device=row.device) - starts[row]
    indices = row.new_zeros(len(counts), max(1, _longest(places)))
    times = counts.new_zeros(indices.shape)
    indices[row, place], times[row, place] = slot, apart[row, slot]
    return _make_short_rows(indices, times, counts[0], sink)


def _make_short_rows(
    indices: Tensor, times: Tensor, shared: Tensor, sink: Sequence[float]
) -> ShortRows:
    """From places (m, l) and what all rows share, (n,)."""
    last = torch.cat([shared, shared.new_tensor(list(sink))])[None]
    return ShortRows(indices.T.contiguous()[None], times.T.contiguous()[None], last)


def _longest(places: Tensor) -> int:
    """The most places that a row has."""
    return int(places.sum(dim=1).max())


def stacked_rows(parts: Sequence[Rows], many: int, size: int) -> Rows:
    """The rows of several problems of one form as one.

    Args:
        parts: of one problem each, with the sink as the last slot.
        many: rows of the result; copies of the first one fill a problem up.
        size: slots of the result; slots that never occur fill a problem up before its sink.
    """
    tables = [part.counts[0].T for part in parts if isinstance(part, DenseRows)]
    if tables:
        filled = [_lengthen(_pad_slots(table, size), many).T for table in tables]
        return DenseRows(torch.stack(filled))
    short = [part for part in parts if isinstance(part, ShortRows)]
    longest = max(part.indices.shape[1] for part in short)
    indices, times, shared = [], [], []
    for part in short:
        missing = longest - part.indices.shape[1]
        own = torch.nn.functional.pad(part.indices[0], (0, 0, 0, missing))
        indices.append(_lengthen(own, many))
        counted = torch.nn.functional.pad(part.times[0], (0, 0, 0, missing))
        times.append(_lengthen(counted, many))
        shared.append(_pad_slots(part.shared.T, size)[:, 0])
    return ShortRows(torch.stack(indices), torch.stack(times), torch.stack(shared))


def _pad_slots(of_slots: Tensor, size: int) -> Tensor:
    """Something by slot (p, k) with zeros before the last slot: (size, k)."""
    missing = of_slots.new_zeros(size - len(of_slots), of_slots.shape[1])
    return torch.cat([of_slots[:-1], missing, of_slots[-1:]])


def _lengthen(of_rows: Tensor, many: int) -> Tensor:
    """Something by row (k, m) with copies of the first one after it: (k, many)."""
    missing = many - of_rows.shape[1]
    return torch.cat([of_rows, of_rows[:, :1].expand(-1, missing)], dim=1)


# A number that stands in for zero where zero cannot be divided by and has no logarithm.
#
# It lies a little above the smallest normal double, 2e-308, so its logarithm is finite and 0
# divided by it is 0. Added to anything above 1e-284, it is lost in rounding. So no result depends
# on it: it only decides what becomes of 0 / 0 and of log 0.


TINY = 1e-300
