"""Fits a Gaussian process: the kernel under which answers are likeliest, and what rows tell it.

``likelihood`` says how likely answers are. Fisher's scoring minimises its loss and a pull of each
unit's numbers to a common one, over the 2 n + 5 numbers of the kernel and its noise: a step solves
with the curvature that is expected, which knows how numbers of different kinds depend on each
other. Six or seven evaluations find what L-BFGS finds in twenty. A step that does not help is
shortened; only where it helps is the slope worked out.

With the kernel K of the rows, held at 0 for the whole text and with the noise on its diagonal, the
changes y of the rows have the weights K^-1 y.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.likelihood import (
    JITTER,
    SHARED,
    Changes,
    Evaluated,
    Likelihood,
    factored,
    parts,
)
from slalom_xai.surrogates.process import Kernel, Noise, Process, packed_rows


@dataclass(frozen=True)
class ProcessSettings:
    """Constants of the fit.

    Attributes:
        most_rows: rows up to which all of them decide the kernel. An evaluation of the likelihood
            takes time with the cube of the rows.
        sampled_rows: rows that decide it where there are more; all are conditioned on.
        steps: evaluations of the likelihood, at most.
        pull: how strongly each unit's logarithms are drawn to their mean; keeps units that hardly
            any row deletes from running off.
        mean_pull: how strongly these means are drawn to their start.
        lowest: of all logarithms. Less is nothing.
        highest: of all logarithms. More makes matrices singular.
    """

    most_rows: int = 1_500
    sampled_rows: int = 1_000
    steps: int = 15
    pull: float = 0.1
    mean_pull: float = 0.01
    lowest: float = -16.0
    highest: float = 8.0


PROCESS = ProcessSettings()

_MOST_DENSE = 2_000  # numbers up to which the curvature is a table
_LONGEST = 4.0  # of a step, in any number
_LEAST_GAIN = 1e-4  # of a step, relative to what its slope promises
_RIDGE = 1e-6  # of the curvature, relative
_TINY = 1e-8
_ROUNDS = 50  # of conjugate gradients, where there is no table


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
    deciding = changes
    if len(changes.rows) > PROCESS.most_rows:
        deciding = changes.some(PROCESS.sampled_rows, generator)
    numbers = likeliest(Likelihood(deciding), start_numbers(counts), PROCESS.steps)
    return conditioned(*parts(numbers, counts.shape[1]), changes, full)


def conditioned(kernel: Kernel, noise: Noise, changes: Changes, full: Tensor) -> Process:
    """The process after it has seen rows.

    Args:
        kernel: how alike rows are.
        noise: what they do not share.
        changes: of the rows.
        full: (C,), added to predicted changes.
    """
    rows = changes.rows
    matrix = kernel.anchored(rows, rows)
    matrix.diagonal().mul_(1 + JITTER).add_(noise.of(rows))
    weights = torch.cholesky_solve(changes.scaled, factored(matrix)) * changes.scale
    # The whole text's weight brings its own prediction to 0.
    share = kernel.with_whole(rows) / (kernel.level + kernel.length_level)
    weights = torch.cat([weights, -(share[None] @ weights)])
    packed = packed_rows(torch.cat([rows, rows.new_ones(1, rows.shape[1])]))
    return Process(packed, weights, full, *vars(kernel).values())


def start_numbers(rows: Tensor) -> Tensor:
    """Where the search begins, for rows (m, n) and changes of mean square 1: (2 n + 5,)."""
    units = rows.shape[1]
    shared = torch.tensor([0.0, math.log(0.1), 0.0, math.log(0.02), 0.0])
    start = rows.new_full((2 * units + SHARED,), -math.log(units))
    start[2 * units :] = shared
    return start


@dataclass(frozen=True)
class Pull:
    """What draws the numbers of units to each other, and their means to where they start.

    Attributes:
        start: (2 n + 5,).
    """

    start: Tensor

    def slope(self, numbers: Tensor) -> Tensor:
        """Of what it adds, (2 n + 5,)."""
        return self.curved(numbers - self.start)

    def loss(self, numbers: Tensor) -> Tensor:
        """What it adds, ()."""
        moved = numbers - self.start
        return moved @ self.curved(moved) / 2

    def curved(self, moved: Tensor) -> Tensor:
        """Its curvature times a vector (2 n + 5,)."""
        each = moved[:-SHARED].reshape(2, -1)  # of reaches and of slopes
        mean = each.mean(dim=1, keepdim=True)
        of_units = PROCESS.pull * (each - mean) + PROCESS.mean_pull * mean / each.shape[1]
        return 2 * torch.cat([of_units.flatten(), torch.zeros_like(moved[-SHARED:])])

    def added_to(self, curvature: Tensor) -> Tensor:
        """A table of curvatures (2 n + 5, 2 n + 5) with its own, in place."""
        units = (len(curvature) - SHARED) // 2
        for part in (slice(0, units), slice(units, 2 * units)):
            curvature[part, part] += 2 * (PROCESS.mean_pull / units - PROCESS.pull) / units
        curvature.diagonal()[:-SHARED] += 2 * PROCESS.pull
        return curvature


def likeliest(likelihood: Likelihood, start: Tensor, evaluations: int) -> Tensor:
    """The numbers (2 n + 5,) of the least loss that is found.

    Args:
        likelihood: of the changes.
        start: where the search begins, and what the numbers are drawn to.
        evaluations: of the likelihood, at most.
    """
    pull = Pull(start)
    numbers = start.clamp(PROCESS.lowest, PROCESS.highest)
    here = likelihood.at(numbers)
    loss = here.loss + pull.loss(numbers)
    if evaluations < 2:
        return numbers
    step, gain, length = _step(here, numbers, pull)
    for left in range(evaluations - 2, -1, -1):
        tried = (numbers + length * step).clamp(PROCESS.lowest, PROCESS.highest)
        there = likelihood.at(tried)
        rise = there.loss + pull.loss(tried) - loss
        if rise <= _LEAST_GAIN * length * gain:
            numbers, loss = tried, loss + rise
            if left:
                step, gain, length = _step(there, tried, pull)
            continue
        bend = rise - length * gain  # of a parabola through what is known
        part = (-length * gain / (2 * bend)).clamp(0.1, 0.5) if bend > 0 else 0.3
        length = length * part
    return numbers


def _step(here: Evaluated, numbers: Tensor, pull: Pull) -> tuple[Tensor, Tensor, Tensor]:
    """The step (2 n + 5,), what its slope promises of the loss, below 0, and the part to try."""
    slope = here.slope + pull.slope(numbers)
    step = -solved(here.roots, pull, slope)
    return step, slope @ step, (_LONGEST / (step.abs().max() + _TINY)).clamp(max=1.0)


def solved(roots: Tensor, pull: Pull, slope: Tensor, dense: int = _MOST_DENSE) -> Tensor:
    """The curvature's inverse times the slope, (2 n + 5,).

    Args:
        roots: (p m, 2 n + 5), of the likelihood's curvature.
        pull: has one of its own.
        slope: (2 n + 5,).
        dense: numbers up to which the curvature is written out.
    """
    if len(slope) > dense:
        return _solved_in_rounds(roots, pull, slope)
    curvature = pull.added_to(roots.T @ roots)
    curvature.diagonal().mul_(1 + _RIDGE).add_(_TINY)
    factor = torch.linalg.cholesky(curvature)
    return torch.cholesky_solve(slope[:, None], factor)[:, 0]


def _solved_in_rounds(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The same by conjugate gradients, as nearly as a search needs it."""
    scale = (roots**2).sum(dim=0) + 2 * PROCESS.pull + _TINY
    found, left = torch.zeros_like(slope), slope
    direction = left / scale
    size = left @ direction
    for _ in range(_ROUNDS):
        curved = roots.T @ (roots @ direction) + pull.curved(direction) + _TINY * direction
        step = size / (direction @ curved + _TINY**2)
        found = found + step * direction
        left = left - step * curved
        before, size = size, left @ (left / scale)
        direction = left / scale + size / (before + _TINY**2) * direction
    return found
