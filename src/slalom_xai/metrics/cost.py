"""Cost: what an explanation took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Number, register
from slalom_xai.metrics.case import Case


@register
class Cost:
    """Model calls and seconds: ``case.extras["calls"]``, by default those the explanation counted, and ``case.extras["seconds"]``.

    A pass through the model from within, as for gradients, counts as a call.
    """

    name: ClassVar[str] = "cost"
    summary: ClassVar[str] = "what the explanation cost"
    reference: ClassVar[str] = "Leemann et al. (2024), Table 2"
    gives: ClassVar[Mapping[str, Number]] = {
        "calls": Number(
            "lower",
            0,
            math.inf,
            "rows that the model computed: distinct rows asked, and passes inside the model",
        ),
        "seconds": Number("lower", 0, math.inf, "wall-clock time"),
    }

    def measure(self, case: Case) -> Measured:
        """Reads them off; NaN for seconds that nobody took."""
        found = {
            "calls": float(case.explanation.calls + case.explanation.passes),
            "seconds": math.nan,
        }
        for name in self.gives:
            if name not in case.extras:
                continue
            given = case.extras[name]
            if (
                isinstance(given, bool)
                or not isinstance(given, (int, float, np.integer, np.floating))
                or not 0 <= given < math.inf
            ):
                raise InputError(f"extras[{name!r}] is {given!r}: give a number of at least 0")
            found[name] = float(given)
        return Measured(
            found,
            "Needs the seconds that the explanation took (extras['seconds'])."
            if math.isnan(found["seconds"])
            else "",
        )
