"""A Gaussian process on deletions: what can be learnt from as many calls, readable or not.

What it has to do: predict rows x, which keep (1) or delete (0) each of n units, from answers to
other rows. Changes f(x) - f(all) are taken for a draw from a Gaussian process with the kernel

    k(x, x') =   g g' a exp(-sum_i w_i |x_i - x'_i|)         interactions of every order
               + sum_i u_i (1 - x_i) (1 - x'_i)              what each unit adds by itself
               + g g' l exp(-q |log(k + 1) - log(k' + 1)|)   what the numbers kept, k and k', decide
               + p phi(x) . phi(x')                          what units do that have moved up

    g(x) = ((d(x) + 1) / (n + 1))^r                          d units are deleted from x

and with noise of variance s (d + 1)^t: what cannot be learnt from so few rows looks like noise, and
there is more of it where more is missing. ``places`` says what phi is. Deep models hardly answer
to a few deletions and strongly to many. The growth g says so; without it, r = 0, few deletions are
predicted as roughly as many. The process is held at 0 for the whole text (``conditioning``), so the
kernel of what is left is

    k(x, x') - k(x, 1) k(1, x') / k(1, 1).

Why it is done this way: ``process_fit`` finds all of a, w, u, l, q, p, r, s and t from the answers,
so nothing needs held-out rows. A prediction is a weighted sum of kernels with the rows that were
asked. It needs their bits, one weight a row and 2 n + 5 numbers, so that a file can hold it.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.places import alike_in_places, place_entries

BITS = 48  # in one number of a file: whole numbers of up to 53 bits are exact there
_CELLS = 1_000_000  # entries of a kernel that are held at once in predictions


@dataclass(frozen=True)
class Kernel:
    """How alike the changes of two rows are.

    Attributes:
        reaches: (n,), w: how fast rows become unlike when the unit is in one of them only.
        slopes: (n,), u: the variance of what the unit adds by itself.
        level: (), a: the variance of interactions.
        length_level: (), l: the variance of what the number of units kept decides.
        length_reach: (), q: how fast that changes with the logarithm of the number.
        place_level: (), p: the variance of what a unit does that has moved; 0 where none moves.
        growth: (), r: the power of the number deleted by which interactions and lengths grow.
    """

    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor
    place_level: Tensor
    growth: Tensor

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """The kernel (..., m, m') of rows (..., m, n) and others (..., m', n).

        Entries of rows are from 0 to 1, those of others 0 or 1.
        """
        kernel = self.without_places(rows, others)
        if self.has_places:
            kernel.add_(self.place_level * alike_in_places(rows, others))
        return kernel

    @property
    def has_places(self) -> bool:
        """Whether it matters that units have moved."""
        return float(self.place_level) > 0

    def without_places(self, rows: Tensor, others: Tensor) -> Tensor:
        """``between`` but for what units do that have moved, (..., m, m').

        What the formula says is worked out with as few passes over (m, m') numbers as possible:
        that is where the time goes.
        """
        kernel = self.interactions(rows, others)
        kernel.add_(((1 - rows) * self.slopes) @ (1 - others).mT)
        return kernel.add_(self._lengths(rows, others))

    def with_whole(self, rows: Tensor) -> Tensor:
        """The kernel of rows (..., n) and the whole text, where nothing has moved, (...)."""
        units = rows.shape[-1]
        kept = rows.sum(dim=-1)
        grown = torch.exp(
            self.log_grown(kept, units) + self.log_grown(kept.new_tensor(units), units)
        )
        apart = math.log(units + 1) - (kept + 1).log()
        alike = self.level * torch.exp((rows - 1) @ self.reaches)
        return grown * (alike + self.length_level * torch.exp(-self.length_reach * apart))

    @property
    def whole(self) -> Tensor:
        """The kernel of the whole text and itself, ()."""
        units = len(self.reaches)
        grown = torch.exp(2 * self.log_grown(self.level.new_tensor(units), units))
        return grown * (self.level + self.length_level)

    def anchored(self, rows: Tensor, others: Tensor, *, places: bool = True) -> Tensor:
        """``between`` once the process is held at 0 for the whole text, (m, m').

        Args:
            rows: (m, n).
            others: (m', n).
            places: with what units do that have moved.
        """
        kernel = self.between(rows, others) if places else self.without_places(rows, others)
        share = self.with_whole(others) / self.whole
        return kernel.addr_(self.with_whole(rows), share, alpha=-1)

    def log_grown(self, kept: Tensor, units: int) -> Tensor:
        """How much larger changes are, the more is missing: log g where so many units are kept."""
        return self.growth * ((units + 1 - kept) / (units + 1)).log()

    def interactions(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of interactions, (..., m, m').

        Where x' is 0 or 1, |x - x'| = x + x' - 2 x x'. So the logarithm is a product of tables in
        which what belongs to one row alone has a column of its own.
        """
        own, of_others = self._own_logarithm(rows), self._own_logarithm(others)
        reaches = self.reaches.unsqueeze(-2)
        left = torch.cat([2 * rows * reaches, own, torch.ones_like(own)], dim=-1)
        right = torch.cat([others, torch.ones_like(of_others), of_others], dim=-1)
        return (left @ right.mT).exp_()

    def _own_logarithm(self, rows: Tensor) -> Tensor:
        """What a row has of the logarithm of interactions by itself, (..., m, 1)."""
        grown = self.log_grown(rows.sum(dim=-1, keepdim=True), rows.shape[-1])
        return grown - rows @ self.reaches.unsqueeze(-1) + self.level.log() / 2

    def _lengths(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of the number kept, (..., m, m'): from a table with every number of others."""
        units = rows.shape[-1]
        numbers = torch.arange(units + 1, device=rows.device).to(rows)
        kept = rows.sum(dim=-1, keepdim=True)
        apart = ((kept + 1).log() - (numbers + 1).log()).abs()
        grown = self.log_grown(kept, units) + self.log_grown(numbers, units)
        table = self.length_level * torch.exp(grown - self.length_reach * apart)
        columns = others.sum(dim=-1).long()
        if others.ndim == 2:
            return table.index_select(1, columns)
        return torch.take_along_dim(table, columns.unsqueeze(-2), dim=-1)

    def cpu(self) -> Kernel:
        """The same on the CPU."""
        return Kernel(*(number.cpu() for number in vars(self).values()))


@dataclass(frozen=True)
class Noise:
    """The variance of what rows do not share: ``base * (d + 1)^power``, with d units deleted.

    Attributes:
        base: (), s.
        power: (), t.
    """

    base: Tensor
    power: Tensor

    def of(self, rows: Tensor) -> Tensor:
        """Of rows (m, n), (m,)."""
        return self.base * torch.exp(self.power * log_deleted(rows))


@dataclass(frozen=True)
class Process:
    """``F(x) = f(all) + sum over asked rows r of k(x, r) weight_r``.

    A row that repeats units is predicted like one that has each of them once: no repeats were
    asked.

    Attributes:
        packed: (m, words), the asked rows as bits in whole numbers; ``packed_rows`` makes them.
        weights: (m, C).
        full: (C,), the model's own output on the whole text.
        reaches: (n,), of the ``Kernel``, as the others below.
        slopes: (n,).
        level: ().
        length_level: ().
        length_reach: ().
        place_level: ().
        growth: ().
    """

    packed: Tensor
    weights: Tensor
    full: Tensor
    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor
    place_level: Tensor
    growth: Tensor

    @property
    def units(self) -> int:
        """How many units rows keep or delete."""
        return len(self.reaches)

    @property
    def rows(self) -> Tensor:
        """The asked rows, (m, n)."""
        return unpacked_rows(self.packed, self.units)

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        return Kernel(
            self.reaches,
            self.slopes,
            self.level,
            self.length_level,
            self.length_reach,
            self.place_level,
            self.growth,
        )

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        present = counts.to(self.weights).clamp(max=1)
        rows = self.rows
        at_once = max(1, _CELLS // len(rows))
        kernel = self.kernel
        changes = [
            kernel.without_places(some, rows) @ self.weights + self.by_places(some)
            for some in torch.split(present, at_once)
        ]
        return self.full + torch.cat(changes)

    def by_places(self, rows: Tensor) -> Tensor:
        """What units that have moved add to predictions for rows (..., m, n), (..., m, C)."""
        if not self.kernel.has_places:
            return rows.new_zeros(*rows.shape[:-1], len(self.full))
        return place_entries(rows) @ self._place_effects

    @functools.cached_property
    def _place_effects(self) -> Tensor:
        """What each unit adds by how far it has moved, (n k, C)."""
        return self.place_level * (place_entries(self.rows).mT @ self.weights)

    @property
    def unit_scores(self) -> Tensor:
        """What it predicts that removing each unit takes away, (n, C)."""
        return self.full - self.predict(1 - torch.eye(self.units).to(self.weights))

    def empty(self) -> Tensor:
        """F(empty), (C,)."""
        return self.predict(self.reaches.new_zeros(1, self.units))[0]

    def cpu(self) -> Process:
        """The same function on the CPU."""
        return Process(
            self.packed.cpu(),
            self.weights.cpu(),
            self.full.cpu(),
            *vars(self.kernel.cpu()).values(),
        )


def packed_rows(rows: Tensor) -> Tensor:
    """Rows (m, n) of zeros and ones as whole numbers of up to 48 bits each, (m, words)."""
    units = rows.shape[1]
    words = -(-units // BITS)
    padded = torch.nn.functional.pad(rows, (0, words * BITS - units)).long()
    places = torch.arange(BITS, device=rows.device)
    # Bits are shifted, not multiplied: on a GPU, powers of two are not exact.
    return (padded.reshape(len(rows), words, BITS) << places).sum(dim=2).double()


def unpacked_rows(packed: Tensor, units: int) -> Tensor:
    """The inverse of ``packed_rows``."""
    places = torch.arange(BITS, device=packed.device)
    bits = (packed.long()[:, :, None] >> places) & 1
    return bits.reshape(len(packed), -1)[:, :units].to(packed.dtype)


def log_deleted(rows: Tensor) -> Tensor:
    """The logarithm of the number deleted from rows (..., m, n), plus one, by that of all."""
    units = rows.shape[-1]
    return (units - rows.sum(dim=-1) + 1).log() / math.log(units + 1)
