"""Cost: what an explanation took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, register


@register
class Cost(Metric):
    """Model calls and seconds: ``case.calls``, by default those counted, and ``case.seconds``.

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
    needs: ClassVar[frozenset[Need]] = frozenset({Need.SECONDS})

    def measure(self, case: Case) -> Measured:
        """Reads them off; NaN for seconds that nobody took."""
        calls = float(case.explanation.calls + case.explanation.passes)
        if case.calls is not None:
            calls = _check_cost("calls", case.calls)
        if case.seconds is None:
            reason = self.lacks(Need.SECONDS).reason
            return Measured({"calls": calls, "seconds": math.nan}, reason)
        return Measured({"calls": calls, "seconds": _check_cost("seconds", case.seconds)})


def _check_cost(name: str, given: float) -> float:
    """Refuses what is no number, negative, infinite or NaN."""
    is_number = isinstance(given, (int, float, np.integer, np.floating))
    if not is_number or isinstance(given, bool) or not 0 <= given < math.inf:
        raise InputError(f"{name} is {given!r}: give a number of at least 0")
    return float(given)
