"""The time to an error: how many calls our methods need to be as good as others with 5000.

Each of our methods climbs a ladder of calls until it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.benchmarks.results_file import ResultsFile, say
from research.benchmarks.speed.measure import FreshRows, seconds_of
from research.benchmarks.speed.methods import Predict
from research.benchmarks.speed.others import build
from research.benchmarks.speed.subjects import Lab, Subject

RIVALS = ("shap-partition", "shap-kernel", "lime")  # whose error at RIVAL_CALLS is to be reached
RIVAL_CALLS = 5000
NO_CHANCE = 3.0  # times the largest of their errors: a method this far off climbs no further ...
NO_CHANCE_FROM = 1000  # ... once it has so many calls
LADDER = (100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000)


@dataclass(frozen=True)
class Rung:
    """Means over texts of one method with some calls."""

    wide: float
    seconds: float


class Climb:
    """Measures methods on the same texts.

    Args:
        lab: the model.
        subjects: the texts.
        repeats: measurements of each of our runs; the others take long enough to be measured once.
        base: what every record says.
        log: where records go.
    """

    def __init__(
        self,
        lab: Lab,
        subjects: Sequence[Subject],
        repeats: int,
        base: dict[str, Any],
        log: ResultsFile,
    ) -> None:
        self._lab = lab
        self._subjects = subjects
        self._repeats = repeats
        self._base = base
        self._log = log

    def run(self, rivals: Sequence[str], methods: Sequence[str]) -> None:
        """The others first, then each method from the first rung.

        A method climbs until it beats all others, takes longer than any of them, or has no chance.
        """
        rungs = [self.rung(rival, RIVAL_CALLS, 1) for rival in rivals]
        theirs = [rung for rung in rungs if rung is not None]
        if not theirs:
            return
        aim, limit = min(rung.wide for rung in theirs), max(rung.seconds for rung in theirs)
        hopeless = NO_CHANCE * max(rung.wide for rung in theirs)
        for method in methods:
            for calls in LADDER:
                rung = self.rung(method, calls, self._repeats)
                if self._log.left <= 0:
                    return
                if rung is None:
                    continue
                no_chance = calls >= NO_CHANCE_FROM and rung.wide > hopeless
                if rung.wide <= aim or rung.seconds > limit or no_chance:
                    break

    def rung(self, method: str, calls: int, repeats: int) -> Rung | None:
        """One method with some calls on all texts.

        Returns:
            None where the method cannot do that, or there is no time left.
        """
        records = []
        for number, subject in enumerate(self._subjects):
            if self._log.late(f"errors, {method} with {calls} calls"):
                return None
            record = self._measured(subject, method, calls, repeats)
            self._log.write(self._base | {"text": number, "budget": calls} | record)
            if "failed" in record:
                say(f"errors: {method}, {calls} calls: {record['failed']}")
                return None
            records.append(record)
        found = Rung(
            float(np.mean([one["wide"] for one in records])),
            float(np.mean([statistics.median(one["seconds"]) for one in records])),
        )
        say(
            f"errors: {method}, {calls} calls: wide error {found.wide:.3g}, {found.seconds:.3g} s "
            "a text"
        )
        return found

    def _measured(self, subject: Subject, method: str, calls: int, repeats: int) -> dict[str, Any]:
        """One method with some calls on one text: seconds and errors."""
        predictions: list[Predict] = []
        try:
            maker = build(self._lab, method, calls)
            asked = maker.asked(subject)
            seconds = [
                seconds_of(lambda: predictions.append(maker.explain(subject)), subject.runner)
                for _ in range(repeats)
            ]
            errors = FreshRows(subject, [asked]).errors(predictions[-1])
        except Exception as error:  # too small a budget, or a library's own trouble
            return {
                "method": method,
                "failed": " ".join(f"{type(error).__name__}: {error}".split())[:300],
            }
        return {
            "method": method,
            "tokens": len(subject),
            "calls": asked.calls,
            "distinct": len(asked.rows),
            "seconds": seconds,
            **errors,
        }
