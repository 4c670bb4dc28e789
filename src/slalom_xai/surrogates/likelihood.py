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

Changes of several sets of rows, all of one shape, are worked out together: their tensors then have
one more dimension, the first. What is computed for one set is the same with and without it.

Shapes: m rows, n units, C columns (explained outputs), p vectors of signs; "..." is nothing, or the
number of sets.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

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
        rows: (..., m, n).
        changes: (..., m, C), of mean square 1.
        missing: (..., m, n), 1 - rows.
        kept: (..., m), the numbers of units kept.
        by_number: (..., m, n + 1), 1 at the number kept.
        deleted: (..., m), the logarithms that the noise depends on.
        apart: (n + 1, n + 1), how far the logarithms of numbers kept, plus one, lie apart.
        log_missing: (n + 1,), the logarithm of what grows, by the number kept.
        places: (..., m, m), in how many units that have moved rows are alike; None where none
            moves.
        signs: (m, p), random signs.
    """

    def __init__(self, changes: Changes) -> None:
        rows = changes.rows
        units = rows.shape[-1]
        self.rows, self.changes = rows, changes.scaled
        self.missing, self.kept = 1 - rows, rows.sum(dim=-1).long()
        self.by_number = torch.nn.functional.one_hot(self.kept, units + 1).to(rows)
        self.deleted = log_deleted(rows)
        numbers = torch.arange(units + 1, device=rows.device).to(rows)
        self.apart = ((numbers[:, None] + 1).log() - (numbers + 1).log()).abs()
        self.log_missing = ((units - numbers + 1) / (units + 1)).log()
        self.places = alike_in_places(rows, rows) if changes.moves else None
        generator = torch.Generator().manual_seed(0)
        signs = torch.randint(2, (rows.shape[-2], _SIGNS), generator=generator)
        self.signs = (2 * signs - 1).to(rows)

    def at(self, numbers: Tensor) -> Evaluated:
        """Here, for numbers (..., 2 n + 7)."""
        return Evaluated(self, numbers)


class Evaluated:
    """The likelihood for certain numbers of the kernel; derivatives are worked out when asked for.

    Args:
        given: the rows.
        numbers: (..., 2 n + 7).

    Attributes:
        loss: (...), minus the logarithm of the likelihood.
    """

    def __init__(self, given: Likelihood, numbers: Tensor) -> None:
        self._given = given
        units = given.rows.shape[-1]
        kernel, noise = parts(numbers, units)
        self._reaches, self._slopes = kernel.reaches[..., None, :], kernel.slopes[..., None, :]
        self._place_level = kernel.place_level[..., None, None]
        self._length_reach = kernel.length_reach[..., None, None]
        grown = kernel.growth[..., None] * given.log_missing
        together = grown[..., None] + grown[..., None, :] - self._length_reach * given.apart
        # (..., n + 1, n + 1)
        self._lengths = kernel.length_level[..., None, None] * torch.exp(together)
        self._product = _wide(kernel).interactions(given.rows, given.rows)
        of_rows, of_whole = grown.gather(-1, given.kept), grown[..., units:]
        reached = (given.missing @ kernel.reaches[..., None])[..., 0]
        level = kernel.level[..., None]
        self._with_whole = level * torch.exp(of_rows + of_whole - reached)  # (..., m)
        self._whole = level * torch.exp(2 * of_whole)  # (..., 1)
        by_length = self._lengths[..., units].gather(-1, given.kept)
        column = self._with_whole + by_length
        self._share = column / (self._whole + self._lengths[..., units, units:])
        matrix = _looked_up(self._lengths, given.kept)
        left = torch.cat([given.missing * self._slopes, -self._share[..., None]], dim=-1)
        right = torch.cat([given.missing, column[..., None]], dim=-1)
        matrix.add_(self._product).add_(left @ right.mT)
        if given.places is not None:
            matrix.add_(self._place_level * given.places)
        self._spread = noise.base[..., None] * torch.exp(noise.power[..., None] * given.deleted)
        matrix.diagonal(dim1=-2, dim2=-1).mul_(1 + JITTER).add_(self._spread)
        self._factor = factored(matrix)
        self._weights = torch.cholesky_solve(given.changes, self._factor)
        columns = given.changes.shape[-1]
        square = (given.changes * self._weights).sum(dim=(-2, -1)) / (2 * columns)
        diagonal = self._factor.diagonal(dim1=-2, dim2=-1)
        self.loss: Tensor = square + diagonal.log().sum(dim=-1)

    @functools.cached_property
    def slope(self) -> Tensor:
        """The derivative, (..., 2 n + 7)."""
        given, units = self._given, self._given.rows.shape[-1]
        # Twice the derivative by the matrix, and then by the kernel with the whole text: the
        # matrix is P joint P' with P = [1, -share], and so is its change where the kernel changes.
        columns = given.changes.shape[-1]
        inner = torch.cholesky_inverse(self._factor)
        inner.sub_((self._weights / columns) @ self._weights.mT)
        of_noise = inner.diagonal(dim1=-2, dim2=-1) * self._spread
        inner.diagonal(dim1=-2, dim2=-1).mul_(1 + JITTER)
        places = torch.zeros_like(self.loss)
        if given.places is not None:
            places = (self._place_level * inner * given.places).sum(dim=(-2, -1))
        carried = (inner @ self._share[..., None])[..., 0]
        corner = (self._share * carried).sum(dim=-1)
        # Of interactions.
        product = self._product * inner
        of_rows, total = product @ given.rows, product.sum(dim=-1)
        with_whole, whole = -carried * self._with_whole, corner * self._whole[..., 0]
        apart = (given.rows * (total[..., None] - of_rows)).sum(dim=-2)
        apart = apart + (with_whole[..., None] * given.missing).sum(dim=-2)
        # Of single units and of lengths.
        summed = inner @ torch.cat([given.missing, given.by_number], dim=-1)
        missed = (given.missing * summed[..., :units]).sum(dim=-2)
        lengths = self._slope_of_lengths(summed[..., units:], carried, corner)
        grown = given.log_missing
        growth = ((total + with_whole) * grown[given.kept]).sum(dim=-1)
        growth = growth + lengths.sum(dim=-1) @ grown
        growth = 2 * (growth + grown[units] * (with_whole.sum(dim=-1) + whole))
        reach = -(self._length_reach * lengths * given.apart).sum(dim=(-2, -1))
        level = total.sum(dim=-1) + 2 * with_whole.sum(dim=-1) + whole
        noise = of_noise.sum(dim=-1), (of_noise * given.deleted).sum(dim=-1)
        shared = [level, lengths.sum(dim=(-2, -1)), reach, places, growth, *noise]
        reaches, slopes = self._reaches[..., 0, :], self._slopes[..., 0, :]
        of_units = [-2 * reaches * apart, slopes * missed]
        return torch.cat([*of_units, torch.stack(shared, dim=-1)], dim=-1) / 2

    def _slope_of_lengths(self, summed: Tensor, carried: Tensor, corner: Tensor) -> Tensor:
        """The part of lengths, summed up by the numbers kept, (..., n + 1, n + 1).

        Args:
            summed: (..., m, n + 1), the derivative by the matrix, summed up in one direction.
            carried: (..., m), that by the kernel with the whole text.
            corner: (...), that by the kernel of the whole text and itself.
        """
        given, units = self._given, self._given.rows.shape[-1]
        lengths = given.by_number.mT @ summed
        by_whole = -(carried[..., None] * given.by_number).sum(dim=-2)
        lengths[..., :, units] += by_whole
        lengths[..., units, :] += by_whole
        lengths[..., units, units] += corner
        return lengths.mul_(self._lengths)

    @functools.cached_property
    def roots(self) -> Tensor:
        """A table (..., p m, 2 n + 7) whose columns W z have the curvature as inner products."""
        given, factor = self._given, self._factor
        signs = given.signs.expand(*factor.shape[:-2], -1, -1)
        shown = torch.linalg.solve_triangular(factor.mT, signs, upper=True)  # (..., m, p)
        changed = self._changed(shown, -(self._share[..., None, :] @ shown)[..., 0, :])
        solved = torch.linalg.solve_triangular(factor, changed.flatten(-2), upper=False)
        solved = solved.reshape(changed.shape)
        single = torch.linalg.solve_triangular(factor, given.missing, upper=False)  # (..., m, n)
        units = (given.signs.mT @ single).unsqueeze(-3) * (self._slopes * single).unsqueeze(-2)
        roots = torch.cat([solved[..., :-SHARED], units, solved[..., -SHARED:]], dim=-1)
        return roots.flatten(-3, -2) / math.sqrt(2 * shown.shape[-1])

    def _changed(self, shown: Tensor, whole: Tensor) -> Tensor:
        """The derivatives of K times vectors, by all but single units' numbers, (..., m, p, n + 7).

        Args:
            shown: (..., m, p), the vectors.
            whole: (..., p), what they have for the whole text.
        """
        given, units = self._given, self._given.rows.shape[-1]
        grown = given.log_missing
        of_rows, of_whole = grown[given.kept][..., None], grown[units]
        # Products with what a row keeps of each unit, with 1 and with how it has grown.
        table = torch.cat([given.rows, torch.ones_like(of_rows), of_rows], dim=-1)
        table = table.unsqueeze(-2) * shown[..., None]  # (..., m, p, n + 2)
        last = torch.cat([table.new_ones(units + 1), of_whole[None]]) * whole[..., None]
        flat, with_whole = table.flatten(-2), self._with_whole[..., None]
        product = (self._product @ flat).add_(with_whole * last.flatten(-2).unsqueeze(-2))
        product = product.reshape(table.shape)
        of_all = (with_whole.mT @ flat).reshape(last.shape) + self._whole[..., None] * last
        kept, total, growing = product[..., :units], product[..., units], product[..., units + 1]
        rows = given.rows.unsqueeze(-2)
        reaches = (1 - 2 * rows) * kept + rows * total[..., None]
        lengths, reach, growing_lengths = self._changed_lengths(shown, whole)
        growth = growing + of_rows * total + self._of_rows(growing_lengths)
        growth_of_all = of_all[..., -1] + of_whole * of_all[..., units]
        growth_of_all = growth_of_all + growing_lengths[..., units, :]
        places = torch.zeros_like(shown)
        if given.places is not None:
            places = self._place_level * (given.places @ shown)
        shared = [total, self._of_rows(lengths), self._of_rows(reach), places, growth]
        changed = torch.cat(
            [-self._reaches.unsqueeze(-2) * reaches, torch.stack(shared, dim=-1)], dim=-1
        )
        nothing = torch.zeros_like(whole)  # has moved in the whole text
        of_whole_text = [lengths[..., units, :], reach[..., units, :], nothing, growth_of_all]
        shared_of_all = torch.stack([of_all[..., units], *of_whole_text], dim=-1)
        reaches_of_all = -self._reaches * (of_all[..., units, None] - of_all[..., :units])
        change_of_all = torch.cat([reaches_of_all, shared_of_all], dim=-1)
        changed = changed - self._share[..., None, None] * change_of_all.unsqueeze(-3)
        noise = self._spread[..., None] * shown
        powers = noise * given.deleted[..., None]
        return torch.cat([changed, noise[..., None], powers[..., None]], dim=-1)

    def _changed_lengths(self, shown: Tensor, whole: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for lengths: by their level, reach and growth, (..., n + 1, p) each."""
        given, units = self._given, self._given.rows.shape[-1]
        grown = given.log_missing[:, None]
        by_number = given.by_number.mT @ shown
        by_number[..., units, :] += whole
        lengths = self._lengths @ by_number
        reach = -self._length_reach * ((self._lengths * given.apart) @ by_number)
        return lengths, reach, self._lengths @ (grown * by_number) + grown * lengths

    def _of_rows(self, by_number: Tensor) -> Tensor:
        """What rows (..., m, p) have of a table by the numbers kept, (..., n + 1, p)."""
        return torch.take_along_dim(by_number, self._given.kept[..., None], dim=-2)


def _looked_up(table: Tensor, numbers: Tensor) -> Tensor:
    """Entries (..., m, m) of a table (..., k, k) for all pairs of numbers (..., m)."""
    if table.ndim == 2:
        return table.index_select(1, numbers).index_select(0, numbers)
    of_rows = torch.take_along_dim(table, numbers[..., None], dim=-2)
    return torch.take_along_dim(of_rows, numbers[..., None, :], dim=-1)


def _wide(kernel: Kernel) -> Kernel:
    """A kernel whose numbers (...) can be multiplied with tables of rows."""
    level, growth = kernel.level[..., None, None], kernel.growth[..., None, None]
    return replace(kernel, level=level, growth=growth)


def parts(numbers: Tensor, units: int) -> tuple[Kernel, Noise]:
    """The kernel and the noise of numbers (..., 2 n + 7)."""
    *logarithms, growth, base, power = numbers[..., 2 * units :].unbind(dim=-1)
    level, length_level, length_reach, place_level = (number.exp() for number in logarithms)
    each = numbers[..., : 2 * units].exp()
    reaches, slopes = each[..., :units], each[..., units:]
    kernel = Kernel(reaches, slopes, level, length_level, length_reach, place_level, growth)
    return kernel, Noise(base.exp(), power)


def numbers_of(kernel: Kernel, noise: Noise) -> Tensor:
    """The inverse of ``parts``."""
    levels = [kernel.level, kernel.length_level, kernel.length_reach, kernel.place_level]
    logarithms = [level.log() for level in levels]
    last = torch.stack([*logarithms, kernel.growth, noise.base.log(), noise.power])
    return torch.cat([kernel.reaches.log(), kernel.slopes.log(), last])
