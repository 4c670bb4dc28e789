"""How unlikely changes are under the kernel of a Gaussian process, with its derivatives.

What it has to do: for the 2 n + 7 numbers of a ``Kernel`` and its ``Noise``, work out

    y' K^-1 y / 2  +  log |K| / 2

where K is the kernel of the asked rows, held at 0 for the whole text, with the noise. Several
columns share the kernel, and the first term is their mean. The numbers are logarithms, but for the
two powers, of the growth and of the noise, which are themselves.

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

import torch
from torch import Tensor

from slalom_xai.surrogates.conditioning import JITTER, Changes, factored
from slalom_xai.surrogates.places import alike_in_places
from slalom_xai.surrogates.process import Kernel, Noise, log_deleted

_SIGNS = 4  # vectors of random signs
SHARED = 7  # numbers that all units share, the last of all


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
        log_missing: (n + 1,), the logarithm of what grows, by the number kept.
        places: (m, m), in how many units that have moved rows are alike; None where none moves.
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
        self.log_missing = ((units - numbers + 1) / (units + 1)).log()
        self.places = alike_in_places(rows, rows) if changes.moves else None
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(2, (len(rows), _SIGNS), generator=generator)
        self.signs = (2 * signs - 1).to(rows)

    def at(self, numbers: Tensor) -> Evaluated:
        """Here, for numbers (2 n + 7,)."""
        return Evaluated(self, numbers)


class Evaluated:
    """The likelihood for certain numbers of the kernel; derivatives are worked out when asked for.

    Args:
        given: the rows.
        numbers: (2 n + 7,).

    Attributes:
        loss: minus the logarithm of the likelihood.
    """

    def __init__(self, given: Likelihood, numbers: Tensor) -> None:
        self._given = given
        units = given.rows.shape[1]
        self._kernel, noise = parts(numbers, units)
        kernel = self._kernel
        grown = kernel.growth * given.log_missing
        together = grown[:, None] + grown - kernel.length_reach * given.apart
        self._lengths = kernel.length_level * torch.exp(together)  # (n + 1, n + 1)
        self._product = kernel.interactions(given.rows, given.rows)
        logarithms = grown[given.kept] + grown[units] - given.missing @ kernel.reaches
        self._with_whole = kernel.level * torch.exp(logarithms)
        self._whole = kernel.level * torch.exp(2 * grown[units])
        column = self._with_whole + self._lengths[given.kept, units]
        self._share = column / (self._whole + self._lengths[units, units])
        matrix = self._lengths.index_select(1, given.kept).index_select(0, given.kept)
        left = torch.cat([given.missing * kernel.slopes, -self._share[:, None]], dim=1)
        right = torch.cat([given.missing, column[:, None]], dim=1)
        matrix.add_(self._product).addmm_(left, right.T)
        if given.places is not None:
            matrix.add_(kernel.place_level * given.places)
        self._spread = noise.base * torch.exp(noise.power * given.deleted)
        matrix.diagonal().mul_(1 + JITTER).add_(self._spread)
        self._factor = factored(matrix)
        self._weights = torch.cholesky_solve(given.changes, self._factor)
        columns = given.changes.shape[1]
        square = float((given.changes * self._weights).sum()) / (2 * columns)
        self.loss = square + float(self._factor.diagonal().log().sum())

    @functools.cached_property
    def slope(self) -> Tensor:
        """The derivative, (2 n + 7,)."""
        given, kernel, units = self._given, self._kernel, self._given.rows.shape[1]
        # Twice the derivative by the matrix, and then by the kernel with the whole text: the
        # matrix is P joint P' with P = [1, -share], and so is its change where the kernel changes.
        columns = given.changes.shape[1]
        inner = torch.cholesky_inverse(self._factor)
        inner.addmm_(self._weights, self._weights.T, alpha=-1 / columns)
        of_noise = inner.diagonal() * self._spread
        inner.diagonal().mul_(1 + JITTER)
        places = inner.new_zeros(())
        if given.places is not None:
            places = kernel.place_level * (inner * given.places).sum()
        carried = inner @ self._share
        corner = self._share @ carried
        # Of interactions.
        product = self._product * inner
        of_rows, total = product @ given.rows, product.sum(dim=1)
        with_whole, whole = -carried * self._with_whole, corner * self._whole
        apart = total @ given.rows - (given.rows * of_rows).sum(dim=0) + with_whole @ given.missing
        # Of single units and of lengths; those are summed up by the numbers kept.
        summed = inner @ torch.cat([given.missing, given.by_number], dim=1)
        missed = (given.missing * summed[:, :units]).sum(dim=0)
        lengths = given.by_number.T @ summed[:, units:]
        by_whole = -(carried @ given.by_number)
        lengths[:, units] += by_whole
        lengths[units] += by_whole
        lengths[units, units] += corner
        lengths *= self._lengths
        grown = given.log_missing
        growth = (total + with_whole) @ grown[given.kept] + lengths.sum(dim=1) @ grown
        growth = 2 * (growth + grown[units] * (with_whole.sum() + whole))
        reach = -kernel.length_reach * (lengths * given.apart).sum()
        level = total.sum() + 2 * with_whole.sum() + whole
        noise = of_noise.sum(), of_noise @ given.deleted
        last = torch.stack([level, lengths.sum(), reach, places, growth, *noise])
        return torch.cat([-2 * kernel.reaches * apart, kernel.slopes * missed, last]) / 2

    @functools.cached_property
    def roots(self) -> Tensor:
        """A table (p m, 2 n + 7) whose columns W z have the curvature as inner products."""
        given, factor, share = self._given, self._factor, self._share
        shown = torch.linalg.solve_triangular(factor.mT, given.signs, upper=True)  # (m, p)
        changed = self._changed(shown, -(share @ shown))
        solved = torch.linalg.solve_triangular(factor, changed.flatten(1), upper=False)
        solved = solved.reshape(changed.shape)
        single = torch.linalg.solve_triangular(factor, given.missing, upper=False)  # (m, n)
        units = (given.signs.T @ single) * (self._kernel.slopes * single)[:, None]
        roots = torch.cat([solved[..., :-SHARED], units, solved[..., -SHARED:]], dim=2)
        return roots.flatten(0, 1) / math.sqrt(2 * shown.shape[1])

    def _changed(self, shown: Tensor, whole: Tensor) -> Tensor:
        """The derivatives of K times vectors, by all but single units' numbers, (m, p, n + 7).

        Args:
            shown: (m, p), the vectors.
            whole: (p,), what they have for the whole text.
        """
        given, kernel, units = self._given, self._kernel, self._given.rows.shape[1]
        grown = given.log_missing
        of_rows, of_whole = grown[given.kept], grown[units]
        # Products with what a row keeps of each unit, with 1 and with how it has grown.
        table = torch.cat([given.rows, torch.ones_like(of_rows)[:, None], of_rows[:, None]], dim=1)
        table = table[:, None] * shown[:, :, None]  # (m, p, n + 2)
        last = torch.cat([table.new_ones(units + 1), of_whole[None]]) * whole[:, None]
        product = (self._product @ table.flatten(1)).addr_(self._with_whole, last.flatten())
        product = product.reshape(table.shape)
        of_all = (self._with_whole @ table.flatten(1)).reshape(last.shape) + self._whole * last
        kept, total, growing = product[..., :units], product[..., units], product[..., units + 1]
        reaches = (1 - 2 * given.rows)[:, None] * kept + given.rows[:, None] * total[:, :, None]
        by_number = given.by_number.T @ shown  # (n + 1, p)
        by_number[units] += whole
        lengths = self._lengths @ by_number
        reach = -kernel.length_reach * ((self._lengths * given.apart) @ by_number)
        lengths_growing = self._lengths @ (grown[:, None] * by_number) + grown[:, None] * lengths
        growth = growing + of_rows[:, None] * total + lengths_growing[given.kept]
        growth_of_all = of_all[:, -1] + of_whole * of_all[:, units] + lengths_growing[units]
        places = torch.zeros_like(shown)
        if given.places is not None:
            places = kernel.place_level * (given.places @ shown)
        shared = [total, lengths[given.kept], reach[given.kept], places, growth]
        nothing = torch.zeros_like(whole)  # has moved in the whole text
        shared_of_all = [of_all[:, units], lengths[units], reach[units], nothing, growth_of_all]
        changed = torch.cat([-kernel.reaches * reaches, torch.stack(shared, dim=2)], dim=2)
        reaches_of_all = -kernel.reaches * (of_all[:, units, None] - of_all[:, :units])
        change_of_all = torch.cat([reaches_of_all, torch.stack(shared_of_all, dim=1)], dim=1)
        changed = changed - self._share[:, None, None] * change_of_all
        noise = self._spread[:, None] * shown
        powers = noise * given.deleted[:, None]
        return torch.cat([changed, noise[:, :, None], powers[:, :, None]], dim=2)


def parts(numbers: Tensor, units: int) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (2 n + 7,)."""
    *logarithms, growth, base, power = numbers[2 * units :]
    level, length_level, length_reach, place_level = (number.exp() for number in logarithms)
    each = numbers[: 2 * units].exp()
    kernel = Kernel(
        each[:units], each[units:], level, length_level, length_reach, place_level, growth
    )
    return kernel, Noise(base.exp(), power)


def numbers_of(kernel: Kernel, noise: Noise) -> Tensor:
    """The inverse of ``parts``."""
    levels = [kernel.level, kernel.length_level, kernel.length_reach, kernel.place_level]
    logarithms = [level.log() for level in levels]
    last = torch.stack([*logarithms, kernel.growth, noise.base.log(), noise.power])
    return torch.cat([kernel.reaches.log(), kernel.slopes.log(), last])
