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

Why it is done this way: all of a, w, u, l, q, s and t maximise the likelihood of the answers, so
nothing needs held-out rows. A prediction is a weighted sum of kernels with the rows that were
asked. It needs their bits, one weight a row and 2 n + 3 numbers, so that a file can hold it.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class ProcessSettings:
    """Constants of the fit. Where nothing else is said, times are of one core.

    Attributes:
        most_rows: rows up to which all of them decide the kernel. An evaluation of the likelihood
            takes time with the cube of the rows, 0.1 s at 1,000.
        sampled_rows: rows that decide it where there are more; all are conditioned on.
        steps: evaluations of the likelihood, at most. More change predictions by a few hundredths
            of their error, in either direction.
        memory: steps that the search remembers.
        pull: how strongly each unit's logarithms are drawn to their start or their mean; keeps
            units that hardly any row deletes from running off.
        lowest: of all logarithms. Less is nothing.
        highest: of all logarithms. More makes matrices singular.
        jitter: variance that is added to the noise, where the changes have variance 1.
        cells: entries of a kernel that are held at once in predictions.
    """

    most_rows: int = 1_500
    sampled_rows: int = 1_000
    steps: int = 40
    memory: int = 20
    pull: float = 0.01
    lowest: float = -16.0
    highest: float = 8.0
    jitter: float = 1e-6
    cells: int = 4_000_000


PROCESS = ProcessSettings()
BITS = 48  # in one number of a file: whole numbers of up to 53 bits are exact there


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
        return self._product(rows, others) + self._sum(rows, others) + self._length(rows, others)

    def _product(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of interactions, (m, m')."""
        apart = (rows * self.reaches) @ (1 - others).T + ((1 - rows) * self.reaches) @ others.T
        return self.level * torch.exp(-apart)

    def _sum(self, rows: Tensor, others: Tensor) -> Tensor:
        """The additive part, (m, m')."""
        return ((1 - rows) * self.slopes) @ (1 - others).T

    def _length(self, rows: Tensor, others: Tensor) -> Tensor:
        """The part of the number kept, (m, m')."""
        return self.length_level * torch.exp(-self.length_reach * _lengths_apart(rows, others))

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
        return self.base * torch.exp(self.power * _log_deleted(rows)) + PROCESS.jitter


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

    @functools.cached_property
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
        at_once = max(1, PROCESS.cells // len(self.rows))
        changes = [
            self.kernel.between(some, self.rows) @ self.weights
            for some in torch.split(present, at_once)
        ]
        return self.full + torch.cat(changes)

    @functools.cached_property
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


def fit_process(
    counts: Tensor, outputs: Tensor, full: Tensor, generator: torch.Generator | None = None
) -> Process:
    """A process of the changes against the whole text.

    Args:
        counts: (m, n), 1 keeps a unit and 0 deletes it; the whole text may be among them.
        outputs: (m, C), what the model answered.
        full: (C,), its answer to the whole text, which is met exactly.
        generator: chooses the rows that decide the kernel, where there are many; on the CPU.
    """
    deleting = counts.sum(dim=1) < counts.shape[1]
    rows, changes = counts[deleting], (outputs - full)[deleting]
    scale = changes.pow(2).mean(dim=0).sqrt()
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    kernel, noise = fit_kernel(rows, changes / scale, generator)
    return conditioned(kernel, noise, rows, changes / scale, full, scale)


def fit_kernel(
    rows: Tensor, changes: Tensor, generator: torch.Generator | None = None
) -> tuple[Kernel, Noise]:
    """The kernel and the noise under which the changes are most likely.

    Args:
        rows: (m, n), each of which deletes something.
        changes: (m, C), each column with mean square 1.
        generator: chooses rows, where there are many; on the CPU.
    """
    if len(rows) > PROCESS.most_rows:
        some = torch.randperm(len(rows), generator=generator)[: PROCESS.sampled_rows]
        rows, changes = rows[some.to(rows.device)], changes[some.to(rows.device)]
    logarithms = _likeliest(_Likelihood(rows, changes))
    return _parts(logarithms.exp(), rows.shape[1], logarithms[-1])


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


class _Likelihood:
    """How unlikely changes are under a kernel, and the derivative by its logarithms.

    Args:
        rows: (m, n).
        changes: (m, C).

    Attributes:
        start: where the search begins, logarithms (2 n + 5,).
    """

    def __init__(self, rows: Tensor, changes: Tensor) -> None:
        self._changes = changes
        self._rows = torch.cat([rows, rows.new_ones(1, rows.shape[1])])  # the whole text last
        self._apart = _lengths_apart(self._rows, self._rows)
        self._deleted = _log_deleted(rows)
        self.start = _start(rows)

    def __call__(self, logarithms: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the logarithm of the likelihood per column, with the pull, (), and its slope."""
        kept = logarithms.clamp(PROCESS.lowest, PROCESS.highest)
        units, columns = self._rows.shape[1], self._changes.shape[1]
        kernel, noise = _parts(kept.exp(), units, kept[-1])
        product = kernel._product(self._rows, self._rows)
        length = kernel.length_level * torch.exp(-kernel.length_reach * self._apart)
        joint = product + kernel._sum(self._rows, self._rows) + length
        share = joint[:-1, -1] / joint[-1, -1]
        matrix = joint[:-1, :-1] - share[:, None] * joint[-1, :-1]
        spread = noise.base * torch.exp(noise.power * self._deleted)
        matrix.diagonal().add_(spread + PROCESS.jitter)
        factor = torch.linalg.cholesky(matrix)
        weights = torch.cholesky_solve(self._changes, factor)
        loss = (self._changes * weights).sum() / (2 * columns) + factor.diagonal().log().sum()
        # The derivative by the matrix, and then by the kernel of all rows: the matrix is
        # P joint P' with P = [1, -share], and so is its change where the kernel changes.
        inner = (torch.cholesky_inverse(factor) - weights @ weights.T / columns) / 2
        carried = inner @ share
        outer = torch.cat([inner, -carried[None]])
        outer = torch.cat([outer, torch.cat([-carried, (share @ carried)[None]])[:, None]], dim=1)
        slope = self._slope(kernel, outer, outer * product, outer * length)
        of_noise = inner.diagonal() * spread
        slope = torch.cat([slope, torch.stack([of_noise.sum(), of_noise @ self._deleted])])
        pull, pulled = self._pull(kept, units)
        inside = (logarithms == kept).to(slope)
        return loss + pull, (slope + pulled) * inside

    def _slope(self, kernel: Kernel, outer: Tensor, product: Tensor, length: Tensor) -> Tensor:
        """The derivative by the kernel's logarithms, (2 n + 3,).

        Args:
            kernel: where.
            outer: (m + 1, m + 1), the derivative by the kernel of all rows.
            product: outer times the part of interactions, entry by entry.
            length: outer times the part of lengths.
        """
        rows, missing = self._rows, 1 - self._rows
        apart = 2 * (product.sum(dim=1) @ rows - (rows * (product @ rows)).sum(dim=0))
        missed = (missing * (outer @ missing)).sum(dim=0)
        last = [product.sum(), length.sum(), -kernel.length_reach * (length * self._apart).sum()]
        return torch.cat([-kernel.reaches * apart, kernel.slopes * missed, torch.stack(last)])

    def _pull(self, logarithms: Tensor, units: int) -> tuple[Tensor, Tensor]:
        """What draws reaches to their start and slopes to their mean, (), and its slope."""
        reaches, slopes = logarithms[:units], logarithms[units : 2 * units]
        away = torch.cat([reaches - self.start[:units], slopes - slopes.mean()])
        slope = torch.zeros_like(logarithms)
        slope[: 2 * units] = 2 * PROCESS.pull * away
        return PROCESS.pull * (away**2).sum(), slope


def _start(rows: Tensor) -> Tensor:
    """Where the search begins, for changes of mean square 1: logarithms (2 n + 5,)."""
    units = rows.shape[1]
    start = torch.full((2 * units + 5,), -math.log(units), dtype=rows.dtype, device=rows.device)
    start[2 * units :] = torch.tensor([0.0, math.log(0.1), 0.0, math.log(0.02), 0.0])
    return start


def _parts(numbers: Tensor, units: int, power: Tensor) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (2 n + 5,); the power may be below 0 and is itself."""
    level, length_level, length_reach, base, _ = numbers[2 * units :]
    kernel = Kernel(numbers[:units], numbers[units : 2 * units], level, length_level, length_reach)
    return kernel, Noise(base, power)


def _likeliest(likelihood: _Likelihood) -> Tensor:
    """The logarithms (2 n + 5,) that L-BFGS finds within ``PROCESS.steps`` evaluations."""
    logarithms = torch.nn.Parameter(likelihood.start.clone())
    search: Any = torch.optim.LBFGS(
        [logarithms],
        max_iter=PROCESS.steps,
        max_eval=PROCESS.steps,
        history_size=PROCESS.memory,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        loss, slope = likelihood(logarithms.detach())
        logarithms.grad = slope
        return loss

    search.step(closure)
    return logarithms.detach().clamp(PROCESS.lowest, PROCESS.highest)


def _lengths_apart(rows: Tensor, others: Tensor) -> Tensor:
    """How far the logarithms of the numbers kept, plus one, lie apart, (m, m')."""
    lengths, other_lengths = ((some.sum(dim=1) + 1).log() for some in (rows, others))
    return (lengths[:, None] - other_lengths).abs()


def _log_deleted(rows: Tensor) -> Tensor:
    """The logarithm of the number deleted, plus one, in units of that of all, (m,)."""
    units = rows.shape[1]
    return (units - rows.sum(dim=1) + 1).log() / math.log(units + 1)
