"""What any method must beat: scores that know nothing of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.estimators.base import Estimator, Findings, attributed, register
from slalom_xai.queries import Queries


@dataclass(frozen=True)
class _Floor(Estimator):
    """A method that does not ask the model, but for the test."""

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 0


@register
@dataclass(frozen=True)
class Random(_Floor):
    """Standard normal scores."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "a floor to beat: random scores; calls the model only for the test"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Draws the scores."""
        scores = rng.standard_normal(_shape(queries))
        return attributed(queries, torch.as_tensor(scores), rng)


@register
@dataclass(frozen=True)
class Zero(_Floor):
    """No unit matters."""

    name: ClassVar[str] = "zero"
    summary: ClassVar[str] = "a floor to beat: all scores are 0; calls the model only for the test"

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Says nothing."""
        scores = torch.zeros(_shape(queries), dtype=torch.float64)
        return attributed(queries, scores, rng)


def _shape(queries: Queries) -> tuple[int, int]:
    """Units and explained columns."""
    return len(queries.prompt.units), len(queries.ask_whole("check"))
