"""The honest yardstick: ridge regression on the calls that SLALOM gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slalom_xai.estimators.base import Estimator, Findings, linear_findings, register
from slalom_xai.estimators.evidence import gather, linear_fit
from slalom_xai.queries import Queries


@register
@dataclass(frozen=True)
class Linear(Estimator):
    """One additive score per unit, by ridge regression with a cross-validated penalty."""

    name: ClassVar[str] = "linear"
    summary: ClassVar[str] = (
        "one additive score per token: ridge regression on the same calls as slalom, penalty by cross-validation"
    )

    combines: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True

    def parameters(self, units: int, distinct: int) -> int:
        """One score per unit; the fit passes through the whole text."""
        return units

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits."""
        evidence = gather(
            queries, self.parameters(len(queries.prompt.units), queries.prompt.distinct), rng
        )
        return linear_findings(evidence, linear_fit(evidence))
