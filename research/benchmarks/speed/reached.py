"""The time to an error: with how many calls a method is as good as another library with 5000."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

Record = dict[str, Any]


@dataclass(frozen=True)
class Reached:
    """One of our methods against one of the others, averaged over texts.

    Attributes:
        rival: the other method.
        rival_error: its mean wide error with 5000 calls.
        rival_seconds: its mean time.
        method: ours.
        calls: the fewest on the ladder with an error at most as large; None: none of them.
        error: there.
        seconds: there.
    """

    rival: str
    rival_error: float
    rival_seconds: float
    method: str
    calls: int | None
    error: float
    seconds: float

    @property
    def faster(self) -> float:
        """How many times less time ours takes; 0 where it never gets there."""
        if self.calls is None:
            return 0.0
        return self.rival_seconds / self.seconds


def reached(records: list[Record], model: str) -> list[Reached]:
    """Every method of ours against every other, over the texts that have both."""
    records = [one for one in records if one["model"] == model and "wide" in one]
    tried: dict[tuple[str, int], dict[int, Record]] = {}
    for one in records:
        tried.setdefault((one["method"], one["budget"]), {})[one["text"]] = one
    rivals = {
        name: budget
        for name, budget in tried
        if name.startswith(("shap", "lime", "captum", "interpreto"))
    }
    return [
        _against(rival, tried[(rival, budget)], method, tried)
        for rival, budget in rivals.items()
        for method in dict.fromkeys(name for name, _ in tried if name not in rivals)
    ]


def _against(
    rival: str,
    theirs: dict[int, Record],
    method: str,
    tried: dict[tuple[str, int], dict[int, Record]],
) -> Reached:
    error, seconds = _means(theirs, set(theirs))
    for budget in sorted(calls for name, calls in tried if name == method):
        ours = tried[(method, budget)]
        if set(theirs) <= set(ours):
            own, time = _means(ours, set(theirs))
            if own <= error:
                return Reached(rival, error, seconds, method, budget, own, time)
    return Reached(rival, error, seconds, method, None, float("nan"), float("nan"))


def _means(records: dict[int, Record], texts: set[int]) -> tuple[float, float]:
    """Mean wide error and mean of the median seconds over texts."""
    chosen = [records[text] for text in texts]
    errors = [one["wide"] for one in chosen]
    seconds = [statistics.median(one["seconds"]) for one in chosen]
    return float(np.mean(errors)), float(np.mean(seconds))


def reached_table(records: list[Record]) -> list[str]:
    """Markdown."""
    lines: list[str] = []
    for model in dict.fromkeys(one["model"] for one in records):
        for one in reached(records, model):
            ours = "not in less time | | | "
            if one.calls is not None:
                ours = f"{one.calls} | {one.error:.3g} | {one.seconds:.3g} | {one.faster:.1f}"
            theirs = f"{one.rival} | {one.rival_error:.3g} | {one.rival_seconds:.3g}"
            lines.append(f"| {model} | {theirs} | `{one.method}` | {ours} |")
    if not lines:
        return []
    head = (
        "| model | other, 5000 calls | wide error | seconds | ours | calls | wide error | seconds "
        "| times faster |"
    )
    return [head, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |", *lines]
