"""Many texts at once: each is explained by itself, while what they ask and fit is done in common.

A text's explanation is ordinary code that asks a model and waits for the answer. Here several of
them are under way. Whenever all of them wait, their rows go to the model in common batches, and
their fits are worked out together.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from slalom_xai.errors import ServiceError, SlalomError
from slalom_xai.models import TextModel
from slalom_xai.models.rows import Rows
from slalom_xai.queries.queries import AnswerSource, Item, Progress, WorkPool
from slalom_xai.system.process import at_most, new_threads_at_most

# Several jobs that take turns: each runs until it asks for something.
#
# What all of them wait for is then answered in one go. A job is ordinary code that calls
# ``hand_in`` with a request and gets a response. It has a thread for itself, but never runs beside
# another: one job at a time, in a fixed order, so that results do not depend on chance. Whoever
# calls ``take_turns`` finds the responses.
#
# Why threads and not generators: the request is made deep inside a method, often below code of
# other libraries (shap and lime call a function and wait for what it returns). A generator would
# have to be passed through all of that. A thread that waits needs nothing of the code around it.
# What torch and Python keep for each thread (whether gradients are recorded, context variables)
# is carried over.


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


class _Turn(Generic[Request, Result]):
    """A thread for one job after another: each runs only between a signal and its next request.

    A signal is something put into a queue, because a semaphore of Python's takes ten times as long.
    """

    number: int
    job: Job[Request, Result]

    def __init__(self) -> None:
        self.request: Request | None = None
        self.response: Any = None
        self.outcome: Result | BaseException | None = None
        self.finished = False
        self.may_run: SimpleQueue[None] = SimpleQueue()
        self.has_paused: SimpleQueue[None] = SimpleQueue()
        self.next = self.has_paused  # who is told when it pauses
        self._stopping = False
        around = contextvars.copy_context(), _TorchModes.of_this_thread()
        self.thread = threading.Thread(target=self._run, args=around, daemon=True)
        self.thread.start()

    def take(self, number: int, job: Job[Request, Result]) -> None:
        """The job to begin with when it may run."""
        self.number, self.job = number, job
        self.outcome, self.finished = None, False

    def stop(self) -> None:
        """Ends the thread, and a job that waits for a response."""
        self._stopping = True
        self.next = self.has_paused
        self.may_run.put(None)

    def _run(self, context: contextvars.Context, modes: _TorchModes) -> None:
        torch.get_num_threads()  # from here on, it is settled how many this thread has
        self.has_paused.put(None)
        while not self._stopping:
            try:
                self._wait()
                with modes.in_force():
                    self.outcome = context.copy().run(self.job.work, self._hand_in)
            except BaseException as error:
                self.outcome = error
            self.finished = True
            self.next.put(None)

    def _hand_in(self, request: Request) -> Any:
        self.request = request
        self.next.put(None)
        self._wait()
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    def _wait(self) -> None:
        self.may_run.get()
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
    jobs: Sequence[Job[Request, Result]],
    respond: Respond[Request],
    room: float,
    most: int = 1024,
    threads: int | None = None,
) -> Iterator[tuple[int, Result | BaseException]]:
    """Works through jobs; yields the number of each as it ends, with its result or its error.

    Args:
        jobs: begun in their order.
        respond: requests to as many responses; an exception among them is raised in its job.
        room: the weights of jobs under way add up to no more than this, unless it is one alone.
        most: jobs under way at most.
        threads: that torch may use in each of them; None: as many as it likes.
    """
    waiting = deque(enumerate(jobs))
    running: list[_Turn[Request, Result]] = []
    idle: list[_Turn[Request, Result]] = []
    try:
        while waiting or running:
            if running:
                responses = respond([turn.request for turn in running if turn.request is not None])
                for turn, response in zip(running, responses, strict=True):
                    turn.response, turn.request = response, None
                _go_on(running)
            begun = _take_first(waiting, running, room, most)
            _make_threads(len(begun) - len(idle), idle, threads)
            for number, job in begun:
                running.append(idle.pop())
                running[-1].take(number, job)
            _go_on(running[len(running) - len(begun) :])
            done = [turn for turn in running if turn.finished]
            running = [turn for turn in running if not turn.finished]
            idle += done
            for turn in done:
                yield turn.number, cast(Result | BaseException, turn.outcome)
    finally:
        for turn in (*running, *idle):
            turn.stop()
        for turn in (*running, *idle):
            turn.thread.join()


def _take_first(
    waiting: deque[tuple[int, Job[Request, Result]]],
    running: Sequence[_Turn[Request, Result]],
    room: float,
    most: int,
) -> list[tuple[int, Job[Request, Result]]]:
    """The jobs for which there is room beside those under way; there always is for the only one."""
    taken: list[tuple[int, Job[Request, Result]]] = []
    weight = sum(turn.job.weight for turn in running)
    while waiting and len(running) + len(taken) < most:
        weight += waiting[0][1].weight
        if (running or taken) and weight > room:
            break
        taken.append(waiting.popleft())
    return taken


def _make_threads(count: int, idle: list[_Turn[Request, Result]], threads: int | None) -> None:
    """Adds so many threads to those that are idle."""
    if count <= 0:
        return
    with new_threads_at_most(threads):
        for _ in range(count):
            idle.append(_Turn())
        for turn in idle[-count:]:
            turn.has_paused.get()


def _go_on(turns: Sequence[_Turn[Any, Any]]) -> None:
    """Lets jobs run to their next request or their end, one after another.

    Each wakes the one behind it: half as many changes of threads as through the caller.
    """
    if not turns:
        return
    for turn, behind in itertools.pairwise(turns):
        turn.next = behind.may_run
    turns[-1].next = turns[-1].has_paused
    turns[0].may_run.put(None)
    turns[-1].has_paused.get()


# Many texts at once: each is explained by itself, while what they ask and fit is done in common.


Explained = TypeVar("Explained")
Work = Callable[[Sequence[Any]], Sequence[Any]]

# Of all texts under way: what they hold in memory, about a byte for each.
MOST_ROWS_TIMES_UNITS = 4_000_000


@dataclass(frozen=True)
class _RowsToAsk:
    """What a text asks the model."""

    rows: Sequence[Rows]
    progress: Progress | None
    before: Sequence[int] | None

    @property
    def times(self) -> Sequence[int]:
        """How often each set of rows was asked before, as far as that matters."""
        return self.before or [0] * len(self.rows)


@dataclass(frozen=True)
class _ItemToWorkOn:
    """What a text wants to have computed."""

    work: Work
    item: Any


_Request = _RowsToAsk | _ItemToWorkOn
_HandIn = Callable[[_Request], Any]


class SharedSource:
    """Answers the rows of one text together with those of others."""

    def __init__(self, model: TextModel, hand_in: _HandIn) -> None:
        self.model = model
        self._hand_in = hand_in

    def columns(
        self,
        asked: Sequence[Rows],
        progress: Progress | None = None,
        before: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """The explained columns (m, C), float64, of each set of rows."""
        columns: list[Tensor] = self._hand_in(_RowsToAsk(asked, progress, before))
        return columns


class SharedWork:
    """Computes for one text together with others."""

    def __init__(self, hand_in: _HandIn) -> None:
        self._hand_in = hand_in

    def run(self, work: Callable[[Sequence[Item]], Sequence[Result]], item: Item) -> Result:
        """What ``work`` makes of an item, with those of other texts."""
        result: Result = self._hand_in(_ItemToWorkOn(work, item))
        return result


def explain_together(
    explain: Callable[[AnswerSource, WorkPool, int], Explained],
    weights: Sequence[float],
    source: AnswerSource,
    threads: int | None = None,
) -> Iterator[tuple[int, Explained | BaseException]]:
    """Explains texts by their numbers.

    Yields:
        Each text's number and its explanation, or what it failed with, when it is done.

    Args:
        explain: explains the text of a number, asking and computing through what it is given.
        weights: of each text, calls times units.
        source: asks the model.
        threads: to compute with; None: torch's number.
    """

    def job(number: int) -> Callable[[_HandIn], Explained]:
        return lambda hand_in: explain(
            SharedSource(source.model, hand_in), SharedWork(hand_in), number
        )

    jobs: list[Job[_Request, Explained]] = [
        Job(job(number), weight) for number, weight in enumerate(weights)
    ]

    def respond(requests: Sequence[_Request]) -> list[Any]:
        return _responses(source, requests, threads)

    return take_turns(jobs, respond, MOST_ROWS_TIMES_UNITS, threads=threads)


def _responses(
    source: AnswerSource, requests: Sequence[_Request], threads: int | None
) -> list[Any]:
    """What each request asks for, in their order: those that are alike are done together."""
    alike: dict[Work | None, list[int]] = {}
    for number, request in enumerate(requests):
        work = request.work if isinstance(request, _ItemToWorkOn) else None
        alike.setdefault(work, []).append(number)
    responses: dict[int, Any] = {}
    for work, numbers in alike.items():
        some = [requests[number] for number in numbers]
        if work is None:
            done: Sequence[Any] = _answers(source, [r for r in some if isinstance(r, _RowsToAsk)])
        else:
            with at_most(threads):
                done = work([r.item for r in some if isinstance(r, _ItemToWorkOn)])
        responses.update(zip(numbers, done, strict=True))
    return [responses[number] for number in range(len(requests))]


def _answers(source: AnswerSource, questions: Sequence[_RowsToAsk]) -> list[Any]:
    """All answers at once.

    Where that fails, they are asked text by text, so that an error meets the text that caused it.
    A server that serves us no more fails all of them.
    """
    every_row = [rows for question in questions for rows in question.rows]
    before = [times for question in questions for times in question.times]
    again = before if any(before) else None
    try:
        answers = iter(_on_cpu(source.columns(every_row, questions[0].progress, again)))
    except SlalomError as error:
        if len(questions) == 1 or isinstance(error, ServiceError):
            return [error] * len(questions)
        return [answer for question in questions for answer in _answers(source, [question])]
    return [[next(answers) for _ in question.rows] for question in questions]


def _on_cpu(answers: list[Tensor]) -> list[Tensor]:
    """Answers from a GPU, all in one copy: for each copy, one waits until the GPU has finished."""
    if not answers or answers[0].device.type == "cpu":
        return answers
    return list(torch.split(torch.cat(answers).cpu(), [len(part) for part in answers]))
