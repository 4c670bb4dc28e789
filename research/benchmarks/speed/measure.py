"""Times methods side by side, each beside its floor."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from research.benchmarks.results_file import ResultsFile, say
from research.benchmarks.speed.floor import Floor, Runner
from research.benchmarks.speed.methods import Asked, Method, Predict
from research.benchmarks.speed.subjects import Subject
from research.clock import clocked

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
    memory: float | None = None  # MiB beyond the model

    def turn(self, subject: Subject) -> None:
        """One measurement of the method and one of its floor, right after each other."""
        self.seconds.append(seconds_of(lambda: self.method.explain(subject), subject.runner))
        self.floors.append(self.floor.seconds())


def side_by_side(
    methods: Sequence[Method], subject: Subject, repeats: int, log: ResultsFile, label: str
) -> list[dict[str, Any]]:
    """Measures methods in turns, so that a slow minute of the machine hits all of them.

    Methods that fail say so and are left out.
    """
    timed: list[Timed] = []
    failed: list[dict[str, Any]] = []
    for method in methods:
        if log.late(f"{label}, {method.name}"):
            break
        say(f"{label}: {method.name}: its rows and their floor")
        try:
            timed.append(_prepared(method, subject))
        except Exception as error:  # whatever another library throws: the rest goes on
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            say(f"{label}: {method.name} failed: {reason}")
            failed.append({"method": method.name, "tokens": len(subject), "failed": reason})
    for turn in range(repeats):
        for one in timed:
            if turn and log.late(f"{label}, turn {turn + 1} of {one.method.name}"):
                break
            say(f"{label}: {one.method.name}: turn {turn + 1} of {repeats}")
            one.turn(subject)
    errors = held_out_errors(timed, subject)
    return failed + [_record(one, subject) | errors[one.method.name] for one in timed]


def _prepared(method: Method, subject: Subject) -> Timed:
    """Warm, with its rows known; on a GPU with its peak of memory, too."""
    asked = method.asked(subject)
    floor = Floor(subject.runner, asked.rows)
    predict, memory = with_peak(lambda: method.explain(subject), subject.runner)
    return Timed(method, asked, floor, predict, memory=memory)


def _record(one: Timed, subject: Subject) -> dict[str, Any]:
    return {
        "method": one.method.name,
        "tokens": len(subject),
        "calls": one.asked.calls,
        "distinct": len(one.floor.rows),
        "seconds": one.seconds,
        "floor": one.floors,
        "way": str(one.floor.way),
        "memory": one.memory,
    }


def seconds_of(work: Callable[[], object], runner: Runner) -> float:
    """How long something takes, the device being idle before and after."""
    return clocked(work, runner.device)


def with_peak(work: Callable[[], Predict], runner: Runner) -> tuple[Predict, float | None]:
    """A result, and on a GPU how many MiB it took beyond what was there."""
    if runner.device.type != "cuda":
        return work(), None
    runner.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = work()
    runner.synchronize()
    return found, (torch.cuda.max_memory_allocated() - before) / 2**20


def held_out_errors(timed: Sequence[Timed], subject: Subject) -> dict[str, dict[str, float]]:
    """Mean squared errors of predicted changes, by method.

    They are measured on rows that none of the methods has asked: with 1 to 10 deletions (local) and
    with any number of them (wide).
    """
    held_out = FreshRows(subject, [one.asked for one in timed])
    return {one.method.name: held_out.errors(one.predict) for one in timed}


class FreshRows:
    """Fresh rows of a text and the model's answers.

    Args:
        subject: the text.
        asked: what methods asked; none of that is among the fresh rows.
        seed: of the draw.
    """

    def __init__(self, subject: Subject, asked: Sequence[Asked], seed: int = 77) -> None:
        rng = np.random.default_rng(seed)
        seen = {row for one in asked for row in one.rows}
        self._whole = np.ones((1, len(subject)), dtype=bool)
        self._tests = {}
        for regime, most in (("local", 10), ("wide", len(subject) - 1)):
            masks = subject.deletions(FRESH, most, rng)
            masks = masks[[subject.row(mask) not in seen for mask in masks]]
            self._tests[regime] = masks, subject.ask(masks) - subject.full

    def errors(self, predict: Predict) -> dict[str, float]:
        """Mean squared errors of predicted changes, local and wide."""
        return {
            regime: float(np.mean((predict(masks) - predict(self._whole) - changes) ** 2))
            for regime, (masks, changes) in self._tests.items()
        }


def ratio(seconds: Sequence[float], floors: Sequence[float]) -> float:
    """The median of paired ratios: both of a pair were measured one right after the other."""
    return statistics.median(one / floor for one, floor in zip(seconds, floors, strict=False))
