"""Shows rows with answers to a Gaussian process: what it predicts then, and how sure it is.

With the kernel K of the rows, held at 0 for the whole text and with the noise on its diagonal, and
its Cholesky factor L, the changes y of the rows give

    weights of the rows        K^-1 y
    variance of another row x  k(x, x) - |L^-1 k(rows, x)|^2

A process that sees further rows keeps its factor: only the part of the new rows is worked out.

Shapes: m rows, n units, C columns (explained outputs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slalom_xai.surrogates.places import place_entries
from slalom_xai.surrogates.process import Kernel, Noise, Process, packed_rows

# A row's variance is held to be larger by this part of it. Without noise, rows that are alike would
# otherwise make a matrix singular, and predictions run off.
JITTER = 1e-6
_MOST_JITTER = 1e-2  # a matrix that needs more is damaged


@dataclass(frozen=True)
class Conditioned:
    """A process after it has seen rows, with what its uncertainty follows from.

    Attributes:
        process: predicts.
        rows: (m, n), the rows that it has seen.
        factor: (m, m), of their kernel with the noise.
        scale: (C,), of each column's changes, which were divided by it.
    """

    process: Process
    rows: Tensor
    factor: Tensor
    scale: Tensor

    def told(self, rows: Tensor) -> Tensor:
        """What the seen rows tell of others, (m, k): the part of their variance that is known."""
        return self.solved(self.process.kernel.anchored(self.rows, rows))

    def solved(self, shared: Tensor) -> Tensor:
        """The same from the kernel (m, k) of the seen rows with others, or sums of it."""
        told: Tensor = torch.linalg.solve_triangular(self.factor, shared, upper=False)
        return told

    def standard_errors(self, rows: Tensor) -> Tensor:
        """Of predicted changes against the whole text, (k, C)."""
        known = (self.told(rows) ** 2).sum(dim=0)
        return self.scaled(own_variances(self.process.kernel, rows) - known)

    def scaled(self, variances: Tensor) -> Tensor:
        """Standard errors (k, C) of variances (k,) before any scale."""
        return variances.clamp(min=0).sqrt()[:, None] * self.scale


@dataclass(frozen=True)
class Changes:
    """Rows with what they change.

    Attributes:
        rows: (m, n), each of which deletes something.
        changes: (m, C), against the whole text.
        scale: (C,), the root of each column's mean square; 1 where nothing changes.
        moves: whether later units move up where one is deleted.
    """

    rows: Tensor
    changes: Tensor
    scale: Tensor
    moves: bool = True

    @classmethod
    def of(cls, rows: Tensor, changes: Tensor, moves: bool = True) -> Changes:
        """Rows (m, n) with changes (m, C)."""
        scale = changes.pow(2).mean(dim=0).sqrt()
        return cls(rows, changes, torch.where(scale > 0, scale, torch.ones_like(scale)), moves)

    @classmethod
    def stacked(cls, sets: Sequence[Changes]) -> Changes:
        """Several sets of one shape as one, with a first dimension more."""
        rows, changes, scale = (
            torch.stack([getattr(one, name) for one in sets])
            for name in ("rows", "changes", "scale")
        )
        return cls(rows, changes, scale.unsqueeze(-2), sets[0].moves)

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


def conditioned(
    kernel: Kernel, noise: Noise, changes: Changes, full: Tensor, before: Conditioned | None = None
) -> Conditioned:
    """The process after it has seen rows.

    Args:
        kernel: how alike rows are.
        noise: what they do not share.
        changes: of the rows.
        full: (C,), added to predicted changes.
        before: after the first of these rows, with this kernel and noise, if that is known.
    """
    rows = changes.rows
    factor = _factor(kernel, noise, rows, before)
    weights = torch.cholesky_solve(changes.scaled, factor) * changes.scale
    # The whole text's weight brings its own prediction to 0.
    whole = rows.new_ones(1, rows.shape[1])
    share = kernel.with_whole(rows) / kernel.whole
    weights = torch.cat([weights, -(share[None] @ weights)])
    packed = packed_rows(torch.cat([rows, whole]))
    process = Process(packed, weights, full, *vars(kernel).values())
    return Conditioned(process, rows, factor, changes.scale)


def _factor(kernel: Kernel, noise: Noise, rows: Tensor, before: Conditioned | None) -> Tensor:
    """The factor (m, m) of the kernel of rows with the noise; that of the first may be known."""
    seen = 0 if before is None else len(before.rows)
    new = rows[seen:]
    matrix = kernel.anchored(new, new)
    matrix.diagonal().mul_(1 + JITTER).add_(noise.of(new))
    if before is None:
        return factored(matrix)
    told = before.told(new)  # (seen, new)
    last = factored(matrix.addmm_(told.T, told, alpha=-1))
    above = torch.cat([before.factor, torch.zeros_like(told)], dim=1)
    return torch.cat([above, torch.cat([told.T, last], dim=1)])


def own_variances(kernel: Kernel, rows: Tensor) -> Tensor:
    """The variance of each row's change before any row is seen, (m,)."""
    grown = torch.exp(kernel.log_grown(rows.sum(dim=1), rows.shape[1]))
    own = (kernel.level + kernel.length_level) * grown**2
    own = own + ((1 - rows) ** 2) @ kernel.slopes
    if kernel.has_places:
        own = own + kernel.place_level * place_entries(rows).pow(2).sum(dim=1)
    return own - kernel.with_whole(rows) ** 2 / kernel.whole


def factored(matrix: Tensor) -> Tensor:
    """The Cholesky factors of matrices (..., m, m), which may be singular up to rounding."""
    jitter = JITTER
    while True:
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not bool(failed.any()):
            return factor
        if jitter > _MOST_JITTER:
            raise ArithmeticError("the kernel of the rows is not positive definite")
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        diagonal.mul_(1 + jitter * (failed > 0)[..., None])
        jitter *= 10
