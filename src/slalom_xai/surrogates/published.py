"""The paper's own solvers, kept for comparison: stochastic gradient steps and alternating least squares."""

from __future__ import annotations

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate, weights

FLOOR = 1e-4  # the least weight; without a floor, noise drives weights to zero and importances to minus infinity


def fit_by_sgd(
    counts: Tensor,
    outputs: Tensor,
    seed: int,
    steps: int = 5000,
    batch: int = 64,
    rate: float = 0.05,
) -> SlalomSurrogate:
    """Algorithm 1: minibatch gradient steps on values and importances, both from zero, at a decaying rate.

    Adam scales the steps: with plain gradients one rate cannot suit rare and frequent units alike.

    Args:
        counts: (m, n).
        outputs: (m, C).
        seed: decides the minibatches.
        steps: how many.
        batch: rows a step.
        rate: of the first step; it falls linearly to zero.
    """
    generator = torch.Generator().manual_seed(seed)
    values = torch.zeros(
        1,
        counts.shape[1],
        outputs.shape[1],
        dtype=outputs.dtype,
        device=outputs.device,
        requires_grad=True,
    )
    importances = torch.zeros(
        1, counts.shape[1], dtype=outputs.dtype, device=outputs.device, requires_grad=True
    )
    optimizer = torch.optim.Adam([values, importances], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, total_iters=steps)
    for _ in range(steps):
        rows = torch.randint(len(counts), (batch,), generator=generator).to(counts.device)
        shares = weights(counts[rows], importances)[:, 0]
        loss = ((shares @ values[0] - outputs[rows]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return SlalomSurrogate(values.detach(), importances.detach()).normalised()


def fit_alternating(counts: Tensor, outputs: Tensor, rounds: int = 50) -> SlalomSurrogate:
    """Algorithm 2: values by least squares given importances, then importances by Eq. 77 given values.

    Eq. 77 weights each residual by its row's total weight, so it is not the objective of the
    least squares beside it, and a round may raise the error. The best round is kept, and the
    rounds end when three in a row bring nothing.

    Args:
        counts: (m, n).
        outputs: (m, 1); the second step is written for one output.
        rounds: at most.
    """
    units = counts.shape[1]
    scale = torch.ones(units, dtype=outputs.dtype, device=outputs.device)
    best, best_error, barren = None, float("inf"), 0
    for _ in range(rounds):
        raw = counts * scale
        shares = raw / raw.sum(dim=1, keepdim=True)
        gram = shares.T @ shares
        gram.diagonal().add_(1e-8 * gram.diagonal().mean())
        values = torch.linalg.solve(gram, shares.T @ outputs)
        error = float(((shares @ values - outputs) ** 2).mean())
        barren = 0 if error < best_error * (1 - 1e-4) else barren + 1
        if error < best_error:
            best, best_error = (values, scale.log()), error
        if barren == 3:
            break
        scale = nonnegative_scale(counts * (values[:, 0] - outputs), scale)
    assert best is not None
    return SlalomSurrogate(best[0][None], best[1][None]).normalised()


def nonnegative_scale(
    residuals: Tensor, start: Tensor, steps: int = 300, floor: float = FLOOR
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
