"""Fidelity: does the explanation predict what deletions do?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.designs import LOCAL, uniform_counts
from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Number, register, unavailable
from slalom_xai.metrics.case import Case
from slalom_xai.surrogates.quality import agreement

_REFERENCE = "Leemann et al. (2024), Fig. 6; Yeh et al. (2019), infidelity"


@dataclass(frozen=True)
class _Fidelity:
    """Compares ``predict(row) - predict(all)`` with ``f(row) - f(all)`` on random deletions.

    Args:
        rows: how many deletions to ask the model about.
    """

    rows: int = 200

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str] = _REFERENCE
    gives: ClassVar[Mapping[str, Number]] = {
        "mse": Number("lower", 0, math.inf, "mean squared error of the predicted changes"),
        "r2": Number(
            "higher", -math.inf, 1, "share of the variance of the changes that is predicted"
        ),
        "rows": Number(None, 0, math.inf, "how many deletions it was measured on"),
    }
    most: ClassVar[int | None]  # units deleted at most; None: all but one

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"rows is {self.rows}: give the number of deletions, at least 1")

    def measure(self, case: Case) -> Measured:
        """Draws distinct rows, none of ``extras["seen"]``, asks, and compares."""
        if case.ask is None:
            return unavailable(self, "Needs the model's answers (ask).")
        if case.units < 2:
            return unavailable(self, "A text of one unit has nothing to delete.")
        rng = case.rng(self.name)
        most = case.units - 1 if self.most is None else min(self.most, case.units - 1)
        masks = case.pool().draw(self.rows, uniform_counts(1, most, rng), rng)
        if not len(masks):
            return unavailable(self, "Every deletion has been seen (extras['seen']).")
        everything = np.ones((1, case.units), dtype=bool)
        outputs = case.ask(np.concatenate([everything, masks]))
        predicted = case.explanation.predict(masks) - case.explanation.predict(everything)
        level = float(np.abs(outputs).max())
        found = agreement(
            torch.as_tensor(predicted), torch.as_tensor(outputs[1:] - outputs[0]), level
        )
        reason = "No deletion changes the model's output." if math.isnan(found.r2) else ""
        return Measured({"mse": found.mse, "r2": found.r2, "rows": float(found.rows)}, reason)


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
