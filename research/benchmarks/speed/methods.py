"""What is timed: a method explains a text and hands back how it predicts deletions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from research.benchmarks.speed.floor import Row
from research.benchmarks.speed.record import Recorder
from research.benchmarks.speed.subjects import Array, Lab, Masks, Subject

Predict = Callable[[Masks], Array]  # masks (m, n) to predicted outputs (m,), up to a constant
UNTESTED = "slalom-eff-untested"  # without rows as long as the text
OURS = ("slalom", "slalom-eff", UNTESTED, "slalom-fidel", "linear")


@dataclass(frozen=True)
class Asked:
    """What a method asks the model about one text: all rows, and the distinct ones."""

    calls: int
    rows: list[Row]


class Method(ABC):
    """Something that explains texts.

    Attributes:
        name: for tables.
    """

    name: str

    @abstractmethod
    def explain(self, subject: Subject) -> Predict:
        """Explains a text: this is what the clock measures."""

    @abstractmethod
    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""

    def explain_all(self, texts: list[str]) -> int:
        """Explains many texts at once; how many calls that took. Only our methods can."""
        raise NotImplementedError(f"{self.name} explains one text at a time")


def _method(name: str) -> Any:
    """A method of slalom-xai by its name here."""
    if name != UNTESTED:
        return name
    from slalom_xai.methods import SlalomEff

    return SlalomEff(tested=False)


class Ours(Method):
    """A method of slalom-xai.

    Args:
        lab: the model.
        name: of the method.
        budget: model calls.
    """

    def __init__(self, lab: Lab, name: str, budget: int) -> None:
        from slalom_xai import Explainer

        self.name = name
        self._lab = lab
        self._budget = budget
        self._explainer = Explainer(
            lab.model, lab.tokenizer, method=_method(name), budget=budget, show_progress=False
        )

    def explain(self, subject: Subject) -> Predict:
        """Explains a text."""
        return self._explainer(subject.text).predict

    def explain_all(self, texts: list[str]) -> int:
        """Explains many texts at once; how many calls that took."""
        return sum(explanation.calls for explanation in self._explainer(texts))

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""
        return self.asked_all([subject.text])

    def asked_all(self, texts: list[str]) -> Asked:
        """What it asks about texts, from an extra run with the model as a plain module."""
        from slalom_xai import Explainer

        recorder = Recorder(self._lab.model).eval()
        batch_tokens = None
        if next(self._lab.model.parameters()).itemsize < 4:
            # In half precision padding changes the last digits, and a plain module is refused for
            # that: every row goes alone.
            batch_tokens = 1
        explainer = Explainer(
            recorder,
            self._lab.tokenizer,
            method=_method(self.name),
            budget=self._budget,
            batch_tokens=batch_tokens,
            show_progress=False,
        )
        calls = sum(explanation.calls for explanation in explainer(texts))
        return Asked(calls, list(recorder.rows))
