"""Linear fits to the calls of many texts at once: what one score per unit without a bound predicts.

The changes f(all) - f(row) are regressed on what each row removed, with a ridge that left-out calls
choose. With the eigenvectors of the Gram matrix, a ridge changes nothing but divisors, so that the
error on each call, had it not been used, follows for all ridges at once.

Shapes: B texts, m calls, n units, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # relative to the mean diagonal
_MOST_LEVERAGE = 0.99  # of a call in its own prediction: some are fitted almost alone


@dataclass(frozen=True)
class LinearFits:
    """One score per unit: removing units takes their scores away.

    Attributes:
        scores: (B, n, C).
        full: (B, C), the outputs for the whole texts.
        left_out: (B, m, C), predictions for each call, had it not been used.
    """

    scores: Tensor
    full: Tensor
    left_out: Tensor


def fit_linear(counts: Tensor, outputs: Tensor, told: Tensor) -> LinearFits:
    """Ridge regressions through the whole texts.

    Args:
        counts: (B, m, n), perturbed texts, the whole text first; 1 keeps a unit.
        outputs: (B, m, C), the model's.
        told: (B, m), 1 for calls and 0 for what fills up.
    """
    full = outputs[:, 0]
    removed = (1 - counts) * told[..., None]
    changes = (full[:, None] - outputs) * told[..., None]
    gram = removed.transpose(1, 2) @ removed
    sizes, vectors = torch.linalg.eigh(gram)  # (B, n) and (B, n, n)
    mean = gram.diagonal(dim1=1, dim2=2).mean(dim=1)
    ridges = mean[:, None] * gram.new_tensor(_RIDGES) + 1e-12
    shrunk = 1 / (sizes.clamp(min=0)[..., None] + ridges[:, None])  # (B, n, R)
    turned = removed @ vectors
    leverage = (turned**2 @ shrunk).clamp(max=_MOST_LEVERAGE)  # (B, m, R)
    pulls = turned.transpose(1, 2) @ changes  # (B, n, C)
    parts = shrunk[..., None] * pulls[:, :, None]  # (B, n, R, C)
    inside = (turned @ parts.flatten(2)).unflatten(2, parts.shape[2:])  # (B, m, R, C)
    errors = (inside - changes[:, :, None]) / (1 - leverage)[..., None]
    best = (errors**2).sum(dim=(1, 3)).argmin(dim=1)
    each = torch.arange(len(counts))
    return LinearFits(vectors @ parts[each, :, best], full, outputs - errors[each, :, best])
