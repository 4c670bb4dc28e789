"""What a metric is computed from: an explanation, a way to ask the model, data about the text."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from slalom_xai.designs import RowPool
from slalom_xai.errors import InputError, one_of
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.model_answers import Array, Ask, Asker, Masks, asker
from slalom_xai.outputs import Outputs
from slalom_xai.surrogates.scores import DEFAULT_SCORE, SCORES

__all__ = ["Array", "Ask", "Asker", "Case", "Masks", "asker", "ranking_scores"]

_TWO_SIDED = ("binary", "single", "multilabel")  # outputs whose sign is the answer


@dataclass(frozen=True)
class Case:
    """One explanation with what metrics may need.

    A metric that lacks what it needs answers NaN and says so.

    Attributes:
        explanation: what is judged.
        ask: the model's answers, from ``asker`` or any function from masks (m, n) to outputs (m,).
        rationale: (n,) zeros and ones, which units people marked; see ``rationale.to_units``.
        score: the score that ranks units; None: ``DEFAULT_SCORE``.
        others: explanations of the same text to compare with, by other methods, in other units or
            with other seeds.
        naive_bayes: (n,), the weights of a Naive Bayes bag of words that argue for the explained
            label.
        seconds: how long the explanation took.
        calls: how many rows the model computed for it; None: those the explanation counted.
        seen: masks (m, n) that tests must not use, such as those an explanation was fitted to.
        seed: of the random rows; each metric draws its own, the same for every explanation of a
            text in the same units.
        label: the text's true label, as the model calls it; None where it is not known.
    """

    explanation: Explanation
    ask: Ask | None = None
    rationale: ArrayLike | None = None
    score: str | None = None
    others: tuple[Explanation, ...] = ()
    naive_bayes: ArrayLike | None = None
    seconds: float | None = None
    calls: float | None = None
    seen: ArrayLike | None = None
    seed: int = 0
    label: str | None = None

    def __post_init__(self) -> None:
        if self.score is not None and self.score not in SCORES:
            raise one_of("score", self.score, SCORES)

    @property
    def units(self) -> int:
        """How many units have scores."""
        return len(self.explanation)

    @property
    def outputs(self) -> Outputs:
        """What the model's numbers mean, by the model itself where an ``Asker`` knows it."""
        if isinstance(self.ask, Asker):
            return self.ask.outputs
        return self.explanation.outputs

    @property
    def unsigned(self) -> bool:
        """Whether the score says how much, and not in which direction."""
        return self.score == "importance"

    def scores(self, explanation: Explanation | None = None) -> Array:
        """The score that ranks, (n,), of this or another explanation."""
        return ranking_scores(explanation or self.explanation, self.score)

    def rng(self, name: str) -> np.random.Generator:
        """The random numbers of one metric.

        They depend on the seed and the metric's name, not on what ran before.
        """
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])

    def pool(self) -> RowPool:
        """Hands out distinct rows, those in ``seen`` left out."""
        pool = RowPool(np.arange(self.units))
        if isinstance(self.ask, Asker):
            pool = self.ask.pool()  # knows which rows the model cannot tell apart
        if self.seen is None:
            return pool
        seen = np.asarray(self.seen, dtype=bool)
        if seen.ndim != 2 or seen.shape[1] != self.units:
            raise InputError(f"seen has shape {seen.shape}: expected masks (rows, {self.units})")
        pool.take(seen)
        return pool

    def probabilities(self, masks: Masks) -> Array | None:
        """The model's probability of the explained label for masks (m, n).

        Returns:
            (m,); None where the outputs do not give one.
        """
        assert self.ask is not None
        if self.outputs.kind in _TWO_SIDED:
            return np.asarray(np.exp(-np.logaddexp(0, -self.ask(masks))))
        if self.outputs.kind == "multiclass" and isinstance(self.ask, Asker):
            columns = self.ask.columns(masks)
            odds = np.exp(columns - columns.max(axis=1, keepdims=True))
            return np.asarray(odds[:, self.ask.target.column] / odds.sum(axis=1))
        return None

    def answered(self, masks: Masks) -> Masks | None:
        """Whether the model's answer is the explained label, for masks (m, n).

        Returns:
            (m,); None where the outputs do not say.
        """
        assert self.ask is not None
        if self.outputs.kind in _TWO_SIDED:
            return np.asarray(self.ask(masks) > 0)
        if self.outputs.kind == "multiclass" and isinstance(self.ask, Asker):
            predicted = self.ask.columns(masks).argmax(axis=1)
            return np.asarray(predicted == self.ask.target.column)
        return None

    def per_unit(self, numbers: ArrayLike, what: str) -> Array:
        """Numbers given per unit, (n,), checked.

        Args:
            numbers: what was given.
            what: what they are called in messages.

        Raises:
            InputError: they are not one finite number per unit.
        """
        try:
            checked = np.asarray(numbers, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the {what} has entries that are not numbers ({error}): give one number per unit"
            ) from error
        if checked.shape != (self.units,):
            raise InputError(
                f"the {what} has shape {checked.shape}: expected ({self.units},), "
                "one number per unit of the explanation"
            )
        if not np.isfinite(checked).all():
            raise InputError(
                f"the {what} has entries that are not finite: give one number per unit"
            )
        return checked


def ranking_scores(explanation: Explanation, score: str | None = None) -> Array:
    """The score that ranks units, (n,).

    Args:
        explanation: of n units.
        score: None: ``DEFAULT_SCORE``; additive explanations have one score under most names.
    """
    return explanation.scores(score or DEFAULT_SCORE)
