"""What is timed: a method explains a text and hands back how it predicts deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from benchmarks.speed.floor import Row
from benchmarks.speed.record import Recorder
from benchmarks.speed.subjects import Array, Lab, Masks, Subject

Predict = Callable[[Masks], Array]  # masks (m, n) to predicted outputs (m,), up to a constant


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
        self._explainer = Explainer(lab.model, lab.tokenizer, method=name, budget=budget, show_progress=False)

    def explain(self, subject: Subject) -> Predict:
        """Explains a text."""
        return self._explainer(subject.text).predict

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run with the model as a plain module."""
        from slalom_xai import Explainer

        recorder = Recorder(self._lab.model).eval()
        explanation = Explainer(recorder, self._lab.tokenizer, method=self.name, budget=self._budget, show_progress=False)(subject.text)
        return Asked(explanation.calls, list(recorder.rows))
