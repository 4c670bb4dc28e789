"""A Gaussian process on deletions: what can be learnt from as many calls, readable or not.

What it has to do: predict rows x, which keep (1) or delete (0) each of n units, from answers to
other rows. Changes f(x) - f(all) are taken for a draw from a Gaussian process with the kernel

    k(x, x') =   a exp(-sum_i w_i |x_i - x'_i|)              interactions of every order
               + sum_i u_i (1 - x_i) (1 - x'_i)              what each unit adds by itself
               + l exp(-q |log(k + 1) - log(k' + 1)|)        what the numbers kept, k and k', decide

and with noise of variance s (d + 1)^t, with d units deleted: what cannot be learnt from so few rows
looks like noise, and there is more of it where more is missing. The process is held at 0 for the
whole text, so the kernel of what is left is

    k(x, x') - k(x, 1) k(1, x') / k(1, 1).

Why it is done this way: ``gaussian_process`` finds all of a, w, u, l, q, s and t from the
answers, so nothing needs held-out rows. A prediction is a weighted sum of kernels with the rows
that were asked. It needs their bits, one weight a row and 2 n + 3 numbers, so that a file can hold
it.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
    """

    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """The kernel (m, m') of rows (m, n) and others (m', n).

        Entries of rows are from 0 to 1, those of others 0 or 1. What the formula says is worked out
        with as few passes over (m, m') numbers as possible: that is where the time goes.
        """
        kernel = self.interactions(rows, others)
        kernel.add_(((1 - rows) * self.slopes) @ (1 - others).T)
        return kernel.add_(self._lengths(rows, others))

    def with_whole(self, rows: Tensor) -> Tensor:
        """The kernel of rows (m, n) and the whole text, (m,)."""
        apart = math.log(rows.shape[1] + 1) - (rows.sum(dim=1) + 1).log()
        alike = self.level * torch.exp((rows - 1) @ self.reaches)
        return alike + self.length_level * torch.exp(-self.length_reach * apart)

    def anchored(self, rows: Tensor, others: Tensor) -> Tensor:
        """``between`` once the process is held at 0 for the whole text, (m, m')."""
        share = self.with_whole(others) / (self.level + self.length_level)
        return self.between(rows, others).addr_(self.with_whole(rows), share, alpha=-1)

    def interactions(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of interactions, (m, m').

        Where x' is 0 or 1, |x - x'| = x + x' - 2 x x'. So the logarithm is a product of tables in
        which what belongs to one row alone has a column of its own.
        """
        own, of_others = self._own_logarithm(rows), self._own_logarithm(others)
        left = torch.cat([2 * rows * self.reaches, own, torch.ones_like(own)], dim=1)
        right = torch.cat([others, torch.ones_like(of_others), of_others], dim=1)
        return (left @ right.T).exp_()

    def _own_logarithm(self, rows: Tensor) -> Tensor:
        """What a row has of the logarithm of interactions by itself, (m, 1)."""
        return self.level.log() / 2 - rows @ self.reaches[:, None]

    def _lengths(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of the number kept, (m, m'): from a table with every number of others."""
        numbers = torch.arange(rows.shape[1] + 1, device=rows.device).to(rows)
        apart = ((rows.sum(dim=1, keepdim=True) + 1).log() - (numbers + 1).log()).abs()
        table = self.length_level * torch.exp(-self.length_reach * apart)
        return table.index_select(1, others.sum(dim=1).long())


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
        packed: (m, words), the asked rows as bits in whole numbers; ``pack_rows`` makes them.
        weights: (m, C).
        full: (C,), the model's own output on the whole text.
        reaches: (n,), of the ``Kernel``, as the others below.
        slopes: (n,).
        level: ().
        length_level: ().
        length_reach: ().
    """

    packed: Tensor
    weights: Tensor
    full: Tensor
    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor

    @property
    def units(self) -> int:
        """How many units rows keep or delete."""
        return len(self.reaches)

    @property
    def rows(self) -> Tensor:
        """The asked rows, (m, n)."""
        return unpack_rows(self.packed, self.units)

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        return Kernel(self.reaches, self.slopes, self.level, self.length_level, self.length_reach)

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        present = counts.to(self.weights).clamp(max=1)
        rows, kernel = self.rows, self.kernel
        at_once = max(1, _CELLS // len(rows))
        changes = [
            kernel.between(some, rows) @ self.weights for some in torch.split(present, at_once)
        ]
        return self.full + torch.cat(changes)

    @property
    def unit_scores(self) -> Tensor:
        """What it predicts that removing each unit takes away, (n, C)."""
        return self.full - self.predict(1 - torch.eye(self.units).to(self.weights))

    def empty(self) -> Tensor:
        """F(empty), (C,)."""
        return self.predict(self.reaches.new_zeros(1, self.units))[0]

    def cpu(self) -> Process:
        """The same function on the CPU."""
        return Process(*(part.cpu() for part in vars(self).values()))


def pack_rows(rows: Tensor) -> Tensor:
    """Rows (m, n) of zeros and ones as whole numbers of up to 48 bits each, (m, words)."""
    units = rows.shape[1]
    words = -(-units // BITS)
    padded = torch.nn.functional.pad(rows, (0, words * BITS - units)).long()
    places = torch.arange(BITS, device=rows.device)
    # Bits are shifted, not multiplied: on a GPU, powers of two are not exact.
    return (padded.reshape(len(rows), words, BITS) << places).sum(dim=2).double()


def unpack_rows(packed: Tensor, units: int) -> Tensor:
    """The inverse of ``pack_rows``."""
    places = torch.arange(BITS, device=packed.device)
    bits = (packed.long()[:, :, None] >> places) & 1
    return bits.reshape(len(packed), -1)[:, :units].to(packed.dtype)


def log_deleted(rows: Tensor) -> Tensor:
    """The logarithm of the number deleted from rows (m, n), plus one, by that of all: (m,)."""
    units = rows.shape[1]
    return (units - rows.sum(dim=1) + 1).log() / math.log(units + 1)
