"""Fits a Gaussian process: finds the kernel under which the answers are most likely.

What it has to do: minimise, over the logarithms of the 2 n + 5 numbers of a ``Kernel`` and its
``Noise``,

    y' K^-1 y / 2  +  log |K| / 2  +  a weak pull of each unit's numbers to a common one

where K is the kernel of the asked rows, held at 0 for the whole text, with the noise. Several
columns share the kernel, and the first term is their mean.

Why it is done this way: the derivatives are written out, so one evaluation costs one factorisation
and one inverse, and L-BFGS needs about forty.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slalom_xai.surrogates.process import (
    JITTER,
    Kernel,
    Noise,
    Process,
    conditioned,
    lengths_apart,
    log_deleted,
)


@dataclass(frozen=True)
class ProcessSettings:
    """Constants of the fit.

    Attributes:
        most_rows: rows up to which all of them decide the kernel. An evaluation of the likelihood
            takes time with the cube of the rows.
        sampled_rows: rows that decide it where there are more; all are conditioned on.
        steps: evaluations of the likelihood, at most. More change predictions by a few hundredths
            of their error, in either direction.
        memory: steps that the search remembers.
        pull: how strongly each unit's logarithms are drawn to their start or their mean; keeps
            units that hardly any row deletes from running off.
        lowest: of all logarithms. Less is nothing.
        highest: of all logarithms. More makes matrices singular.
    """

    most_rows: int = 1_500
    sampled_rows: int = 1_000
    steps: int = 40
    memory: int = 20
    pull: float = 0.01
    lowest: float = -16.0
    highest: float = 8.0


PROCESS = ProcessSettings()


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
        self._apart = lengths_apart(self._rows, self._rows)
        self._deleted = log_deleted(rows)
        self.start = _start(rows)

    def __call__(self, logarithms: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the logarithm of the likelihood per column, with the pull, (), and its slope."""
        kept = logarithms.clamp(PROCESS.lowest, PROCESS.highest)
        units, columns = self._rows.shape[1], self._changes.shape[1]
        kernel, noise = _parts(kept.exp(), units, kept[-1])
        product = kernel.product(self._rows, self._rows)
        length = kernel.length_level * torch.exp(-kernel.length_reach * self._apart)
        joint = product + kernel.sum(self._rows, self._rows) + length
        share = joint[:-1, -1] / joint[-1, -1]
        matrix = joint[:-1, :-1] - share[:, None] * joint[-1, :-1]
        spread = noise.base * torch.exp(noise.power * self._deleted)
        matrix.diagonal().add_(spread + JITTER)
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
