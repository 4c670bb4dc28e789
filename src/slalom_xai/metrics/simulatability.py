"""Simulatability: can a reader who sees the scores tell what the model answers to an edited text?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slalom_xai.designs import uniform_counts
from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Measured, Number, register, unavailable
from slalom_xai.metrics.case import Array, Case, Masks

_PENALTY = 1e-2  # on standardised slopes, so that classes a line can part have a finite fit
_NEWTON_STEPS = 50


@register
@dataclass(frozen=True)
class Simulatability:
    """Accuracy of a simple reader in guessing the model's answer to random edits.

    A stand-in for people, not a study of them. An edit deletes 1 to n-1 random units, the number uniform. The reader sees two numbers, the
    sum of the positive and that of the negative scores that are left, learns a logistic regression on half of the edits, and guesses on the other
    half whether the model's answer is the explained label. Always guessing what was most frequent in the first half is the baseline; ``gain`` is
    what the scores add to it, and is 0 where the answer never changes.

    Args:
        edits: how many to ask the model about.
    """

    edits: int = 400

    name: ClassVar[str] = "simulatability"
    summary: ClassVar[str] = "lets a simple reader guess the answer to edited texts"
    reference: ClassVar[str] = (
        "Doshi-Velez and Kim (2017); Hase and Bansal (2020), forward simulation"
    )
    gives: ClassVar[Mapping[str, Number]] = {
        "gain": Number("higher", -1, 1, "accuracy above the baseline's"),
        "accuracy": Number("higher", 0, 1, "share of edits guessed right from the scores"),
        "majority": Number(None, 0, 1, "share guessed right without them, the baseline"),
    }

    def __post_init__(self) -> None:
        if self.edits < 4:
            raise InputError(
                f"edits is {self.edits}: give at least 4, half to learn from and half to guess"
            )

    def measure(self, case: Case) -> Measured:
        """Asks for the edits, trains the reader on every other one, and counts right guesses on the rest."""
        if case.ask is None:
            return unavailable(self, "Needs the model's answers (ask).")
        rng = case.rng(self.name)
        masks = (
            case.pool().draw(self.edits, uniform_counts(1, case.units - 1, rng), rng)
            if case.units > 1
            else np.zeros((0, case.units), dtype=bool)
        )
        if len(masks) < 4:
            return unavailable(self, "So short a text has fewer than four edits.")
        answers = case.answered(masks)
        if answers is None:
            return unavailable(self, "The model's outputs do not say which label is the answer.")
        seen = np.arange(len(masks)) % 2 == 0
        guesses = guessed(kept_sums(case.scores(), masks), answers, seen)
        majority = bool(answers[seen].mean() >= 0.5)
        accuracy, baseline = (
            float((guesses == answers[~seen]).mean()),
            float((answers[~seen] == majority).mean()),
        )
        return Measured({"gain": accuracy - baseline, "accuracy": accuracy, "majority": baseline})


def kept_sums(scores: Array, masks: Masks) -> Array:
    """Sums of the positive and of the negative scores that each row keeps, (m, 2)."""
    return np.stack([masks @ np.maximum(scores, 0), masks @ np.minimum(scores, 0)], axis=1)


def guessed(features: Array, answers: Masks, seen: Masks) -> Masks:
    """The guesses of a logistic regression for the rows it has not seen."""
    spread = features[seen].std(axis=0)
    scaled = (features - features[seen].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)
    weights = logistic_regression(design[seen], answers[seen])
    return np.asarray(design[~seen] @ weights >= 0)


def logistic_regression(design: Array, answers: Masks) -> Array:
    """Weights (p,) by Newton's method, all but the first lightly penalised; the first column is the constant."""
    if answers.all() or not answers.any():
        return np.array([1.0 if answers.all() else -1.0, *[0.0] * (design.shape[1] - 1)])
    penalty = np.diag([1e-6] + [_PENALTY] * (design.shape[1] - 1)) * len(design)
    weights = np.zeros(design.shape[1])
    for _ in range(_NEWTON_STEPS):
        chance = np.exp(-np.logaddexp(0, -(design @ weights)))
        gradient = design.T @ (chance - answers) + penalty @ weights
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        if float(np.abs(step).max()) < 1e-9:
            break
    return weights
