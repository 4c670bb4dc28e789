"""Finds the likeliest kernel of a Gaussian process: Fisher's scoring.

What it has to do: minimise the loss of a ``Likelihood`` and a pull of each unit's numbers to a
common one, over the 2 n + 7 numbers of the kernel and its noise.

Why it is done this way: a step solves with the curvature that is expected, which knows how numbers
of different kinds depend on each other. Six or seven evaluations find what L-BFGS finds in twenty.
A step that does not help is shortened; only where it helps is the slope worked out. Several sets of
changes are searched together, each by its own steps.

Shapes: n units, "..." nothing or the number of sets, as in ``likelihood``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.batching import merged
from slalom_xai.surrogates.likelihood import SHARED, Evaluated, Likelihood

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
        start: (..., 2 n + 7).
        units: how strongly each unit's numbers are drawn to their mean.
        means: how strongly these means are drawn to their start.
        shared: how strongly the numbers that all units share are drawn to their start.
    """

    start: Tensor
    units: float
    means: float
    shared: float

    def slope(self, numbers: Tensor) -> Tensor:
        """Of what it adds, (..., 2 n + 7)."""
        return self.curved(numbers - self.start)

    def loss(self, numbers: Tensor) -> Tensor:
        """What it adds, (...)."""
        moved = numbers - self.start
        return (moved * self.curved(moved)).sum(dim=-1) / 2

    def curved(self, moved: Tensor) -> Tensor:
        """Its curvature times a vector (..., 2 n + 7)."""
        of_sets = moved.shape[:-1]
        each = moved[..., :-SHARED].reshape(*of_sets, 2, -1)  # of reaches and of slopes
        mean = each.mean(dim=-1, keepdim=True)
        of_units = self.units * (each - mean) + self.means * mean / each.shape[-1]
        return 2 * torch.cat([of_units.flatten(-2), self.shared * moved[..., -SHARED:]], dim=-1)

    def added_to(self, curvature: Tensor) -> Tensor:
        """A table of curvatures (..., 2 n + 7, 2 n + 7) with its own, in place."""
        units = (curvature.shape[-1] - SHARED) // 2
        for part in (slice(0, units), slice(units, 2 * units)):
            curvature[..., part, part] += 2 * (self.means / units - self.units) / units
        diagonal = curvature.diagonal(dim1=-2, dim2=-1)
        diagonal[..., :-SHARED] += 2 * self.units
        diagonal[..., -SHARED:] += 2 * self.shared
        return curvature


@dataclass(frozen=True)
class _Step:
    """A step to try.

    Attributes:
        whole: (..., 2 n + 7), as the curvature says.
        gain: (...), of the loss by the whole step, as the slope promises; below 0.
        length: (...), the part of it to try.
    """

    whole: Tensor
    gain: Tensor
    length: Tensor

    @classmethod
    def at(cls, here: Evaluated, numbers: Tensor, pull: Pull, held: Tensor) -> _Step:
        """From certain numbers (..., 2 n + 7), of which some are held."""
        slope = (here.slope + pull.slope(numbers)).masked_fill(held, 0.0)
        whole = -_solved(here.roots.masked_fill(held, 0.0), pull, slope)
        length = (_LONGEST / (whole.abs().amax(dim=-1) + _TINY)).clamp(max=1.0)
        return cls(whole, (slope * whole).sum(dim=-1), length)

    def shorter(self, rise: Tensor) -> _Step:
        """The same step, of which less is tried: where a parabola through what is known is lowest.

        Args:
            rise: (...), of the loss with the part that was tried.
        """
        gain = self.length * self.gain
        bend = rise - gain
        part = torch.where(bend > 0, (-gain / (2 * bend)).clamp(0.1, 0.5), 0.3)
        return replace(self, length=self.length * part)


def likeliest(
    likelihood: Likelihood,
    begin: Tensor,
    pull: Pull,
    evaluations: int,
    bounds: tuple[float, float],
    held: Tensor,
) -> Tensor:
    """The numbers (sets, 2 n + 7) of the least loss that is found.

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
    loss = here.loss + pull.loss(numbers)
    if evaluations < 2:
        return numbers
    step = _Step.at(here, numbers, pull, held)
    for left in range(evaluations - 2, -1, -1):
        tried = (numbers + step.length[..., None] * step.whole).clamp(*bounds)
        there = likelihood.at(tried)
        new = there.loss + pull.loss(tried)
        better = new <= loss + _LEAST_GAIN * step.length * step.gain
        shorter = step.shorter(new - loss)
        if left and bool(better.any()):
            shorter = merged(better, _Step.at(there, tried, pull, held), shorter)
        numbers, loss = merged(better, tried, numbers), merged(better, new, loss)
        step = shorter
    return numbers


def _solved(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The curvature's inverse times the slope, (..., 2 n + 7).

    Args:
        roots: (..., p m, 2 n + 7), of the likelihood's curvature.
        pull: has one of its own.
        slope: (..., 2 n + 7).
    """
    if slope.shape[-1] > _MOST_DENSE:
        return _solved_in_rounds(roots, pull, slope)
    curvature = pull.added_to(roots.mT @ roots)
    curvature.diagonal(dim1=-2, dim2=-1).mul_(1 + _RIDGE).add_(_TINY)
    factor = torch.linalg.cholesky(curvature)
    return torch.cholesky_solve(slope[..., None], factor)[..., 0]


def _solved_in_rounds(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The same by conjugate gradients, as nearly as a search needs it."""
    scale = (roots**2).sum(dim=-2) + 2 * max(pull.units, pull.shared) + _TINY
    solved, left = torch.zeros_like(slope), slope
    direction = left / scale
    size = (left * direction).sum(dim=-1, keepdim=True)
    for _ in range(_ROUNDS):
        of_roots = (roots.mT @ (roots @ direction[..., None]))[..., 0]
        curved = of_roots + pull.curved(direction) + _TINY * direction
        step = size / ((direction * curved).sum(dim=-1, keepdim=True) + _TINY**2)
        solved = solved + step * direction
        left = left - step * curved
        before, size = size, (left * (left / scale)).sum(dim=-1, keepdim=True)
        direction = left / scale + size / (before + _TINY**2) * direction
    return solved
