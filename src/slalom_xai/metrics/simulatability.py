"""Simulatability: can a reader who sees the scores tell what the model answers to an edited text?

The reader is a logistic regression, a stand-in for people and not a study of them. For each edit it
sees two numbers, the sums s+ and s- of the positive and the negative scores that are left, and
guesses that the model answers the explained label where

    w0 + w1 s+ + w2 s- >= 0

with both sums standardised. The weights minimise the mean logistic loss plus a small penalty on
w1^2 + w2^2, by Newton's method: three weights and some hundred edits need no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, register
from slalom_xai.metrics.model_answers import Array, Masks
from slalom_xai.slalom.rows import uniform_counts

_FEWEST_EDITS = 4  # two to learn from and two to guess


@dataclass(frozen=True)
class ReaderSettings:
    """How the reader's weights are found.

    Attributes:
        penalty: on the squares of standardised slopes, per edit, so that answers that a line can
            part have a finite fit: more makes guesses blunter, less takes more steps.
        constant_penalty: on the square of the constant, per edit: only keeps the equations
            solvable.
        most_steps: Newton steps at most; a few are enough unless answers can nearly be parted.
        longest_step: a step may change no weight by more, so that early steps do not overshoot.
        tolerance: it ends when a step would change no weight by more.
    """

    penalty: float = 1e-2
    constant_penalty: float = 1e-6
    most_steps: int = 50
    longest_step: float = 5.0
    tolerance: float = 1e-9


READER = ReaderSettings()


@register
@dataclass(frozen=True)
class Simulatability(Metric):
    """Accuracy of a simple reader in guessing the model's answer to random edits.

    An edit deletes 1 to n-1 random units, the number uniform. The reader learns from half of the
    edits and guesses on the other half whether the model's answer is the explained label. The
    baseline always guesses what was most frequent in the first half; ``gain`` is what the scores
    add to it, and is 0 where the answer never changes.

    Args:
        edits: how many to ask the model about; more cost calls and make the numbers surer.
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
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})

    def __post_init__(self) -> None:
        if self.edits < _FEWEST_EDITS:
            raise InputError(
                f"edits is {self.edits}: give at least 4, half to learn from and half to guess"
            )

    def measure(self, case: Case) -> Measured:
        """Trains the reader on every other edit and counts its right guesses on the rest."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        masks = self._edits(case)
        if len(masks) < _FEWEST_EDITS:
            return self.unavailable("So short a text has fewer than four edits.")
        answers = case.answered(masks)
        if answers is None:
            return self.unavailable("The model's outputs do not say which label is the answer.")
        seen = np.arange(len(masks)) % 2 == 0
        unseen_answers = answers[~seen]
        guesses = guess_outputs(kept_sums(case.scores(), masks), answers, seen)
        majority = bool(answers[seen].mean() >= 0.5)
        accuracy = float((guesses == unseen_answers).mean())
        baseline = float((unseen_answers == majority).mean())
        return Measured({"gain": accuracy - baseline, "accuracy": accuracy, "majority": baseline})

    def _edits(self, case: Case) -> Masks:
        """Distinct masks (edits, n); fewer where a text does not have so many."""
        if case.units < 2:
            return np.zeros((0, case.units), dtype=bool)
        rng = case.rng(self.name)
        sizes = uniform_counts(1, case.units - 1, rng)
        return case.pool().draw(self.edits, sizes, rng)


def kept_sums(scores: Array, masks: Masks) -> Array:
    """Sums of the positive and of the negative scores (n,) that masks (m, n) keep, (m, 2)."""
    positive = masks @ np.maximum(scores, 0)
    negative = masks @ np.minimum(scores, 0)
    return np.stack([positive, negative], axis=1)


def guess_outputs(features: Array, answers: Masks, seen: Masks) -> Masks:
    """The guesses of a logistic regression for the rows it has not seen.

    Args:
        features: (m, 2).
        answers: (m,), whether the model's answer is the explained label.
        seen: (m,), which rows it learns from.

    Returns:
        (rows not seen,).
    """
    spread = features[seen].std(axis=0)
    scaled = (features - features[seen].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    design = np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)
    weights = logistic_regression(design[seen], answers[seen])
    return np.asarray(design[~seen] @ weights >= 0)


def logistic_regression(design: Array, answers: Masks) -> Array:
    """The weights of a penalised logistic regression, by Newton's method.

    Args:
        design: (m, p), the first entry of each row the constant 1.
        answers: (m,).

    Returns:
        (p,).
    """
    width = design.shape[1]
    if answers.all():
        return np.array([1.0, *[0.0] * (width - 1)])
    if not answers.any():
        return np.array([-1.0, *[0.0] * (width - 1)])
    penalties = [READER.constant_penalty] + [READER.penalty] * (width - 1)
    penalty = np.diag(penalties) * len(design)  # (p, p)
    weights = np.zeros(width)
    for _ in range(READER.most_steps):
        chance = np.exp(-np.logaddexp(0, -(design @ weights)))  # (m,), of the explained label
        gradient = design.T @ (chance - answers) + penalty @ weights
        variance = chance * (1 - chance)
        curvature = (design * variance[:, None]).T @ design + penalty  # (p, p)
        step = np.linalg.solve(curvature, gradient)
        length = float(np.abs(step).max())
        weights = weights - step * min(1.0, READER.longest_step / max(length, 1e-12))
        if length < READER.tolerance:
            break
    return weights
