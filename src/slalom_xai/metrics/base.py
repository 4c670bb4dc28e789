"""What a metric is, the register of metrics, and running them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from slalom_xai.errors import InputError, one_of
from slalom_xai.metrics.case import Array, Case
from slalom_xai.metrics.needs import Need
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
