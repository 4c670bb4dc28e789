"""A case: a kind, a seed, and what came of it."""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

LONGEST = 900  # seconds of this process: a case that computes longer than that hangs


@dataclass
class Outcome:
    """What a case found.

    Attributes:
        counts: how much of what was done, by name.
        problems: what broke, a line each; the part before ": " says what, the rest with which.
        told: what the case was, for people.
        trace: of a crash.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    told: str = ""
    trace: str = ""


class Hang(BaseException):
    """A case that does not end; no exception of a model, which the package would report as such."""


def guarded(run: Callable[[int, Outcome], None], seed: int) -> Outcome:
    """Runs a case; whatever it raises is a crash."""
    outcome = Outcome()
    try:
        with _limit(LONGEST):
            run(seed, outcome)
    except (Exception, Hang) as error:
        outcome.problems.append(crash(error))
        outcome.trace = traceback.format_exc()
    return outcome


def crash(error: BaseException) -> str:
    """A crash as one line: what, and where in the package."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "slalom_xai" in frame.filename] or list(frames)
    where = f"{Path(inside[-1].filename).name} {inside[-1].name}" if inside else "nowhere"
    return f"{type(error).__name__} in {where}: {' '.join(str(error).split())[:160]}"


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Ends what hangs, where the system has timers.

    The processor's time counts, not the clock's, so that a busy machine makes no difference.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Hang(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
