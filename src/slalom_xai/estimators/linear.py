"""The honest yardstick: a linear explanation of the calls that ``slalom`` gets.

    F(K) = f(whole text) - sum over deleted units t of w_t

The weights w are a ridge regression's, whose penalty is cross-validated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slalom_xai.estimators.base import Estimator, Findings, register
from slalom_xai.estimators.findings import linear_findings
from slalom_xai.estimators.gathering import gather
from slalom_xai.estimators.held_out import linear_fit
from slalom_xai.queries import Queries


@register
@dataclass(frozen=True)
class Linear(Estimator):
    """One additive score per unit, by ridge regression with a cross-validated penalty."""

    name: ClassVar[str] = "linear"
    summary: ClassVar[str] = (
        "one additive score per token: ridge regression on the same calls as slalom, penalty by "
        "cross-validation"
    )
    combines: ClassVar[bool] = True
    probes_noise: ClassVar[bool] = True

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the model and fits."""
        question = queries.prompt
        parameters = self.parameters(len(question.units), question.distinct)
        evidence = gather(queries, parameters, rng)
        return linear_findings(evidence, linear_fit(evidence))
