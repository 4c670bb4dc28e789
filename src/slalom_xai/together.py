"""Many texts at once: while each is explained by itself, what they ask goes to the model in common batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor

from slalom_xai.errors import SlalomError
from slalom_xai.models import TextModel
from slalom_xai.models.rows import Rows
from slalom_xai.queries import Asking, Progress
from slalom_xai.turns import Job, take_turns

Found = TypeVar("Found")

ROOM = 4_000_000  # calls times units of the texts under way: what they hold in memory

_Request = tuple[Sequence[Rows], Progress | None]


class Together:
    """Stands in for ``Batches`` while a text waits for its turn."""

    def __init__(self, model: TextModel, ask: Callable[[_Request], Any]) -> None:
        self.model = model
        self._ask = ask

    def answer(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """Answers to rows, found with those of other texts."""
        found: list[Tensor] = self._ask((asked, progress))
        return found


def explain_together(
    explain: Callable[[Asking, int], Found], weights: Sequence[float], batches: Asking
) -> Iterator[tuple[int, Found | BaseException]]:
    """Explains texts by their numbers, and yields each explanation, or what it failed with, when it is done.

    Args:
        explain: a text's number to its explanation, asking what it is given.
        weights: of each text, calls times units.
        batches: asks the model.
    """
    jobs: list[Job[_Request, Found]] = [
        Job(lambda ask, number=number: explain(Together(batches.model, ask), number), weight)  # type: ignore[misc]
        for number, weight in enumerate(weights)
    ]
    return take_turns(jobs, lambda requests: _answered(batches, requests), ROOM)


def _answered(batches: Asking, requests: Sequence[_Request]) -> list[Any]:
    """All answers at once; where that fails, those of each text, so that an error meets the text that caused it."""
    try:
        every = batches.answer([rows for asked, _ in requests for rows in asked], requests[0][1])
    except SlalomError as error:
        return [error] if len(requests) == 1 else [answer for request in requests for answer in _answered(batches, [request])]
    left = iter(every)
    return [[next(left) for _ in asked] for asked, _ in requests]
