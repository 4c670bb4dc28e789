"""A Gaussian process on deletions: what can be learnt from as many calls, readable or not.

What it has to do: predict rows x, which keep (1) or delete (0) each of n units, from answers to
other rows. Changes f(x) - f(all) are taken for a draw from a Gaussian process with the kernel

    k(x, x') =   g g' a exp(-sum_i w_i |x_i - x'_i|)         interactions of every order
               + sum_i u_i (1 - x_i) (1 - x'_i)              what each unit adds by itself
               + g g' l exp(-q |log(k + 1) - log(k' + 1)|)   what the numbers kept, k and k', decide

    g(x) = ((d(x) + 1) / (n + 1))^r                          d units are deleted from x

and with noise of variance s (d + 1)^t: what cannot be learnt from so few rows looks like noise, and
there is more of it where more is missing. Deep models hardly answer to a few deletions and strongly
to many. The growth g says so; without it, r = 0, few deletions are predicted as roughly as many.
The process is held at 0 for the whole text, so the kernel of what is left is

    k(x, x') - k(x, 1) k(1, x') / k(1, 1).

Why it is done this way: ``process_fit`` finds all of a, w, u, l, q, r, s and t from the answers, so
nothing needs held-out rows. A prediction is a weighted sum of kernels with the rows that were
asked. It needs their bits, one weight a row and 2 n + 4 numbers, so that a file can hold it.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BITS = 48  # in one number of a file: whole numbers of up to 53 bits are exact there
# A row's variance is held to be larger by this part of it. Without noise, rows that are alike would
# otherwise make a matrix singular, and predictions run off.
JITTER = 1e-6
_MOST_JITTER = 1e-2  # a matrix that needs more is damaged
_CELLS = 4_000_000  # entries of a kernel that are held at once in predictions


@dataclass(frozen=True)
class Kernel:
    """How alike the changes of two rows are.

    Attributes:
        reaches: (n,), w: how fast rows become unlike when the unit is in one of them only.
        slopes: (n,), u: the variance of what the unit adds by itself.
        level: (), a: the variance of interactions.
        length_level: (), l: the variance of what the number of units kept decides.
        length_reach: (), q: how fast that changes with the logarithm of the number.
        growth: (), r: the power of the number deleted by which both grow.
    """

    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor
    growth: Tensor

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """The kernel (m, m') of rows (m, n) and other rows (m', n), with entries from 0 to 1."""
        alike = self.product(rows, others) + self.length(rows, others)
        return alike * self.grown(rows)[:, None] * self.grown(others) + self.sum(rows, others)

    def anchored(self, rows: Tensor, others: Tensor) -> Tensor:
        """The same once the process is held at 0 for the whole text, (m, m')."""
        whole = rows.new_ones(1, rows.shape[1])
        share = self.between(whole, others) / self.between(whole, whole)
        return self.between(rows, others) - self.between(rows, whole) * share

    def grown(self, rows: Tensor) -> Tensor:
        """How much larger changes are, the more units are missing: g of rows (m, n), (m,)."""
        units = rows.shape[1]
        return ((units - rows.sum(dim=1) + 1) / (units + 1)) ** self.growth

    def product(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of interactions before it grows, (m, m')."""
        apart = (rows * self.reaches) @ (1 - others).T + ((1 - rows) * self.reaches) @ others.T
        return self.level * torch.exp(-apart)

    def sum(self, rows: Tensor, others: Tensor) -> Tensor:
        """The additive part, (m, m')."""
        return ((1 - rows) * self.slopes) @ (1 - others).T

    def length(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of the number kept before it grows, (m, m')."""
        return self.length_level * torch.exp(-self.length_reach * lengths_apart(rows, others))

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
            self.growth,
        )

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        present = counts.to(self.weights).clamp(max=1)
        rows = self.rows
        at_once = max(1, _CELLS // len(rows))
        changes = [
            self.kernel.between(some, rows) @ self.weights for some in torch.split(present, at_once)
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
        return Process(
            self.packed.cpu(),
            self.weights.cpu(),
            self.full.cpu(),
            *vars(self.kernel.cpu()).values(),
        )


@dataclass(frozen=True)
class Conditioned:
    """A process after it has seen rows, with what its uncertainty follows from.

    Attributes:
        process: predicts.
        rows: (m, n), the rows that it has seen.
        factor: (m, m), of their kernel with the noise.
        scale: (C,), of each column's changes, which were divided by it.
    """

    process: Process
    rows: Tensor
    factor: Tensor
    scale: Tensor

    def told(self, rows: Tensor) -> Tensor:
        """What the seen rows tell of others, (m, k): the part of their variance that is known."""
        shared = self.process.kernel.anchored(self.rows, rows)
        told: Tensor = torch.linalg.solve_triangular(self.factor, shared, upper=False)
        return told

    def standard_errors(self, rows: Tensor) -> Tensor:
        """Of predicted changes against the whole text, (k, C)."""
        known = (self.told(rows) ** 2).sum(dim=0)
        return self.scaled(own_variances(self.process.kernel, rows) - known)

    def scaled(self, variances: Tensor) -> Tensor:
        """Standard errors (k, C) of variances (k,) before any scale."""
        return variances.clamp(min=0).sqrt()[:, None] * self.scale


def conditioned(
    kernel: Kernel, noise: Noise, rows: Tensor, changes: Tensor, full: Tensor, scale: Tensor
) -> Conditioned:
    """The process after it has seen rows.

    Args:
        kernel: how alike rows are.
        noise: what they do not share.
        rows: (m, n), each of which deletes something.
        changes: (m, C), against the whole text.
        full: (C,), added to predicted changes.
        scale: (C,), by which changes are divided first.
    """
    matrix = kernel.anchored(rows, rows)
    matrix.diagonal().mul_(1 + JITTER).add_(noise.of(rows))
    factor = factored(matrix)
    weights = torch.cholesky_solve(changes / scale, factor) * scale
    # The whole text's weight brings its own prediction to 0.
    whole = rows.new_ones(1, rows.shape[1])
    share = kernel.between(whole, rows) / kernel.between(whole, whole)
    weights = torch.cat([weights, -(share @ weights)])
    packed = packed_rows(torch.cat([rows, whole]))
    process = Process(packed, weights, full, *vars(kernel).values())
    return Conditioned(process, rows, factor, scale)


def own_variances(kernel: Kernel, rows: Tensor) -> Tensor:
    """The variance of each row's change before any row is seen, (m,)."""
    whole = rows.new_ones(1, rows.shape[1])
    own = (kernel.level + kernel.length_level) * kernel.grown(rows) ** 2
    own = own + ((1 - rows) ** 2) @ kernel.slopes
    return own - kernel.between(rows, whole)[:, 0] ** 2 / kernel.between(whole, whole)[0, 0]


def factored(matrix: Tensor) -> Tensor:
    """The Cholesky factor of a matrix (m, m), which may be singular up to rounding."""
    jitter = JITTER
    while True:
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not bool(failed):
            return factor
        if jitter > _MOST_JITTER:
            raise ArithmeticError("the kernel of the rows is not positive definite")
        matrix.diagonal().mul_(1 + jitter)
        jitter *= 10


def packed_rows(rows: Tensor) -> Tensor:
    """Rows (m, n) of zeros and ones as whole numbers of up to 48 bits each, (m, words)."""
    units = rows.shape[1]
    words = -(-units // BITS)
    padded = torch.nn.functional.pad(rows, (0, words * BITS - units))
    powers = 2.0 ** torch.arange(BITS, dtype=torch.float64, device=rows.device)
    return padded.double().reshape(len(rows), words, BITS) @ powers


def unpacked_rows(packed: Tensor, units: int) -> Tensor:
    """The inverse of ``packed_rows``."""
    places = torch.arange(BITS, device=packed.device)
    bits = (packed.long()[:, :, None] >> places) & 1
    return bits.reshape(len(packed), -1)[:, :units].to(packed.dtype)


def lengths_apart(rows: Tensor, others: Tensor) -> Tensor:
    """How far the logarithms of the numbers kept, plus one, lie apart, (m, m')."""
    lengths, other_lengths = ((some.sum(dim=1) + 1).log() for some in (rows, others))
    return (lengths[:, None] - other_lengths).abs()


def log_deleted(rows: Tensor) -> Tensor:
    """The logarithm of the number deleted, plus one, in units of that of all, (m,)."""
    units = rows.shape[1]
    return (units - rows.sum(dim=1) + 1).log() / math.log(units + 1)
