"""Finds the likeliest kernel of a Gaussian process: Fisher's scoring.

What it has to do: minimise the loss of a ``Likelihood`` and a pull of each unit's numbers to a
common one, over the 2 n + 7 numbers of the kernel and its noise.

Why it is done this way: a step solves with the curvature that is expected, which knows how numbers
of different kinds depend on each other. Six or seven evaluations find what L-BFGS finds in twenty.
A step that does not help is shortened; only where it helps is the slope worked out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.likelihood import SHARED, Likelihood

_MOST_DENSE = 2_000  # numbers up to which the curvature is a table
_LONGEST = 4.0  # of a step, in any number
_LEAST_GAIN = 1e-4  # of a step, relative to what its slope promises
_RIDGE = 1e-6  # of the curvature, relative
_TINY = 1e-8
_ROUNDS = 50  # of conjugate gradients, where there is no table


@dataclass(frozen=True)
class Pull:
    """What draws the numbers of a kernel to where they start, and those of units to each other.

    Attributes:
        start: (2 n + 7,).
        units: how strongly each unit's numbers are drawn to their mean.
        means: how strongly these means are drawn to their start.
        shared: how strongly the numbers that all units share are drawn to their start.
    """

    start: Tensor
    units: float
    means: float
    shared: float

    def slope(self, numbers: Tensor) -> Tensor:
        """Of what it adds, (2 n + 7,)."""
        return self.curved(numbers - self.start)

    def loss(self, numbers: Tensor) -> float:
        """What it adds."""
        moved = numbers - self.start
        return float(moved @ self.curved(moved)) / 2

    def curved(self, moved: Tensor) -> Tensor:
        """Its curvature times a vector (2 n + 7,)."""
        each = moved[:-SHARED].reshape(2, -1)  # of reaches and of slopes
        mean = each.mean(dim=1, keepdim=True)
        of_units = self.units * (each - mean) + self.means * mean / each.shape[1]
        return 2 * torch.cat([of_units.flatten(), self.shared * moved[-SHARED:]])

    def added_to(self, curvature: Tensor) -> Tensor:
        """A table of curvatures (2 n + 7, 2 n + 7) with its own, in place."""
        units = (len(curvature) - SHARED) // 2
        for part in (slice(0, units), slice(units, 2 * units)):
            curvature[part, part] += 2 * (self.means / units - self.units) / units
        diagonal = curvature.diagonal()
        diagonal[:-SHARED] += 2 * self.units
        diagonal[-SHARED:] += 2 * self.shared
        return curvature


def likeliest(
    likelihood: Likelihood,
    begin: Tensor,
    pull: Pull,
    evaluations: int,
    bounds: tuple[float, float],
    held: Tensor,
) -> Tensor:
    """The numbers (2 n + 7,) of the least loss that is found.

    Args:
        likelihood: of the changes.
        begin: where the search begins.
        pull: what is added.
        evaluations: of the likelihood, at most.
        bounds: of all numbers, lowest and highest.
        held: (2 n + 7,), which numbers stay as they are.
    """
    numbers = begin.clamp(*bounds)
    here = likelihood.at(numbers)
    loss, length = here.loss + pull.loss(numbers), 1.0
    slope: Tensor | None = None
    for _ in range(evaluations - 1):
        if slope is None:
            slope = (here.slope + pull.slope(numbers)).masked_fill(held, 0.0)
            step = -_solved(here.roots.masked_fill(held, 0.0), pull, slope)
            gain = float(slope @ step)
            length = min(1.0, _LONGEST / (float(step.abs().max()) + _TINY))
        tried = (numbers + length * step).clamp(*bounds)
        there = likelihood.at(tried)
        new = there.loss + pull.loss(tried)
        if new <= loss + _LEAST_GAIN * length * gain:
            numbers, here, loss, slope = tried, there, new, None
        else:
            length *= _shorter(new - loss, length * gain)
    return numbers


def _shorter(rise: float, gain: float) -> float:
    """The part of a step to try next: where a parabola through what is known is lowest.

    Args:
        rise: of the loss with the step.
        gain: what the slope promised, below 0.
    """
    bend = rise - gain
    return min(0.5, max(0.1, -gain / (2 * bend))) if bend > 0 else 0.3


def _solved(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The curvature's inverse times the slope, (2 n + 7,).

    Args:
        roots: (p m, 2 n + 7), of the likelihood's curvature.
        pull: has one of its own.
        slope: (2 n + 7,).
    """
    if len(slope) > _MOST_DENSE:
        return _solved_in_rounds(roots, pull, slope)
    curvature = pull.added_to(roots.T @ roots)
    curvature.diagonal().mul_(1 + _RIDGE).add_(_TINY)
    factor = torch.linalg.cholesky(curvature)
    return torch.cholesky_solve(slope[:, None], factor)[:, 0]


def _solved_in_rounds(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The same by conjugate gradients, as nearly as a search needs it."""
    scale = (roots**2).sum(dim=0) + 2 * max(pull.units, pull.shared) + _TINY
    solved, left = torch.zeros_like(slope), slope
    direction = left / scale
    size = left @ direction
    for _ in range(_ROUNDS):
        curved = roots.T @ (roots @ direction) + pull.curved(direction) + _TINY * direction
        step = size / (direction @ curved + _TINY**2)
        solved = solved + step * direction
        left = left - step * curved
        before, size = size, left @ (left / scale)
        direction = left / scale + size / (before + _TINY**2) * direction
    return solved
