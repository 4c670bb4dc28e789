"""What a metric is, the register of metrics, and running them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeVar

from slalom_xai.errors import InputError, one_of
from slalom_xai.metrics.case import Array, Case
from slalom_xai.metrics.ranks import spearman

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
        low = "(−∞" if math.isinf(self.low) else f"[{self.low:g}".replace("-", "−")
        return f"{low}, {'∞)' if math.isinf(self.high) else f'{self.high:g}]'}"


@dataclass(frozen=True)
class Measured:
    """What a metric found.

    Attributes:
        values: numbers by name; NaN where one does not exist.
        reason: why a number is NaN, in a sentence; empty where none is.
    """

    values: Mapping[str, float]
    reason: str = ""

    def __getitem__(self, name: str) -> float:
        return self.values[name]


class Metric(Protocol):
    """A metric. Implement this, decorate the class with ``register``, and it is a metric like any other."""

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    gives: ClassVar[Mapping[str, Number]]  # the first is the one to quote

    def measure(self, case: Case) -> Measured:
        """Computes the numbers of ``gives``.

        Raises:
            InputError: data that cannot be used, such as a rationale of another length. Data that is missing is no error.
        """


_Class = TypeVar("_Class", bound=type[Metric])
_register: dict[str, type[Metric]] = {}


def register(found: _Class) -> _Class:
    """Class decorator: makes a metric known by its name."""
    _register[found.name] = found
    return found


def metrics() -> dict[str, str]:
    """Every metric's name and what it says, in one line."""
    return {name: found.summary for name, found in _register.items()}


def catalogue() -> dict[str, type[Metric]]:
    """Every metric by name, with its numbers, their directions and ranges, and its reference."""
    return dict(_register)


def metric(wanted: str | Metric) -> Metric:
    """A metric by name, with its default settings, or the configured instance itself."""
    if isinstance(wanted, str):
        if wanted not in _register:
            raise one_of("metric", wanted, _register)
        return _register[wanted]()
    if isinstance(wanted, type) or not hasattr(wanted, "measure"):
        raise InputError(
            f"metric is {wanted!r}: give a name ({', '.join(_register)}) or an instance such as Deletion()"
        )
    return wanted


def measure(case: Case, wanted: Iterable[str | Metric] | None = None) -> dict[str, Measured]:
    """Computes metrics of one case.

    Args:
        case: the explanation, and what the metrics need.
        wanted: names or instances; None: every registered metric.
    """
    chosen = [metric(one) for one in (_register if wanted is None else wanted)]
    return {one.name: one.measure(case) for one in chosen}


def unavailable(found: Metric | type[Metric], reason: str) -> Measured:
    """NaN for every number of a metric, with the reason."""
    return Measured(dict.fromkeys(found.gives, math.nan), reason)


def rank_correlation(
    found: Metric | type[Metric], scores: Array, truth: Array, what: str
) -> Measured:
    """Spearman's correlation as a metric's one number, or why there is none."""
    for numbers, name in ((truth, what), (scores, "scores")):
        if (numbers == numbers[0]).all():
            return unavailable(found, f"All {name} are equal: there is no ranking.")
    return Measured({next(iter(found.gives)): spearman(scores, truth)})
