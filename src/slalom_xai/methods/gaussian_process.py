"""The ceiling: how much of what deletions do can be learnt from as many calls.

A Gaussian process predicts rows from rows that are like them (``process``). It knows
interactions of every order and explains nothing. It says what there was to learn, so that an
explanation can be measured by it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.methods.base import Estimator, Findings, register
from slalom_xai.methods.evidence import gather
from slalom_xai.methods.held_out import measure
from slalom_xai.methods.process import Kernel, Noise, Process, log_deleted, pack_rows
from slalom_xai.queries import Queries

# How unlikely changes are under the kernel of a Gaussian process, with its derivatives.
#
# What it has to do: for the 2 n + 5 numbers of a ``Kernel`` and its ``Noise``, work out
#
#     y' K^-1 y / 2  +  log |K| / 2
#
# where K is the kernel of the asked rows, held at 0 for the whole text, with the noise. Several
# columns share the kernel, and the first term is their mean. The numbers are logarithms, but for
# the power of the noise, which is itself.
#
# Why it is done this way: the derivatives are written out, so the loss costs one factorisation
# and its slope one inverse. Everything else is kept to a few passes over (m, m) numbers: the
# whole text is not one more row but a few vectors, and what the numbers of units kept decide is
# summed up in a table of these numbers. The curvature is the one that is expected (Fisher's
# information),
#
#     F_jk = trace(K^-1 K_j K^-1 K_k) / 2  =  E (W_j z)' (W_k z) / 2,     W_j = L^-1 K_j L'^-1,
#
# with K_j the derivative by number j, the factor L of K and random signs z. A few z are enough:
# each costs a few products of K with (m, n) numbers.
#
# Shapes: m rows, n units, C columns (explained outputs), p vectors of signs.


SHARED = 5  # numbers that all units share, the last of all
# A row's variance is held to be larger by this part of it. Without noise, rows that are alike would
# otherwise make a matrix singular, and predictions run off.
JITTER = 1e-6
_MOST_JITTER = 1e-2  # a matrix that needs more is damaged
_SIGNS = 4  # vectors of random signs


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

    def some(self, most: int, generator: torch.Generator | None) -> Changes:
        """So many of these rows at most, drawn at random."""
        if len(self.rows) <= most:
            return self
        drawn = torch.randperm(len(self.rows), generator=generator)[:most].to(self.rows.device)
        return replace(self, rows=self.rows[drawn], changes=self.changes[drawn])


class Likelihood:
    """Minus the logarithm of the likelihood of changes, per column.

    Args:
        changes: of the rows.

    Attributes:
        rows: (m, n).
        changes: (m, C), of mean square 1.
        missing: (m, n), 1 - rows.
        kept: (m,), the numbers of units kept.
        by_number: (m, n + 1), 1 at the number kept.
        deleted: (m,), the logarithms that the noise depends on.
        apart: (n + 1, n + 1), how far the logarithms of numbers kept, plus one, lie apart.
        signs: (m, p), random signs.
    """

    def __init__(self, changes: Changes) -> None:
        rows = changes.rows
        units = rows.shape[1]
        self.rows, self.changes = rows, changes.scaled
        self.missing, self.kept = 1 - rows, rows.sum(dim=1).long()
        self.by_number = torch.nn.functional.one_hot(self.kept, units + 1).to(rows)
        self.deleted = log_deleted(rows)
        numbers = torch.arange(units + 1, device=rows.device).to(rows)
        self.apart = ((numbers[:, None] + 1).log() - (numbers + 1).log()).abs()
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(2, (len(rows), _SIGNS), generator=generator)
        self.signs = (2 * signs - 1).to(rows)

    def at(self, numbers: Tensor) -> Evaluated:
        """Here, for numbers (2 n + 5,)."""
        return Evaluated(self, numbers)


class Evaluated:
    """The likelihood for certain numbers of the kernel; derivatives are worked out when asked for.

    Args:
        given: the rows.
        numbers: (2 n + 5,).

    Attributes:
        loss: (), minus the logarithm of the likelihood.
    """

    def __init__(self, given: Likelihood, numbers: Tensor) -> None:
        self._given = given
        units = given.rows.shape[1]
        self._kernel, noise = parts(numbers, units)
        kernel = self._kernel
        # (n + 1, n + 1), the part of lengths for all numbers kept
        self._lengths = kernel.length_level * torch.exp(-kernel.length_reach * given.apart)
        self._product = kernel.interactions(given.rows, given.rows)
        self._with_whole = kernel.level * torch.exp(-(given.missing @ kernel.reaches))  # (m,)
        column = self._with_whole + self._lengths[given.kept, units]
        self._share = column / (kernel.level + self._lengths[units, units])
        matrix = self._lengths.index_select(1, given.kept).index_select(0, given.kept)
        left = torch.cat([given.missing * kernel.slopes, -self._share[:, None]], dim=1)
        right = torch.cat([given.missing, column[:, None]], dim=1)
        matrix.add_(self._product).add_(left @ right.T)
        self._spread = noise.base * torch.exp(noise.power * given.deleted)
        matrix.diagonal().mul_(1 + JITTER).add_(self._spread)
        self._factor = compute_cholesky(matrix)
        self._weights = torch.cholesky_solve(given.changes, self._factor)
        square = (given.changes * self._weights).sum() / (2 * given.changes.shape[1])
        self.loss: Tensor = square + self._factor.diagonal().log().sum()

    @functools.cached_property
    def slope(self) -> Tensor:
        """The derivative, (2 n + 5,)."""
        given, kernel, units = self._given, self._kernel, self._given.rows.shape[1]
        # Twice the derivative by the matrix, and then by the kernel with the whole text: the
        # matrix is P joint P' with P = [1, -share], and so is its change where the kernel changes.
        inner = torch.cholesky_inverse(self._factor)
        inner.sub_((self._weights / given.changes.shape[1]) @ self._weights.T)
        of_noise = inner.diagonal() * self._spread
        inner.diagonal().mul_(1 + JITTER)
        carried = inner @ self._share
        corner = self._share @ carried
        # Of interactions.
        product = self._product * inner
        of_rows, total = product @ given.rows, product.sum(dim=1)
        with_whole, whole = -carried * self._with_whole, corner * kernel.level
        apart = (given.rows * (total[:, None] - of_rows)).sum(dim=0) + with_whole @ given.missing
        # Of single units and of lengths.
        summed = inner @ torch.cat([given.missing, given.by_number], dim=1)
        missed = (given.missing * summed[:, :units]).sum(dim=0)
        lengths = given.by_number.T @ summed[:, units:]
        by_whole = -(carried @ given.by_number)
        lengths[:, units] += by_whole
        lengths[units] += by_whole
        lengths[units, units] += corner
        lengths.mul_(self._lengths)
        reach = -(kernel.length_reach * lengths * given.apart).sum()
        level = total.sum() + 2 * with_whole.sum() + whole
        noise = of_noise.sum(), (of_noise * given.deleted).sum()
        shared = torch.stack([level, lengths.sum(), reach, *noise])
        return torch.cat([-2 * kernel.reaches * apart, kernel.slopes * missed, shared]) / 2

    @functools.cached_property
    def roots(self) -> Tensor:
        """A table (p m, 2 n + 5) whose columns W z have the curvature as inner products."""
        given, factor = self._given, self._factor
        shown = torch.linalg.solve_triangular(factor.T, given.signs, upper=True)  # (m, p)
        changed = self._changed(shown, -(self._share @ shown))
        solved = torch.linalg.solve_triangular(factor, changed.flatten(1), upper=False)
        solved = solved.reshape(changed.shape)
        single = torch.linalg.solve_triangular(factor, given.missing, upper=False)  # (m, n)
        units = (given.signs.T @ single) * (self._kernel.slopes * single)[:, None]
        roots = torch.cat([solved[..., :-SHARED], units, solved[..., -SHARED:]], dim=2)
        return roots.flatten(0, 1) / math.sqrt(2 * shown.shape[1])

    def _changed(self, shown: Tensor, whole: Tensor) -> Tensor:
        """The derivatives of K times vectors, by all but single units' numbers, (m, p, n + 5).

        Args:
            shown: (m, p), the vectors.
            whole: (p,), what they have for the whole text.
        """
        given, kernel, units = self._given, self._kernel, self._given.rows.shape[1]
        # Products with what a row keeps of each unit, and with 1.
        table = torch.cat([given.rows, torch.ones_like(given.rows[:, :1])], dim=1)
        table = table[:, None] * shown[..., None]  # (m, p, n + 1)
        last = whole[:, None].expand(-1, units + 1)
        flat, with_whole = table.flatten(1), self._with_whole[:, None]
        product = (self._product @ flat).add_(with_whole * last.flatten()).reshape(table.shape)
        of_all = (with_whole.T @ flat).reshape(last.shape) + kernel.level * last
        kept, total = product[..., :units], product[..., units]
        rows = given.rows[:, None]
        reaches = (1 - 2 * rows) * kept + rows * total[..., None]
        by_number = given.by_number.T @ shown  # (n + 1, p)
        by_number[units] += whole
        lengths = self._lengths @ by_number
        reach = -kernel.length_reach * ((self._lengths * given.apart) @ by_number)
        shared = torch.stack([total, lengths[given.kept], reach[given.kept]], dim=2)
        changed = torch.cat([-kernel.reaches * reaches, shared], dim=2)
        shared_of_all = torch.stack([of_all[:, units], lengths[units], reach[units]], dim=1)
        reaches_of_all = -kernel.reaches * (of_all[:, units, None] - of_all[:, :units])
        change_of_all = torch.cat([reaches_of_all, shared_of_all], dim=1)
        changed = changed - self._share[:, None, None] * change_of_all
        noise = self._spread[:, None] * shown
        powers = noise * given.deleted[:, None]
        return torch.cat([changed, noise[..., None], powers[..., None]], dim=2)


def parts(numbers: Tensor, units: int) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (2 n + 5,)."""
    *logarithms, power = numbers[2 * units :].unbind()
    level, length_level, length_reach, base = (number.exp() for number in logarithms)
    each = numbers[: 2 * units].exp()
    kernel = Kernel(each[:units], each[units:], level, length_level, length_reach)
    return kernel, Noise(base, power)


def compute_cholesky(matrix: Tensor) -> Tensor:
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


# Fits a Gaussian process: the kernel under which answers are likeliest, and what rows tell it.
#
# ``Likelihood`` says how likely answers are. Fisher's scoring minimises its loss and a pull of
# each unit's numbers to a common one, over the 2 n + 5 numbers of the kernel and its noise: a
# step solves with the curvature that is expected, which knows how numbers of different kinds
# depend on each other. Six or seven evaluations find what L-BFGS finds in twenty. A step that
# does not help is shortened; only where it helps is the slope worked out.
#
# With the kernel K of the rows, held at 0 for the whole text and with the noise on its diagonal,
# the changes y of the rows have the weights K^-1 y.
#
# Shapes: m rows, n units, C columns (explained outputs).


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
    numbers = find_mode(Likelihood(deciding), start_numbers(counts), PROCESS.steps)
    return condition(*parts(numbers, counts.shape[1]), changes, full)


def condition(kernel: Kernel, noise: Noise, changes: Changes, full: Tensor) -> Process:
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
    weights = torch.cholesky_solve(changes.scaled, compute_cholesky(matrix)) * changes.scale
    # The whole text's weight brings its own prediction to 0.
    share = kernel.with_whole(rows) / (kernel.level + kernel.length_level)
    weights = torch.cat([weights, -(share[None] @ weights)])
    packed = pack_rows(torch.cat([rows, rows.new_ones(1, rows.shape[1])]))
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
        return self.multiply_curvature(numbers - self.start)

    def loss(self, numbers: Tensor) -> Tensor:
        """What it adds, ()."""
        moved = numbers - self.start
        return moved @ self.multiply_curvature(moved) / 2

    def multiply_curvature(self, moved: Tensor) -> Tensor:
        """Its curvature times a vector (2 n + 5,)."""
        each = moved[:-SHARED].reshape(2, -1)  # of reaches and of slopes
        mean = each.mean(dim=1, keepdim=True)
        of_units = PROCESS.pull * (each - mean) + PROCESS.mean_pull * mean / each.shape[1]
        return 2 * torch.cat([of_units.flatten(), torch.zeros_like(moved[-SHARED:])])

    def add_to(self, curvature: Tensor) -> Tensor:
        """A table of curvatures (2 n + 5, 2 n + 5) with its own, in place."""
        units = (len(curvature) - SHARED) // 2
        for part in (slice(0, units), slice(units, 2 * units)):
            curvature[part, part] += 2 * (PROCESS.mean_pull / units - PROCESS.pull) / units
        curvature.diagonal()[:-SHARED] += 2 * PROCESS.pull
        return curvature


def find_mode(likelihood: Likelihood, start: Tensor, evaluations: int) -> Tensor:
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
    step = -solve_step(here.roots, pull, slope)
    return step, slope @ step, (_LONGEST / (step.abs().max() + _TINY)).clamp(max=1.0)


def solve_step(roots: Tensor, pull: Pull, slope: Tensor, dense: int = _MOST_DENSE) -> Tensor:
    """The curvature's inverse times the slope, (2 n + 5,).

    Args:
        roots: (p m, 2 n + 5), of the likelihood's curvature.
        pull: has one of its own.
        slope: (2 n + 5,).
        dense: numbers up to which the curvature is written out.
    """
    if len(slope) > dense:
        return _solve_in_rounds(roots, pull, slope)
    curvature = pull.add_to(roots.T @ roots)
    curvature.diagonal().mul_(1 + _RIDGE).add_(_TINY)
    factor = torch.linalg.cholesky(curvature)
    return torch.cholesky_solve(slope[:, None], factor)[:, 0]


def _solve_in_rounds(roots: Tensor, pull: Pull, slope: Tensor) -> Tensor:
    """The same by conjugate gradients, as nearly as a search needs it."""
    scale = (roots**2).sum(dim=0) + 2 * PROCESS.pull + _TINY
    found, left = torch.zeros_like(slope), slope
    direction = left / scale
    size = left @ direction
    for _ in range(_ROUNDS):
        curved = (
            roots.T @ (roots @ direction) + pull.multiply_curvature(direction) + _TINY * direction
        )
        step = size / (direction @ curved + _TINY**2)
        found = found + step * direction
        left = left - step * curved
        before, size = size, left @ (left / scale)
        direction = left / scale + size / (before + _TINY**2) * direction
    return found


# The ceiling: how much of what deletions do can be learnt from as many calls.


_NOTE = (
    "A Gaussian process predicts and does not explain: a unit's score is what it predicts for "
    "removing that unit alone."
)


@register
@dataclass(frozen=True)
class GaussianProcess(Estimator):
    """What can be learnt from as many calls, with one score per unit: its predicted removal."""

    name: ClassVar[str] = "gp"
    summary: ClassVar[str] = (
        "the ceiling, which explains nothing: what a Gaussian process learns of deletions from as "
        "many calls"
    )
    combines: ClassVar[bool] = True

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits; rows that other methods choose by are fitted, too."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng).settled
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        rows = evidence.fit
        process = fit_process(rows.table, rows.outputs, evidence.full, generator)
        fidelity = measure(evidence, process)
        return Findings(process, ({},) * len(evidence.full), fidelity, (_NOTE,))
