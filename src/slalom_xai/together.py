"""Many texts at once: while each is explained by itself, what they ask and what they fit is done in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from slalom_xai.errors import SlalomError
from slalom_xai.models import TextModel
from slalom_xai.models.rows import Rows
from slalom_xai.queries import Asking, Gained, Given, Progress
from slalom_xai.threads import at_most
from slalom_xai.turns import Job, take_turns

Found = TypeVar("Found")

ROOM = 4_000_000  # calls times units of the texts under way: what they hold in memory


@dataclass(frozen=True)
class _Question:
    """Rows to ask."""

    asked: Sequence[Rows]
    progress: Progress | None


@dataclass(frozen=True)
class _Task:
    """Something to work out."""

    work: Callable[[Sequence[Any]], Sequence[Any]]
    given: Any


_Request = _Question | _Task


class Together:
    """Stands in for ``Batches`` while a text waits for its turn."""

    def __init__(self, model: TextModel, ask: Callable[[_Request], Any]) -> None:
        self.model = model
        self._ask = ask

    def answer(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """Answers to rows, found with those of other texts."""
        found: list[Tensor] = self._ask(_Question(asked, progress))
        return found

    def worked_out(self, work: Callable[[Sequence[Given]], Sequence[Gained]], given: Given) -> Gained:
        """What ``work`` makes of something, done with what other texts give it."""
        gained: Gained = self._ask(_Task(work, given))
        return gained


def explain_together(
    explain: Callable[[Asking, int], Found], weights: Sequence[float], batches: Asking, threads: int | None = None
) -> Iterator[tuple[int, Found | BaseException]]:
    """Explains texts by their numbers, and yields each explanation, or what it failed with, when it is done.

    Args:
        explain: a text's number to its explanation, asking what it is given.
        weights: of each text, calls times units.
        batches: asks the model.
        threads: to fit with; None: torch's number.
    """

    def job(number: int) -> Callable[[Callable[[_Request], Any]], Found]:
        return lambda ask: explain(Together(batches.model, ask), number)

    jobs: list[Job[_Request, Found]] = [Job(job(number), weight) for number, weight in enumerate(weights)]
    return take_turns(jobs, lambda requests: _done(batches, requests, threads), ROOM)


def _done(batches: Asking, requests: Sequence[_Request], threads: int | None) -> list[Any]:
    """What each request asks for, in their order."""
    found: dict[int, Any] = {}
    for work in dict.fromkeys(request.work if isinstance(request, _Task) else None for request in requests):
        places = [place for place, request in enumerate(requests) if (request.work if isinstance(request, _Task) else None) is work]
        if work is None:
            answers: Sequence[Any] = _answered(batches, [request for request in requests if isinstance(request, _Question)])
        else:
            given = [request.given for request in requests if isinstance(request, _Task) and request.work is work]
            with at_most(threads):
                answers = work(given)
        found.update(zip(places, answers, strict=True))
    return [found[place] for place in range(len(requests))]


def _answered(batches: Asking, questions: Sequence[_Question]) -> list[Any]:
    """All answers at once; where that fails, those of each text, so that an error meets the text that caused it."""
    try:
        every = batches.answer([rows for question in questions for rows in question.asked], questions[0].progress)
    except SlalomError as error:
        return [error] if len(questions) == 1 else [answer for question in questions for answer in _answered(batches, [question])]
    left = iter(every)
    return [[next(left) for _ in question.asked] for question in questions]
