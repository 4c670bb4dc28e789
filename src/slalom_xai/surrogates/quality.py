"""How well a surrogate predicts the model, on rows it has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Agreement:
    """Predicted against true changes of the output.

    Attributes:
        r2: share of the changes' variance that is predicted; NaN where nothing changes.
        mse: mean squared error of the predicted changes.
        rows: how many rows it was measured on.
    """

    r2: float
    mse: float
    rows: int


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
        if math.isnan(self.wide.r2):
            return "There is nothing to explain: the model's output does not change when parts of the text are deleted."
        own = f"Predicts {percent(self.wide.r2)} of what deletions do"
        return f"{own}; a linear explanation of the same calls {percent(self.linear_wide.r2)}."


def agreement(predicted: Tensor, true: Tensor, level: float) -> Agreement:
    """Compares changes of one output, both (m,); ``level`` is the size of the outputs themselves.

    A change within single-precision rounding of the outputs is none. Where every deletion
    changes the output by the same, nothing of it can be told apart, and r2 is 0.
    """
    mse = float(((predicted - true) ** 2).mean())
    if float(true.abs().max()) <= 2e-6 * level:
        return Agreement(math.nan, mse, len(true))
    variance = float(((true - true.mean()) ** 2).mean())
    return Agreement(1 - mse / variance if variance > (2e-6 * level) ** 2 else 0.0, mse, len(true))


def percent(r2: float) -> str:
    """A share in whole per cent; a fit worse than the mean predicts nothing."""
    if r2 <= 0:
        return "none"
    return f"{min(round(100 * r2), 99)}%" if r2 < 0.9995 else "100%"
