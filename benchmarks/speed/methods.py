"""What is timed: a method explains a text and hands back how it predicts deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from benchmarks.speed.floor import Row
from benchmarks.speed.record import Recorder
from benchmarks.speed.subjects import Array, Lab, Masks, Subject

Predict = Callable[[Masks], Array]  # masks (m, n) to predicted outputs (m,), up to a constant
OURS = ("slalom", "slalom-eff", "slalom-fidel", "linear")


@dataclass(frozen=True)
class Asked:
    """What a method asks the model about one text: all rows, and the distinct ones."""

    calls: int
    rows: list[Row]


class Method(Protocol):
    """Something that explains texts."""

    name: str

    def explain(self, subject: Subject) -> Predict:
        """Explains a text: this is what the clock measures."""

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""


class Ours:
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
            lab.model, lab.tokenizer, method=name, budget=budget, show_progress=False
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
        half = (
            next(self._lab.model.parameters()).itemsize < 4
        )  # padding then changes the last digits, which a plain module is refused for
        explainer = Explainer(
            recorder,
            self._lab.tokenizer,
            method=self.name,
            budget=self._budget,
            batch_tokens=1 if half else None,
            show_progress=False,
        )
        return Asked(
            sum(explanation.calls for explanation in explainer(texts)), list(recorder.rows)
        )
