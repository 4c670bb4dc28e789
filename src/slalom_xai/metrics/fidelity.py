"""Fidelity: does the explanation predict what deletions do?

With f the model, g the explanation's prediction, x the whole text and x' a row with some units
deleted, the metric compares the predicted change g(x') - g(x) with the true one f(x') - f(x), over
random rows:

    mse = mean of (predicted - true)^2,    r2 = 1 - mse / variance of the true changes

Changes are compared, not outputs, so that an error which all rows share does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.designs import LOCAL, uniform_counts
from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Metric, Number, register
from slalom_xai.metrics.case import Case
from slalom_xai.metrics.needs import Need
from slalom_xai.slalom.trust import agreement


@dataclass(frozen=True)
class _Fidelity(Metric):
    """Compares ``predict(row) - predict(all)`` with ``f(row) - f(all)`` on random deletions.

    Args:
        rows: how many deletions to ask the model about; more cost calls and make the numbers surer.
    """

    rows: int = 200

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str] = "Leemann et al. (2024), Fig. 6; Yeh et al. (2019), infidelity"
    gives: ClassVar[Mapping[str, Number]] = {
        "mse": Number("lower", 0, math.inf, "mean squared error of the predicted changes"),
        "r2": Number(
            "higher", -math.inf, 1, "share of the variance of the changes that is predicted"
        ),
        "rows": Number(None, 0, math.inf, "how many deletions it was measured on"),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})
    most: ClassVar[int | None]  # units deleted at most; None: all but one

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"rows is {self.rows}: give the number of deletions, at least 1")

    def measure(self, case: Case) -> Measured:
        """Draws distinct rows, none of ``case.seen``, asks, and compares."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        if case.units < 2:
            return self.unavailable("A text of one unit has nothing to delete.")
        rng = case.rng(self.name)
        most = case.units - 1
        if self.most is not None:
            most = min(self.most, most)
        masks = case.pool().draw(self.rows, uniform_counts(1, most, rng), rng)
        if not len(masks):
            return self.unavailable("Every deletion has been seen (seen).")
        everything = np.ones((1, case.units), dtype=bool)
        outputs = case.ask(np.concatenate([everything, masks]))
        true = outputs[1:] - outputs[0]
        predicted = case.explanation.predict(masks) - case.explanation.predict(everything)
        level = float(np.abs(outputs).max())
        agreed = agreement(torch.as_tensor(predicted), torch.as_tensor(true), level)
        reason = ""
        if math.isnan(agreed.r2):
            reason = "No deletion changes the model's output."
        return Measured({"mse": agreed.mse, "r2": agreed.r2, "rows": float(agreed.rows)}, reason)


@register
class FidelityLocal(_Fidelity):
    """Fidelity on 1 to 10 deletions, the number uniform (the paper's Fig. 6)."""

    name: ClassVar[str] = "fidelity-local"
    summary: ClassVar[str] = "predicts what deleting 1 to 10 units does"
    most: ClassVar[int | None] = LOCAL


@register
class FidelityWide(_Fidelity):
    """Fidelity on deletions of 1 to all but one unit, the number uniform."""

    name: ClassVar[str] = "fidelity-wide"
    summary: ClassVar[str] = "predicts what deleting any number of units does"
    most: ClassVar[int | None] = None
