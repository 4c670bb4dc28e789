"""AOPC as the paper's authors compute it: the true label's probability every five units.

With n units ordered by how much they argue for the true label, and p its probability,

    insertion  1 - mean over k = 5, 10, ... below n of  p(the first k units only)
    deletion   1 - mean over the same k             of  p(the last k units only)

Both are other numbers than the areas of ``insertion`` and ``deletion``: they do not compare with
the whole text, they follow the true label instead of the model's answer, and what deletion leaves
is counted from the empty text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Metric, Number, register
from slalom_xai.metrics.case import Case
from slalom_xai.metrics.needs import Need
from slalom_xai.metrics.perturbation import answer_sign, first_units
from slalom_xai.metrics.ranks import descending


@register
@dataclass(frozen=True)
class Aopc(Metric):
    """What the true label's probability is with only the best units, and with only the worst.

    Args:
        step: units between two points of the curve.
    """

    step: int = 5

    name: ClassVar[str] = "aopc"
    summary: ClassVar[str] = "the true label is reached with the best units, not with the worst"
    reference: ClassVar[str] = "Samek et al. (2017), AOPC, as in Leemann et al. (2024)"
    gives: ClassVar[Mapping[str, Number]] = {
        "insertion": Number("lower", 0, 1, "1 − the label's mean probability with the best units"),
        "deletion": Number("higher", 0, 1, "1 − the label's mean probability with the worst units"),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})

    def __post_init__(self) -> None:
        if self.step < 1:
            raise InputError(f"step is {self.step}: give the units between two points, at least 1")

    def measure(self, case: Case) -> Measured:
        """Asks for both curves; without a true label, the model's answer stands for it."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        sizes = np.arange(self.step, case.units, self.step)
        if not len(sizes):
            return self.unavailable(f"A text of {self.step} units or fewer has no curve.")
        if case.label is not None and case.label not in case.outputs.labels:
            return self.unavailable(f"The true label {case.label!r} is none of the model's.")
        sign = self._sign(case)
        if sign is None:
            return self.unavailable("The explained label is not the true one.")
        scores = case.scores()
        if not case.unsigned:
            scores = scores * sign
        order = descending(scores)
        best, worst = first_units(order, sizes), ~first_units(order, case.units - sizes)
        probabilities = case.probabilities(np.concatenate([best, worst]))
        if probabilities is None:
            return self.unavailable(
                "The model's outputs give no probability of the explained label."
            )
        if sign < 0:
            probabilities = 1 - probabilities
        inserted, left = np.split(probabilities, 2)
        return Measured(
            {"insertion": float(1 - inserted.mean()), "deletion": float(1 - left.mean())}
        )

    def _sign(self, case: Case) -> float | None:
        """Minus one where the true label is the other of two; None if its scores are not known."""
        assert case.ask is not None
        if case.label is None:
            whole = case.ask(np.ones((1, case.units), dtype=bool))
            return answer_sign(case, float(whole[0]))
        if case.label == case.explanation.target:
            return 1.0
        if case.outputs.kind == "binary" and case.label in case.outputs.labels:
            return -1.0
        return None
