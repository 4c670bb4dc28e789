"""What a run says: progress, each failing case with its seed, and a summary."""

from __future__ import annotations

import sys
import time
from collections import Counter

from fuzz.cases import Outcome
from fuzz.trusting import too_many
from fuzz.workers import Done

SHOWN = 5  # cases of one sort that are told as they come; the others are only counted
EVERY = 30.0  # seconds between two lines of progress
LEAST_EXPLAINED = 0.5  # of the texts: a fuzz that is mostly refused tests little


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


class Report:
    """Counts what is done and remembers what broke."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: dict[str, list[str]] = {}
        self._begun = self._told = time.monotonic()

    def add(self, done: Done) -> None:
        """Takes in a case and tells its problems."""
        self.counts += done.outcome.counts
        for problem in dict.fromkeys(done.outcome.problems):
            self._failed(f"{done.kind}:{done.seed}", problem)
        if done.outcome.counts["claims that fail"]:
            name = f"{done.kind}:{done.seed}"
            say(f"  a claim of 90% that fails, counted: make fuzz CASE={name}")

    def _failed(self, case: str, problem: str) -> None:
        cases = self.failures.setdefault(problem.split(": ")[0], [])
        cases.append(case)
        if len(cases) <= SHOWN:
            say(f"FAILED {case}: {problem}\n  alone: make fuzz CASE={case}")

    def progress(self, always: bool = False) -> None:
        """A line on what is done, now and then."""
        now = time.monotonic()
        if not always and now - self._told < EVERY:
            return
        self._told = now
        failing = sum(map(len, self.failures.values()))
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))
        say(f"{now - self._begun:5.0f} s: {told or 'starting'}; {failing:,} failures")

    def verdict(self) -> bool:
        """Whether all is well; says what is not."""
        self.progress(always=True)
        claims, failing = self.counts["claims of 90%"], self.counts["claims that fail"]
        if too_many(claims, failing):
            self.failures["too many claims fail"] = [f"{failing} of {claims}"]
        if self.counts["texts explained"] < LEAST_EXPLAINED * self.counts["texts"]:
            share = f"{self.counts['texts explained']} of {self.counts['texts']}"
            self.failures["too few texts are explained"] = [share]
        for problem, cases in sorted(self.failures.items(), key=lambda item: -len(item[1])):
            say(f"{len(cases):5d} x {problem}: {', '.join(cases[:8])}")
        say("nothing broke" if not self.failures else "broken, as listed above")
        return not self.failures


def alone(case: str, outcome: Outcome) -> bool:
    """Tells one case in full; whether all is well."""
    say(f"{case}: {outcome.told}")
    say(outcome.trace)
    for problem in outcome.problems:
        say(f"FAILED {case}: {problem}")
    failing = outcome.counts["claims that fail"]
    say("nothing broke" if not outcome.problems and not failing else "broken, as listed above")
    return not outcome.problems and not failing
