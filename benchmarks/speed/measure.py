"""Times methods side by side, each beside its floor."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.speed.floor import Floor
from benchmarks.speed.log import Log, say
from benchmarks.speed.methods import Asked, Method, Predict
from benchmarks.speed.subjects import Subject

FRESH = 500  # held-out rows of either kind


@dataclass
class Timed:
    """One method on one text, measured several times."""

    method: Method
    asked: Asked
    floor: Floor
    predict: Predict
    seconds: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)


def side_by_side(methods: Sequence[Method], subject: Subject, repeats: int, log: Log, facts: dict[str, Any]) -> None:
    """Measures methods in turns, so that a slow minute of the machine hits all of them."""
    timed = []
    for method in methods:
        say(f"{facts.get('part', '')}: {method.name}, rows and floor")
        asked = method.asked(subject)
        timed.append(Timed(method, asked, Floor(subject.runner, asked.rows), method.explain(subject)))  # explaining: a warm-up, too
    for turn in range(repeats):
        for one in timed:
            say(f"{facts.get('part', '')}: {one.method.name}, turn {turn + 1} of {repeats}")
            one.seconds.append(seconds_of(one.method, subject))
            one.floors.append(one.floor.seconds())
    errors = held_out_errors(timed, subject)
    for one in timed:
        log.write(
            {
                **facts,
                "method": one.method.name,
                "tokens": len(subject),
                "calls": one.asked.calls,
                "distinct": len(one.floor.rows),
                "seconds": one.seconds,
                "floor": one.floors,
                "way": str(one.floor.way),
                **errors[one.method.name],
            }
        )


def seconds_of(method: Method, subject: Subject) -> float:
    """One explanation."""
    subject.runner.synchronize()
    start = time.perf_counter()
    method.explain(subject)
    subject.runner.synchronize()
    return time.perf_counter() - start


def held_out_errors(timed: Sequence[Timed], subject: Subject, seed: int = 77) -> dict[str, dict[str, float]]:
    """Mean squared errors of predicted changes on rows that none of the methods has asked: 1 to 10 deletions, and any number."""
    rng = np.random.default_rng(seed)
    seen = {row for one in timed for row in one.asked.rows}
    found: dict[str, dict[str, float]] = {one.method.name: {} for one in timed}
    for regime, most in (("local", 10), ("wide", len(subject) - 1)):
        masks = subject.deletions(FRESH, most, rng)
        masks = masks[[subject.row(mask) not in seen for mask in masks]]
        changes = subject.ask(masks) - subject.full
        whole = np.ones((1, len(subject)), dtype=bool)
        for one in timed:
            found[one.method.name][regime] = float(np.mean((one.predict(masks) - one.predict(whole) - changes) ** 2))
    return found


def ratio(seconds: Sequence[float], floors: Sequence[float]) -> float:
    """The median of paired ratios: both of a pair were measured one right after the other."""
    return statistics.median(one / floor for one, floor in zip(seconds, floors, strict=True))
