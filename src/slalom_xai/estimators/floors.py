"""What any method must beat: scores that know nothing of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.estimators.base import Estimator, Findings, attributed, register
from slalom_xai.queries import Queries


@register
@dataclass(frozen=True)
class Random(Estimator):
    """Standard normal scores."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "a floor to beat: random scores; calls the model only for the test"

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 0

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Draws the scores."""
        return attributed(queries, torch.as_tensor(rng.standard_normal(_shape(queries))), rng)


@register
@dataclass(frozen=True)
class Zero(Estimator):
    """No unit matters."""

    name: ClassVar[str] = "zero"
    summary: ClassVar[str] = "a floor to beat: all scores are 0; calls the model only for the test"

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 0

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Says nothing."""
        return attributed(queries, torch.zeros(_shape(queries), dtype=torch.float64), rng)


def _shape(queries: Queries) -> tuple[int, int]:
    """Units and explained columns."""
    units = len(queries.prompt.units)
    return units, queries.ask(np.ones((1, units), dtype=bool), "check").shape[1]
