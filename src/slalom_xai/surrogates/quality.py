"""How well a surrogate predicts the model, on rows it has not seen."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

DOUBTFUL = 0.5  # an explanation that predicts less of what deletions do is not to be trusted
CLOSE_TO_LINEAR = 0.03  # r2 that a linear explanation may be behind and still do as well
DRAWS = 300  # samples of rows behind an interval
OUT_OF_BOUNDS = 1.0  # predictions that leave the range of answers by more than the error are named
NOTHING_CHANGES = "There is nothing to explain: the model's output does not change when parts of the text are deleted."


@dataclass(frozen=True)
class Agreement:
    """Predicted against true changes of the output.

    Attributes:
        r2: share of the changes' variance that is predicted; NaN where nothing changes.
        mse: mean squared error of the predicted changes.
        rows: how many rows it was measured on.
        r2_low: lower end of a 90% interval of ``r2``, from drawing rows with replacement; NaN where there is none.
        r2_high: its upper end.
        mse_low: lower end of a 90% interval of ``mse``.
        mse_high: its upper end.
        beyond: what predictions that leave the range of all answers would add to ``mse``, on rows that
            were not asked; ``r2_low`` counts it.
    """

    r2: float
    mse: float
    rows: int
    r2_low: float = math.nan
    r2_high: float = math.nan
    mse_low: float = math.nan
    mse_high: float = math.nan
    beyond: float = 0.0

    @property
    def at_least(self) -> float:
        """The share that is surely predicted: the lower end, or the share itself where there is none."""
        return self.r2 if math.isnan(self.r2_low) else min(self.r2, self.r2_low)


@dataclass(frozen=True)
class Fidelity:
    """Agreement on held-out deletions, beside a linear fit of the same calls.

    Attributes:
        local: the explanation, 1 to 10 units deleted.
        wide: the explanation, 1 to all but one unit deleted.
        linear_local: the linear fit, same rows as ``local``.
        linear_wide: the linear fit, same rows as ``wide``.
    """

    local: Agreement
    wide: Agreement
    linear_local: Agreement
    linear_wide: Agreement

    def sentence(self) -> str:
        """How far the explanation can be trusted, in plain words."""
        wide, linear = self.wide, self.linear_wide
        if math.isnan(wide.r2):
            return NOTHING_CHANGES
        ours, surely = percent(wide.r2), percent(wide.at_least)
        beside = f"a linear explanation of the same calls predicts {percent(linear.r2)}"
        if wide.at_least >= DOUBTFUL:
            close = ": this model is close to linear here" if self._close_to_linear else ""
            sure = "" if surely == ours else f" (at least {surely})"
            return f"Predicts {ours} of what deletions do{sure}; {beside}{close}."
        if wide.r2 < DOUBTFUL:
            return f"Do not trust this: it predicts {ours} of what deletions do; {beside}."
        if wide.beyond > OUT_OF_BOUNDS * wide.mse:
            return (
                f"Do not trust this: it predicts {ours} of what the tested deletions do, but for "
                f"others it predicts outputs that the model never gave; {beside}."
            )
        return f"Do not trust this: it predicts {ours} of what the tested deletions do, but perhaps only {surely} of what others do; {beside}."

    @property
    def _close_to_linear(self) -> bool:
        return self.linear_wide.r2 > self.wide.r2 - CLOSE_TO_LINEAR


def agreement(predicted: Tensor, true: Tensor, level: float, beyond: float = 0.0) -> Agreement:
    """Compares changes of one output, both (m,).

    Args:
        predicted: what the surrogate says.
        true: what the model says.
        level: the size of the outputs themselves.
        beyond: what other predictions, outside the range of all answers, add to the squared error.

    A change within single-precision rounding of the outputs is none. Where every deletion
    changes the output by the same, nothing of it can be told apart, and r2 is 0.
    """
    predicted, true = predicted.cpu(), true.cpu()  # small, and every number is looked at
    centred = true - true.mean()
    parts = torch.stack([(predicted - true) ** 2, centred**2, centred])
    mse, variance, _ = parts.mean(dim=1).tolist()
    mse_draws, square_draws, mean_draws = parts @ _draws(len(true)).to(true)
    least = (2e-6 * level) ** 2
    variances = (square_draws - mean_draws**2).clamp(min=least)
    (mse_low, low), (mse_high, high) = _ends(torch.stack([mse_draws, 1 - mse_draws / variances]))
    if float(true.abs().max()) <= 2e-6 * level:
        return Agreement(math.nan, mse, len(true), mse_low=mse_low, mse_high=mse_high)
    if variance <= least:
        return Agreement(0.0, mse, len(true), mse_low=mse_low, mse_high=mse_high)
    low -= beyond / variance
    return Agreement(1 - mse / variance, mse, len(true), low, high, mse_low, mse_high, beyond)


@functools.lru_cache(maxsize=64)
def _draws(rows: int) -> Tensor:
    """Shares of each row in samples with replacement, (rows, DRAWS); always the same for the same number of rows."""
    generator = torch.Generator().manual_seed(rows)
    places = torch.randint(rows, (DRAWS, rows), generator=generator)
    shares = torch.zeros(DRAWS, rows, dtype=torch.float64).scatter_add_(
        1, places, torch.ones(DRAWS, rows, dtype=torch.float64)
    )
    return (shares / rows).T.contiguous()


def _ends(draws: Tensor) -> list[list[float]]:
    """The 5% and 95% points of draws (k, DRAWS), (2, k)."""
    ends: list[list[float]] = torch.quantile(
        draws, torch.tensor([0.05, 0.95], dtype=draws.dtype), dim=1
    ).tolist()
    return ends


def percent(r2: float) -> str:
    """A share in whole per cent; a fit worse than the mean predicts nothing."""
    if r2 <= 0:
        return "none"
    return f"{min(round(100 * r2), 99)}%" if r2 < 0.9995 else "100%"
