"""How unlikely changes are under the kernel of a Gaussian process, with its derivatives.

What it has to do: for the 2 n + 5 numbers of a ``Kernel`` and its ``Noise``, work out

    y' K^-1 y / 2  +  log |K| / 2

where K is the kernel of the asked rows, held at 0 for the whole text, with the noise. Several
columns share the kernel, and the first term is their mean. The numbers are logarithms, but for the
power of the noise, which is itself.

Why it is done this way: the derivatives are written out, so the loss costs one factorisation and
its slope one inverse. Everything else is kept to a few passes over (m, m) numbers: the whole text
is not one more row but a few vectors, and what the numbers of units kept decide is summed up in a
table of these numbers. The curvature is the one that is expected (Fisher's information),

    F_jk = trace(K^-1 K_j K^-1 K_k) / 2  =  E (W_j z)' (W_k z) / 2,     W_j = L^-1 K_j L'^-1,

with K_j the derivative by number j, the factor L of K and random signs z. A few z are enough: each
costs a few products of K with (m, n) numbers.

Shapes: m rows, n units, C columns (explained outputs), p vectors of signs.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.process import Kernel, Noise, log_deleted

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
        self._factor = factored(matrix)
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
