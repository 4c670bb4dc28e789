"""The paper's own solvers, kept for comparison: gradient steps and alternating least squares.

The package itself fits by variable projection (``projection``), which needs tens of steps where
these need thousands. They are here so that the paper's methods can be run as they were published.

Shapes: m rows, n units, C columns (explained outputs). There is one head and no sink.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate, weights


@dataclass(frozen=True)
class PublishedSettings:
    """Constants of the published solvers. More steps and rounds cost time and change little.

    Attributes:
        steps: of gradients.
        batch: rows a gradient step.
        rate: of the first gradient step, in values and importances.
        last_rate: of the last step, as a fraction of the first.
        rounds: of alternating least squares, at most.
        ridge: on the values, as a fraction of the mean diagonal: units that no row tells apart.
        least_gain: a round that lowers the error by less than this fraction brought nothing.
        patience: the rounds end after so many in a row that brought nothing.
        scale_steps: projected gradient steps for the weights in a round.
        floor: the least weight, where their mean is 1. Without a floor, noise drives weights to
            zero and importances to minus infinity.
    """

    steps: int = 5000
    batch: int = 64
    rate: float = 0.05
    last_rate: float = 1e-3
    rounds: int = 50
    ridge: float = 1e-8
    least_gain: float = 1e-4
    patience: int = 3
    scale_steps: int = 300
    floor: float = 1e-4


PUBLISHED_SOLVERS = PublishedSettings()


def fit_by_sgd(
    counts: Tensor,
    outputs: Tensor,
    seed: int,
    steps: int = PUBLISHED_SOLVERS.steps,
    batch: int = PUBLISHED_SOLVERS.batch,
    rate: float = PUBLISHED_SOLVERS.rate,
) -> SlalomSurrogate:
    """Algorithm 1: minibatch gradient steps on values and importances, at a decaying rate.

    Both start from zero. Adam scales the steps: with plain gradients one rate cannot suit rare and
    frequent units alike.

    Args:
        counts: (m, n).
        outputs: (m, C).
        seed: decides the minibatches.
        steps: how many.
        batch: rows a step.
        rate: of the first step; it falls linearly to almost zero.
    """
    generator = torch.Generator().manual_seed(seed)
    units, columns = counts.shape[1], outputs.shape[1]
    values = outputs.new_zeros(1, units, columns).requires_grad_()
    importances = outputs.new_zeros(1, units).requires_grad_()
    optimizer = torch.optim.Adam([values, importances], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1.0, PUBLISHED_SOLVERS.last_rate, total_iters=steps
    )
    for _ in range(steps):
        rows = torch.randint(len(counts), (batch,), generator=generator).to(counts.device)
        shares = weights(counts[rows], importances)[:, 0]
        loss = ((shares @ values[0] - outputs[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return SlalomSurrogate(values.detach(), importances.detach()).normalised()


def fit_alternating(
    counts: Tensor, outputs: Tensor, rounds: int = PUBLISHED_SOLVERS.rounds
) -> SlalomSurrogate:
    """Algorithm 2: values by least squares given importances, then importances by Eq. 77.

    Eq. 77 weights each residual by its row's total weight, so it is not the objective of the
    least squares beside it, and a round may raise the error. The best round is kept, and the
    rounds end when three in a row bring nothing.

    Args:
        counts: (m, n).
        outputs: (m, 1); the second step is written for one output.
        rounds: at most.
    """
    scale = outputs.new_ones(counts.shape[1])  # (n,), the weights
    best, best_error, barren = None, float("inf"), 0
    for _ in range(rounds):
        raw = counts * scale
        shares = raw / raw.sum(dim=1, keepdim=True)  # (m, n)
        values = _least_squares(shares, outputs)
        error = float(((shares @ values - outputs) ** 2).mean())
        barren += 1
        if error < best_error * (1 - PUBLISHED_SOLVERS.least_gain):
            barren = 0
        if error < best_error:
            best, best_error = (values, scale.log()), error
        if barren == PUBLISHED_SOLVERS.patience:
            break
        scale = nonnegative_scale(counts * (values[:, 0] - outputs), scale)
    assert best is not None
    return SlalomSurrogate(best[0][None], best[1][None]).normalised()


def _least_squares(shares: Tensor, outputs: Tensor) -> Tensor:
    """Values (n, C) that predict outputs (m, C) best from shares (m, n)."""
    gram = shares.T @ shares
    gram.diagonal().add_(PUBLISHED_SOLVERS.ridge * gram.diagonal().mean())
    values: Tensor = torch.linalg.solve(gram, shares.T @ outputs)
    return values


def nonnegative_scale(
    residuals: Tensor,
    start: Tensor,
    steps: int = PUBLISHED_SOLVERS.scale_steps,
    floor: float = PUBLISHED_SOLVERS.floor,
) -> Tensor:
    """Minimises |E s|^2 (Eq. 77) over s >= floor with mean 1, by projected gradient steps.

    Args:
        residuals: E, (m, n).
        start: (n,), the weights to begin with.
        steps: how many.
        floor: the least weight.
    """
    matrix = residuals.T @ residuals
    rate = 1.0 / float(torch.linalg.matrix_norm(matrix, 2).clamp(min=1e-12))
    scale = start
    for _ in range(steps):
        scale = (scale - rate * (matrix @ scale)).clamp(min=floor)
        scale = (scale / scale.mean()).clamp(min=floor)
    return scale
