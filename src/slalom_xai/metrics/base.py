"""What a metric is, the register of metrics, and running them."""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from slalom_xai.errors import InputError, one_of
from slalom_xai.explanation import Explanation
from slalom_xai.methods.scores import DEFAULT_SCORE, SCORES
from slalom_xai.metrics.model_answers import Array, Ask, Asker, Masks
from slalom_xai.metrics.statistics import spearman
from slalom_xai.models.outputs import Outputs
from slalom_xai.slalom.rows import RowPool

# What a metric may need beside the explanation that it judges.


class Need(Enum):
    """Something that a metric declares in ``needs`` and finds in a field of ``Case``.

    A benchmark provides what the chosen metrics need and knows none of them by name. The value is
    what a user reads where it is missing; the field of ``Case`` stands in brackets.
    """

    ANSWERS = "the model's answers (ask)"
    RATIONALE = "the marks of people, a zero or one per unit (rationale)"
    OTHER_METHODS = "another explanation of the text (others)"
    OTHER_SEEDS = "explanations by the same method with other seeds (others)"
    NAIVE_BAYES = "Naive Bayes weights per unit (naive_bayes)"
    SECONDS = "the seconds that the explanation took (seconds)"


# What a metric is computed from: an explanation, a way to ask the model, data about the text.


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


# What a metric is, the register of metrics, and running them.


Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Number:
    """One number that a metric gives.

    Attributes:
        direction: which is better; None for context that is neither.
        low: the least it can be.
        high: the most it can be.
        says: what it says, in a few words.
    """

    direction: Direction | None
    low: float
    high: float
    says: str

    @property
    def range(self) -> str:
        """The range in print: an end that can be reached stands in a square bracket."""
        low = f"[{self.low:g}".replace("-", "−")
        if math.isinf(self.low):
            low = "(−∞"
        high = f"{self.high:g}]"
        if math.isinf(self.high):
            high = "∞)"
        return f"{low}, {high}"


@dataclass(frozen=True)
class Measured:
    """What a metric measured.

    Attributes:
        values: numbers by name; NaN where one does not exist.
        reason: why a number is NaN, in a sentence; empty where none is.
    """

    values: Mapping[str, float]
    reason: str = ""

    def __getitem__(self, name: str) -> float:
        return self.values[name]


class Metric(ABC):
    """A metric. Inherit from this, decorate the class with ``register``, and it is one of them.

    Attributes:
        name: what users call it.
        summary: one line on what a good explanation does.
        reference: where it comes from.
        gives: its numbers by name; the first is the one to quote.
        needs: what it needs beside the explanation; a benchmark provides it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    gives: ClassVar[Mapping[str, Number]]
    needs: ClassVar[frozenset[Need]] = frozenset()

    @abstractmethod
    def measure(self, case: Case) -> Measured:
        """Computes the numbers of ``gives``.

        Data that is missing is no error: return ``lacks`` or ``unavailable``.

        Raises:
            InputError: data that cannot be used, such as a rationale of another length.
        """

    def unavailable(self, reason: str) -> Measured:
        """NaN for every number, with the reason."""
        return Measured(dict.fromkeys(self.gives, math.nan), reason)

    def lacks(self, need: Need) -> Measured:
        """NaN for every number, because the case does not have what the metric needs."""
        return self.unavailable(f"Needs {need.value}.")

    def rank_correlation(self, scores: Array, truth: Array, what: str) -> Measured:
        """Spearman's correlation as the one number of a metric, or why there is none.

        Args:
            scores: (n,), what the explanation says.
            truth: (n,), what it is compared with.
            what: what ``truth`` is called in the reason.
        """
        for numbers, name in ((truth, what), (scores, "scores")):
            if (numbers == numbers[0]).all():
                return self.unavailable(f"All {name} are equal: there is no ranking.")
        return Measured({next(iter(self.gives)): spearman(scores, truth)})


_Class = TypeVar("_Class", bound=type[Metric])
_register: dict[str, type[Metric]] = {}


def register(kind: _Class) -> _Class:
    """Class decorator: makes a metric known by its name."""
    _register[kind.name] = kind
    return kind


def metrics() -> dict[str, str]:
    """Every metric's name and what it says, in one line."""
    return {name: kind.summary for name, kind in _register.items()}


def catalogue() -> dict[str, type[Metric]]:
    """Every metric by name, with its numbers, their directions and ranges, and its reference."""
    return dict(_register)


def metric(wanted: str | Metric) -> Metric:
    """A metric by name, with its default settings, or the configured instance itself."""
    if isinstance(wanted, str):
        if wanted not in _register:
            raise one_of("metric", wanted, _register)
        return _register[wanted]()
    if not isinstance(wanted, Metric):
        raise InputError(
            f"metric is {wanted!r}: "
            f"give a name ({', '.join(_register)}) or an instance such as Deletion()"
        )
    return wanted


def measure(case: Case, wanted: Iterable[str | Metric] | None = None) -> dict[str, Measured]:
    """Computes metrics of one case.

    Args:
        case: the explanation, and what the metrics need.
        wanted: names or instances; None: every registered metric.

    Raises:
        InputError: anything but a case, or a metric that there is not.
    """
    if not isinstance(case, Case):
        raise InputError(
            f"expected a Case, got {type(case).__name__}: "
            'give measure(Case(explanation), ["cost"]), with whichever metrics you want'
        )
    if wanted is None:
        wanted = list(_register)
    chosen = [metric(one) for one in wanted]
    return {one.name: one.measure(case) for one in chosen}
