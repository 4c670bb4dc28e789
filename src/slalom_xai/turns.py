"""Several jobs that take turns: each runs until it asks for something, and what all of them wait for is answered in one go.

A job is ordinary code that calls ``ask`` and gets an answer. It runs in a thread of its own, but never beside another: one job at
a time, in a fixed order, so that results do not depend on chance. Answers are found by whoever called ``take_turns``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")
Ask = Callable[[Request], Any]
Answer = Callable[[Sequence[Request]], Sequence[Any]]


@dataclass(frozen=True)
class Job(Generic[Request, Result]):
    """Something to do.

    Attributes:
        work: is given ``ask`` and returns a result.
        weight: how much of the room it takes.
    """

    work: Callable[[Ask[Request]], Result]
    weight: float


class _Stopped(BaseException):
    """Unwinds a job whose answer nobody needs any more."""


class _Turn(Generic[Request, Result]):
    """A job that has begun."""

    def __init__(self, place: int, job: Job[Request, Result]) -> None:
        self.place, self.weight = place, job.weight
        self.request: Request | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.finished = False
        self._answer: Any = None
        self._work = job.work
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self, answer: Any = None) -> None:
        """Lets the job run with an answer, an exception raising one, until it asks again or ends."""
        self._answer, self.request = answer, None
        self._go.release()
        self._back.acquire()

    def stop(self) -> None:
        """Ends a job that waits for an answer."""
        self._stopping = True
        self._go.release()

    def _run(self) -> None:
        try:
            self._wait()
            self.result = self._work(self._ask)
        except BaseException as error:
            self.error = error
        self.finished = True
        self._back.release()

    def _ask(self, request: Request) -> Any:
        self.request = request
        self._back.release()
        self._wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def _wait(self) -> None:
        self._go.acquire()
        if self._stopping:
            raise _Stopped


def take_turns(
    jobs: Sequence[Job[Request, Result]], answer: Answer[Request], room: float, most: int = 64
) -> Iterator[tuple[int, Result | BaseException]]:
    """Works through jobs, and yields the place and the result, or the error, of each as it ends.

    Args:
        jobs: begun in their order.
        answer: requests to as many answers; an exception among them is raised where that job asked.
        room: the weights of jobs under way add up to no more than this, unless it is one alone.
        most: jobs under way at most.
    """
    waiting, running = deque(enumerate(jobs)), list[_Turn[Request, Result]]()
    try:
        while waiting or running:
            answers: Sequence[Any] = answer([turn.request for turn in running if turn.request is not None]) if running else ()
            for turn, found in zip(running, answers, strict=True):
                turn.go_on(found)
            while waiting and len(running) < most:
                if running and sum(turn.weight for turn in running) + waiting[0][1].weight > room:
                    break
                running.append(_Turn(*waiting.popleft()))
                running[-1].go_on()
            for turn in [turn for turn in running if turn.finished]:
                running.remove(turn)
                yield turn.place, turn.error if turn.error is not None else turn.result  # type: ignore[misc]
    finally:
        for turn in running:
            turn.stop()
