"""Fits a Gaussian process: finds the kernel under which the answers are most likely.

What it has to do: minimise, over the logarithms of the numbers of a ``Kernel`` and its ``Noise``,

    y' K^-1 y / 2  +  log |K| / 2  +  a pull of each unit's numbers to a common one

where K is the kernel of the asked rows, held at 0 for the whole text, with the noise. Several
columns share the kernel, and the first term is their mean. The two powers, of the growth and of the
noise, are themselves and not logarithms.

Why it is done this way: the derivatives are written out, so one evaluation costs one factorisation
and one inverse, and L-BFGS needs few. With few rows a weak pull lets the kernel follow them: the
correction of ``slalom`` has a strong one, and starts from how changes grow with the number deleted.

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
    Conditioned,
    Kernel,
    Noise,
    Process,
    conditioned,
    factored,
    lengths_apart,
    log_deleted,
)


@dataclass(frozen=True)
class ProcessSettings:
    """Constants of the fit.

    Attributes:
        grows: whether changes may grow with the number deleted.
        most_rows: rows up to which all of them decide the kernel. An evaluation of the likelihood
            takes time with the cube of the rows.
        sampled_rows: rows that decide it where there are more; all are conditioned on.
        steps: evaluations of the likelihood, at most.
        memory: steps that the search remembers.
        pull: how strongly each unit's logarithms are drawn to their mean; keeps units that hardly
            any row deletes from running off.
        mean_pull: how strongly these means are drawn to their start.
        hold: how strongly the numbers that all units share are drawn to their start.
        lowest: of all logarithms. Less is nothing.
        highest: of all logarithms. More makes matrices singular.
    """

    grows: bool = False
    most_rows: int = 1_500
    sampled_rows: int = 1_000
    steps: int = 40
    memory: int = 20
    pull: float = 0.01
    mean_pull: float = 0.01
    hold: float = 0.0
    lowest: float = -16.0
    highest: float = 8.0


# The peer that nothing is to be behind.
CEILING = ProcessSettings(pull=0.1)


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
    changes = Changes.of(counts[deleting], (outputs - full)[deleting])
    kernel, noise = fit_kernel(changes, CEILING, generator)
    return changes.seen_by(kernel, noise, full).process


@dataclass(frozen=True)
class Changes:
    """Rows with what they change.

    Attributes:
        rows: (m, n), each of which deletes something.
        changes: (m, C), against the whole text.
        scale: (C,), the root of each column's mean square; 1 where nothing changes.
    """

    rows: Tensor
    changes: Tensor
    scale: Tensor

    @classmethod
    def of(cls, rows: Tensor, changes: Tensor) -> Changes:
        """Rows (m, n) with changes (m, C)."""
        scale = changes.pow(2).mean(dim=0).sqrt()
        return cls(rows, changes, torch.where(scale > 0, scale, torch.ones_like(scale)))

    @property
    def scaled(self) -> Tensor:
        """The changes, each column with mean square 1."""
        return self.changes / self.scale

    def seen_by(self, kernel: Kernel, noise: Noise, full: Tensor) -> Conditioned:
        """The process that has seen these rows; ``full`` (C,) is added to what it predicts."""
        return conditioned(kernel, noise, self.rows, self.changes, full, self.scale)

    def some(self, most: int, generator: torch.Generator | None) -> Changes:
        """So many of these rows at most, drawn at random."""
        if len(self.rows) <= most:
            return self
        drawn = torch.randperm(len(self.rows), generator=generator)[:most].to(self.rows.device)
        return Changes(self.rows[drawn], self.changes[drawn], self.scale)


def fit_kernel(
    changes: Changes,
    settings: ProcessSettings,
    generator: torch.Generator | None = None,
    near: tuple[Kernel, Noise] | None = None,
) -> tuple[Kernel, Noise]:
    """The kernel and the noise under which the changes are most likely.

    Args:
        changes: of rows.
        settings: how to search.
        generator: chooses rows, where there are many; on the CPU.
        near: where to begin the search, if something like it is known.
    """
    if len(changes.rows) > settings.most_rows:
        changes = changes.some(settings.sampled_rows, generator)
    likelihood = _Likelihood(changes.rows, changes.scaled, settings)
    begin = likelihood.start if near is None else _numbers(*near)
    return _parts(_likeliest(likelihood, begin, settings), changes.rows.shape[1])


class _Likelihood:
    """How unlikely changes are under a kernel, and the derivative by its numbers.

    Args:
        rows: (m, n).
        changes: (m, C), of mean square 1.
        settings: the pulls, and whether changes grow.

    Attributes:
        start: where the search begins, (2 n + 6,).
    """

    def __init__(self, rows: Tensor, changes: Tensor, settings: ProcessSettings) -> None:
        self._changes, self._settings = changes, settings
        self._rows = torch.cat([rows, rows.new_ones(1, rows.shape[1])])  # the whole text last
        self._apart = lengths_apart(self._rows, self._rows)
        self._deleted = log_deleted(rows)
        units = rows.shape[1]
        self._log_grown = ((units - self._rows.sum(dim=1) + 1) / (units + 1)).log()
        self.start = _growing_start(rows, changes) if settings.grows else _start(rows)

    def __call__(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the logarithm of the likelihood per column, with the pull, (), and its slope."""
        kept = numbers.clamp(self._settings.lowest, self._settings.highest)
        units, columns = self._rows.shape[1], self._changes.shape[1]
        kernel, noise = _parts(kept, units)
        grown = torch.exp(kernel.growth * self._log_grown)
        larger = grown[:, None] * grown
        product = kernel.product(self._rows, self._rows) * larger
        length = kernel.length_level * torch.exp(-kernel.length_reach * self._apart) * larger
        joint = product + kernel.sum(self._rows, self._rows) + length
        share = joint[:-1, -1] / joint[-1, -1]
        matrix = joint[:-1, :-1] - share[:, None] * joint[-1, :-1]
        spread = noise.base * torch.exp(noise.power * self._deleted)
        matrix.diagonal().mul_(1 + JITTER).add_(spread)
        factor = factored(matrix)
        weights = torch.cholesky_solve(self._changes, factor)
        loss = (self._changes * weights).sum() / (2 * columns) + factor.diagonal().log().sum()
        # The derivative by the matrix, and then by the kernel of all rows: the matrix is
        # P joint P' with P = [1, -share], and so is its change where the kernel changes.
        inner = (torch.cholesky_inverse(factor) - weights @ weights.T / columns) / 2
        of_noise = inner.diagonal() * spread
        inner.diagonal().mul_(1 + JITTER)
        carried = inner @ share
        outer = torch.cat([inner, -carried[None]])
        outer = torch.cat([outer, torch.cat([-carried, (share @ carried)[None]])[:, None]], dim=1)
        slope = self._slope(kernel, outer, outer * product, outer * length)
        slope = torch.cat([slope, torch.stack([of_noise.sum(), of_noise @ self._deleted])])
        pull, pulled = self._pull(kept, units)
        inside = (numbers == kept).to(slope)
        return loss + pull, (slope + pulled) * inside

    def _slope(self, kernel: Kernel, outer: Tensor, product: Tensor, length: Tensor) -> Tensor:
        """The derivative by the kernel's numbers, (2 n + 4,).

        Args:
            kernel: where.
            outer: (m + 1, m + 1), the derivative by the kernel of all rows.
            product: outer times the part of interactions, entry by entry.
            length: outer times the part of lengths.
        """
        rows, missing = self._rows, 1 - self._rows
        apart = 2 * (product.sum(dim=1) @ rows - (rows * (product @ rows)).sum(dim=0))
        missed = (missing * (outer @ missing)).sum(dim=0)
        growth = 2 * (product + length).sum(dim=1) @ self._log_grown
        if not self._settings.grows:
            growth = torch.zeros_like(growth)
        reach = -kernel.length_reach * (length * self._apart).sum()
        last = torch.stack([product.sum(), length.sum(), reach, growth])
        return torch.cat([-kernel.reaches * apart, kernel.slopes * missed, last])

    def _pull(self, numbers: Tensor, units: int) -> tuple[Tensor, Tensor]:
        """What draws units to each other and everything to its start, (), and its slope."""
        settings, pull, slope = self._settings, numbers.new_zeros(()), torch.zeros_like(numbers)
        for part in (slice(0, units), slice(units, 2 * units)):
            logarithms = numbers[part]
            away = logarithms - logarithms.mean()
            moved = logarithms.mean() - self.start[part].mean()
            pull = pull + settings.pull * (away**2).sum() + settings.mean_pull * moved**2
            slope[part] = 2 * settings.pull * away + 2 * settings.mean_pull * moved / units
        moved = numbers[2 * units :] - self.start[2 * units :]
        slope[2 * units :] = 2 * settings.hold * moved
        return pull + settings.hold * (moved**2).sum(), slope


def _start(rows: Tensor) -> Tensor:
    """Where the search begins, for changes of mean square 1 that do not grow: (2 n + 6,)."""
    units = rows.shape[1]
    start = torch.full((2 * units + 6,), -math.log(units), dtype=rows.dtype, device=rows.device)
    start[2 * units :] = torch.tensor([0.0, math.log(0.1), 0.0, 0.0, math.log(0.02), 0.0])
    return start


def _growing_start(rows: Tensor, changes: Tensor) -> Tensor:
    """The same for changes that grow, (2 n + 6,): how they do is seen at once.

    Half of the variance of a few deletions is laid to single units and half of all variance to
    interactions, a thirtieth to lengths and a twentieth to noise.
    """
    units = rows.shape[1]
    level, power = _growth(rows, changes)
    few = level + power * math.log(6 / (units + 1))  # log variance with five deleted
    last = [
        level + math.log(0.5),
        level + math.log(0.03),
        0.0,
        power / 2,
        level + math.log(0.05) - power * math.log(units + 1),
        power * math.log(units + 1),
    ]
    start = rows.new_full((2 * units + 6,), -math.log(units))
    start[units : 2 * units] = few + math.log(0.1)
    start[2 * units :] = rows.new_tensor(last)
    return start


def _growth(rows: Tensor, changes: Tensor) -> tuple[float, float]:
    """Fits ``log E y^2 = level + power log((d + 1) / (n + 1))``, with d units deleted.

    Squares are taken for exponential variables of that mean. For a given power, the likeliest
    level is known; the power is the likeliest of ``_POWERS``.
    """
    units = rows.shape[1]
    logarithms = ((units - rows.sum(dim=1) + 1) / (units + 1)).log()
    squares = changes.pow(2).mean(dim=1)
    powers = torch.linspace(*_POWERS).to(logarithms)
    scaled = squares * torch.exp(-powers[:, None] * logarithms)  # (powers, m)
    levels = scaled.mean(dim=1).clamp(min=_TINY).log()
    best = int((levels + powers * logarithms.mean()).argmin())
    return float(levels[best]), float(powers[best])


_POWERS = (0.0, 8.0, 81)  # of the mean square: from, to, how many; independent units give 1
_TINY = 1e-12


def _parts(numbers: Tensor, units: int) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (2 n + 6,)."""
    *logarithms, growth, base, power = numbers[2 * units :]
    level, length_level, length_reach = (number.exp() for number in logarithms)
    each = numbers[: 2 * units].exp()
    kernel = Kernel(each[:units], each[units:], level, length_level, length_reach, growth)
    return kernel, Noise(base.exp(), power)


def _numbers(kernel: Kernel, noise: Noise) -> Tensor:
    """The inverse of ``_parts``."""
    logarithms = [kernel.level.log(), kernel.length_level.log(), kernel.length_reach.log()]
    last = torch.stack([*logarithms, kernel.growth, noise.base.log(), noise.power])
    return torch.cat([kernel.reaches.log(), kernel.slopes.log(), last])


def _likeliest(likelihood: _Likelihood, begin: Tensor, settings: ProcessSettings) -> Tensor:
    """The numbers (2 n + 6,) that L-BFGS finds within so many evaluations."""
    numbers = torch.nn.Parameter(begin.clone())
    search: Any = torch.optim.LBFGS(
        [numbers],
        max_iter=settings.steps,
        max_eval=settings.steps,
        history_size=settings.memory,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        loss, slope = likelihood(numbers.detach())
        numbers.grad = slope
        return loss

    search.step(closure)
    return numbers.detach().clamp(settings.lowest, settings.highest)
