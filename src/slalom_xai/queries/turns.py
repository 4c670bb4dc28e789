"""Several jobs that take turns: each runs until it asks for something.

What all of them wait for is then answered in one go. A job is ordinary code that calls ``hand_in``
with a request and gets a response. It runs in a thread of its own, but never beside another: one
job at a time, in a fixed order, so that results do not depend on chance. Whoever calls
``take_turns`` finds the responses.

Why threads and not generators: the request is made deep inside a method, often below code of other
libraries (shap and lime call a function and wait for what it returns). A generator would have to be
passed through all of that. A thread that waits needs nothing of the code around it. What torch and
Python keep for each thread (whether gradients are recorded, context variables) is carried over.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import torch

Request = TypeVar("Request")
Result = TypeVar("Result")
HandIn = Callable[[Request], Any]
Respond = Callable[[Sequence[Request]], Sequence[Any]]


@dataclass(frozen=True)
class Job(Generic[Request, Result]):
    """Something to do.

    Attributes:
        work: is given ``hand_in`` and returns a result.
        weight: how much of the room it takes.
    """

    work: Callable[[HandIn[Request]], Result]
    weight: float


class _Stopped(BaseException):
    """Unwinds a job whose response nobody needs any more."""


class _Signal:
    """One thread waits until another gives the signal.

    This is a bare lock, because a semaphore of Python's takes ten times as long.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def give(self) -> None:
        """Lets the thread go on that waits, or will wait; once, until it does."""
        self._lock.release()

    def wait(self) -> None:
        """Waits for the signal and takes it back."""
        self._lock.acquire()


class _Turn(Generic[Request, Result]):
    """A job that has begun: it runs only between ``go_on`` and its next request."""

    def __init__(self, number: int, job: Job[Request, Result]) -> None:
        self.number, self.weight = number, job.weight
        self.request: Request | None = None
        self.outcome: Result | BaseException | None = None
        self.finished = False
        self._response: Any = None
        self._work = job.work
        self._may_run = _Signal()
        self._has_paused = _Signal()
        self._stopping = False
        context = contextvars.copy_context()
        modes = _TorchModes.of_this_thread()
        self._thread = threading.Thread(target=context.run, args=(self._run, modes), daemon=True)
        self._thread.start()

    def go_on(self, response: Any = None) -> None:
        """Lets the job run until its next request or its end.

        A response that is an exception is raised in the job.
        """
        self._response, self.request = response, None
        self._may_run.give()
        self._has_paused.wait()

    def stop(self) -> None:
        """Ends a job that waits for a response, and waits until its thread is gone."""
        self._stopping = True
        self._may_run.give()
        self._thread.join()

    def _run(self, modes: _TorchModes) -> None:
        try:
            with modes.in_force():
                self._wait()
                self.outcome = self._work(self._hand_in)
        except BaseException as error:
            self.outcome = error
        self.finished = True
        self._has_paused.give()

    def _hand_in(self, request: Request) -> Any:
        self.request = request
        self._has_paused.give()
        self._wait()
        if isinstance(self._response, Exception):
            raise self._response
        return self._response

    def _wait(self) -> None:
        self._may_run.wait()
        if self._stopping:
            raise _Stopped


@dataclass(frozen=True)
class _TorchModes:
    """What torch keeps for each thread and a new thread would not know."""

    gradients: bool
    inference: bool

    @classmethod
    def of_this_thread(cls) -> _TorchModes:
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled())

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with torch.inference_mode(self.inference), torch.set_grad_enabled(self.gradients):
            yield


def take_turns(
    jobs: Sequence[Job[Request, Result]], respond: Respond[Request], room: float, most: int = 512
) -> Iterator[tuple[int, Result | BaseException]]:
    """Works through jobs; yields the number of each as it ends, with its result or its error.

    Args:
        jobs: begun in their order.
        respond: requests to as many responses; an exception among them is raised in its job.
        room: the weights of jobs under way add up to no more than this, unless it is one alone.
        most: jobs under way at most.
    """
    waiting = deque(enumerate(jobs))
    running: list[_Turn[Request, Result]] = []
    try:
        while waiting or running:
            _go_on(running, respond)
            while waiting and len(running) < most and _fits(waiting[0][1], running, room):
                running.append(_Turn(*waiting.popleft()))
                running[-1].go_on()
            for turn in [turn for turn in running if turn.finished]:
                running.remove(turn)
                yield turn.number, cast(Result | BaseException, turn.outcome)
    finally:
        for turn in running:
            turn.stop()


def _go_on(running: Sequence[_Turn[Request, Result]], respond: Respond[Request]) -> None:
    """Responds to all jobs under way, each of which waits."""
    if not running:
        return
    responses = respond([turn.request for turn in running if turn.request is not None])
    for turn, response in zip(running, responses, strict=True):
        turn.go_on(response)


def _fits(job: Job[Any, Any], running: Sequence[_Turn[Any, Any]], room: float) -> bool:
    """Whether there is room for one more job; there always is for the only one."""
    return not running or sum(turn.weight for turn in running) + job.weight <= room
