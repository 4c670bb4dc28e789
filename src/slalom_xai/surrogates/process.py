"""A Gaussian process on deletions: what can be learnt from as many calls, readable or not.

What it has to do: predict rows x, which keep (1) or delete (0) each of n units, from answers to
other rows. Changes f(x) - f(all) are taken for a draw from a Gaussian process with the kernel

    k(x, x') =   a exp(-sum_i w_i |x_i - x'_i|)              interactions of every order
               + sum_i u_i (1 - x_i) (1 - x'_i)              what each unit adds by itself
               + l exp(-q |log(k + 1) - log(k' + 1)|)        what the numbers kept, k and k', decide

and with noise of variance s d^t on a row that deletes d - 1 units: what cannot be learnt from so
few rows looks like noise, and there is more of it where more is missing. The process is held at 0
for the whole text, so the kernel of what is left is

    k(x, x') - k(x, 1) k(1, x') / k(1, 1).

Why it is done this way: ``process_fit`` finds all of a, w, u, l, q, s and t from the answers, so
nothing needs held-out rows. A prediction is a weighted sum of kernels with the rows that were
asked. It needs their bits, one weight a row and 2 n + 3 numbers, so that a file can hold it.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BITS = 48  # in one number of a file: whole numbers of up to 53 bits are exact there
JITTER = 1e-6  # variance added to the noise, of changes with mean square 1
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
    """

    reaches: Tensor
    slopes: Tensor
    level: Tensor
    length_level: Tensor
    length_reach: Tensor

    def between(self, rows: Tensor, others: Tensor) -> Tensor:
        """The kernel (m, m') of rows (m, n) and other rows (m', n), with entries from 0 to 1."""
        return self.product(rows, others) + self.sum(rows, others) + self.length(rows, others)

    def product(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of interactions, (m, m')."""
        apart = (rows * self.reaches) @ (1 - others).T + ((1 - rows) * self.reaches) @ others.T
        return self.level * torch.exp(-apart)

    def sum(self, rows: Tensor, others: Tensor) -> Tensor:
        """The additive part, (m, m')."""
        return ((1 - rows) * self.slopes) @ (1 - others).T

    def length(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of the number kept, (m, m')."""
        return self.length_level * torch.exp(-self.length_reach * lengths_apart(rows, others))

    def cpu(self) -> Kernel:
        """The same on the CPU."""
        return Kernel(*(number.cpu() for number in vars(self).values()))


@dataclass(frozen=True)
class Noise:
    """The variance of what rows do not share: ``base * d^power``, with d - 1 units deleted.

    Attributes:
        base: (), s.
        power: (), t.
    """

    base: Tensor
    power: Tensor

    def of(self, rows: Tensor) -> Tensor:
        """Of rows (m, n), (m,)."""
        return self.base * torch.exp(self.power * log_deleted(rows)) + JITTER


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
        return unpacked_rows(self.packed, self.units)

    @property
    def kernel(self) -> Kernel:
        """Its kernel."""
        return Kernel(self.reaches, self.slopes, self.level, self.length_level, self.length_reach)

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


def conditioned(
    kernel: Kernel,
    noise: Noise,
    rows: Tensor,
    changes: Tensor,
    full: Tensor,
    scale: Tensor | None = None,
) -> Process:
    """The process after it has seen rows.

    Args:
        kernel: how alike rows are.
        noise: what they do not share.
        rows: (m, n), each of which deletes something.
        changes: (m, C), against the whole text.
        full: (C,), added to predicted changes.
        scale: (C,), of each column's changes where they were divided by it.
    """
    anchored = torch.cat([rows, rows.new_ones(1, rows.shape[1])])
    joint = kernel.between(anchored, anchored)
    share = joint[:-1, -1] / joint[-1, -1]
    matrix = joint[:-1, :-1] - share[:, None] * joint[-1, :-1]
    matrix.diagonal().add_(noise.of(rows))
    factor = torch.linalg.cholesky(matrix)
    weights = torch.cholesky_solve(changes, factor)
    # The whole text's weight brings its own prediction to 0.
    weights = torch.cat([weights, -(share @ weights)[None]])
    if scale is not None:
        weights = weights * scale
    return Process(packed_rows(anchored), weights, full, *vars(kernel).values())


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
