"""Many texts at once: each is explained by itself, while what they ask and fit is done in common.

A text's explanation is ordinary code that asks a model and waits for the answer. Here several of
them are under way. Whenever all of them wait, their rows go to the model in common batches, and
their fits are worked out together (``turns`` says how they wait).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from slalom_xai.errors import ServiceError, SlalomError
from slalom_xai.models import TextModel
from slalom_xai.models.rows import Rows
from slalom_xai.queries.sources import AnswerSource, Progress
from slalom_xai.queries.turns import Job, take_turns
from slalom_xai.queries.work import Item, Result, WorkPool
from slalom_xai.system.threads import at_most

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

    return take_turns(jobs, respond, MOST_ROWS_TIMES_UNITS)


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
        answers = iter(source.columns(every_row, questions[0].progress, again))
    except SlalomError as error:
        if len(questions) == 1 or isinstance(error, ServiceError):
            return [error] * len(questions)
        return [answer for question in questions for answer in _answers(source, [question])]
    return [[next(answers) for _ in question.rows] for question in questions]
