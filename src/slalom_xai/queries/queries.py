"""All calls to a model about one text: each distinct row is asked once, every call is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import BudgetError
from slalom_xai.models import Prompt, TextModel
from slalom_xai.models.rows import Rows

# What answers rows, and what is told how far that is.


class Progress(Protocol):
    """What a progress bar must do."""

    def start(self, total: int) -> None:
        """Expect this many more rows."""

    def advance(self, rows: int, spent: str = "") -> None:
        """Some rows are answered, by a model that has cost so much so far."""


class AnswerSource(Protocol):
    """What answers rows: ``Batches``, or whoever collects what several texts ask."""

    @property
    def model(self) -> TextModel:
        """What is asked."""

    def columns(
        self,
        asked: Sequence[Rows],
        progress: Progress | None = None,
        before: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """The explained columns (m, C), float64, of each set of rows.

        A model answers with logits; ``Outputs.columns`` makes columns of them.

        Args:
            asked: sets of rows.
            progress: shown while asking.
            before: of each set, how often its row was asked before, where the model shall answer
                once more whatever is stored; None: nothing is asked once more.
        """


# Computations that may wait for those of other texts, so that all are done in one go.
#
# A fit is many small steps. Those of ten texts take hardly longer than those of one when they are
# done together. So a method hands a fit to a ``WorkPool`` and does not care whether others join
# it.


Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkPool(Protocol):
    """Where computations are handed in."""

    def run(self, work: Callable[[Sequence[Item]], Sequence[Result]], item: Item) -> Result:
        """What ``work`` makes of an item; ``work`` takes several items at once, in their order."""


class OneByOne:
    """Computes at once."""

    def run(self, work: Callable[[Sequence[Item]], Sequence[Result]], item: Item) -> Result:
        """What ``work`` makes of an item, alone."""
        return work([item])[0]


# All calls to a model about one text: each distinct row is asked once, every call is counted.


Purpose = Literal["fit", "check"]

# Answers stay where the model is, for a text of more units than this or for more calls. A CPU fits
# less sooner, in many small steps.
LONG_TEXT = 64
MANY_CALLS = 2_000


class Queries:
    """All calls to a model about one text: counted, never repeated, never over budget.

    Args:
        source: answers rows; shared with other texts, so that what it learned stays learned.
        prompt: the text as the model reads it.
        budget: rows that may be asked, distinct ones and repeats.
        progress: shown while asking.
        first: calls to begin with, where the method may stop before the budget; None: it should use
            the budget.
        work: where methods hand in their fits and covariances.

    Attributes:
        watcher: is given what a method found so far; None: nobody watches.
    """

    def __init__(
        self,
        source: AnswerSource,
        prompt: Prompt,
        *,
        budget: int,
        progress: Progress | None = None,
        first: int | None = None,
        work: WorkPool | None = None,
    ) -> None:
        self.model = source.model
        self.prompt = prompt
        self.budget = budget
        self.first = first
        self.calls_fit = 0
        self.calls_check = 0
        self.asked_sequences = False
        self.watcher: Callable[[Any], None] | None = None
        self.work = work or OneByOne()
        self._source = source
        self._progress = progress
        self._whole = prompt.rows(prompt.whole)
        large = len(prompt.units) > LONG_TEXT or budget > MANY_CALLS
        self._home = self.model.device if large else torch.device("cpu")
        self._answers: Tensor | None = None  # (calls, C)
        self._numbers: dict[int, int] = {}  # which of them answers the row with a key
        self._checked: set[int] = set()
        self._repeats = 0
        self.whole_variance: Tensor | None = None  # of the answer to the whole text, (C,)
        self.output_range: tuple[Tensor, Tensor] | None = None  # of the model, (C,) each, if known
        self.noise: Tensor | None = None  # variance of a single answer, (C,); None: a steady model

    @property
    def calls(self) -> int:
        """Rows asked so far, repeats of the whole text among them."""
        return self.calls_fit + self.calls_check

    @property
    def distinct_budget(self) -> int:
        """Distinct rows that may be asked."""
        return self.budget - self._repeats

    @property
    def asked(self) -> NDArray[np.int64]:
        """The keys of all rows asked so far."""
        return np.fromiter(self._numbers, dtype=np.int64, count=len(self._numbers))

    def ask(self, masks: NDArray[np.bool_], purpose: Purpose = "fit") -> Tensor:
        """The model's explained columns (m, C), float64, for rows of masks (m, n).

        Raises:
            BudgetError: more new rows than the budget leaves.
            ModelError: an answer that is not finite, or a row that does not fit into memory.
        """
        return self.ask_rows((self.prompt.rows(masks), purpose))[0]

    def ask_whole(self, purpose: Purpose = "fit") -> Tensor:
        """The model's explained columns for the whole text, (C,)."""
        return self.ask_rows((self._whole, purpose))[0][0]

    def ask_again(self, times: int, before: int = 1) -> None:
        """Asks the whole text so many times more, of a model that does not repeat itself.

        The mean of all answers becomes the answer; ``whole_variance`` (C,) is the mean's variance.
        Every question counts as a call.

        Args:
            times: how often.
            before: how often the model was asked about the whole text before, by anybody.
        """
        first = self.ask_whole()[None]
        self._check_budget(times)
        if self._progress:
            self._progress.start(times)
        rows = self._whole.take(np.zeros(times, dtype=np.int64))
        again = self._source.columns([rows], self._progress, [before])[0].to(first)
        all_answers = torch.cat([first, again])
        assert self._answers is not None
        self._answers[self._numbers[int(self._whole.keys[0])]] = all_answers.mean(dim=0)
        self.noise = all_answers.var(dim=0)
        self.whole_variance = self.noise / len(all_answers)
        self._repeats += times
        self.calls_fit += times

    def show(self, find: Callable[[], Any]) -> None:
        """Shows what a method found so far, where somebody watches.

        Args:
            find: makes the findings, and asks nothing new; it is called only where somebody
                watches, so that the result is the same whether or not somebody does.
        """
        if self.watcher is not None:
            self.watcher(find())

    def noise_is_unknown(self) -> None:
        """The model does not repeat itself, and no calls are left to see by how much."""
        self.noise = torch.full_like(self.ask_whole(), torch.nan)

    def ask_sequences(self, units: NDArray[np.int64], purpose: Purpose = "fit") -> Tensor:
        """Like ``ask``, for sequences of units in any order, (m, w).

        -1 stands for no unit, at the end of a row.
        """
        self.asked_sequences = True
        return self.ask_rows((self.prompt.sequences(units), purpose))[0]

    def ask_rows(self, *asked: tuple[Rows, Purpose]) -> list[Tensor]:
        """The model's explained columns, (m, C) each, for several sets of rows asked together."""
        keys = [rows.keys.tolist() for rows, _ in asked]
        to_fit: set[int] = set()
        for row_keys, (_, purpose) in zip(keys, asked, strict=True):
            if purpose == "fit":
                to_fit.update(row_keys)
        self._now_fitted(to_fit)
        new: dict[int, int] = {}
        parts: list[Rows] = []
        for row_keys, (rows, _) in zip(keys, asked, strict=True):
            indices = []
            for index, key in enumerate(row_keys):
                if key not in self._numbers and key not in new:
                    new[key] = len(self._numbers) + len(new)
                    indices.append(index)
            if indices:
                all_new = len(indices) == len(rows)
                parts.append(rows if all_new else rows.take(np.array(indices)))
        self._check_budget(len(new))
        if parts:
            self._keep(parts, new, to_fit)
        return [self._answers_to(row_keys) for row_keys in keys]

    def _check_budget(self, more: int) -> None:
        needed = self.calls + more
        if needed > self.budget:
            raise BudgetError(
                f"{needed} calls are needed, but the budget is {self.budget}: raise the budget"
            )

    def _answers_to(self, keys: Sequence[int]) -> Tensor:
        """The answers (m, C) to rows that have been asked, by their keys."""
        answers = self._answers
        assert answers is not None
        numbers = [self._numbers[key] for key in keys]
        return answers[torch.tensor(numbers, dtype=torch.long, device=answers.device)]

    def _keep(self, parts: Sequence[Rows], new: dict[int, int], to_fit: set[int]) -> None:
        """Asks rows that are new and stores the answers."""
        if self._progress:
            self._progress.start(len(new))
        answers = [part.to(self._home) for part in self._source.columns(parts, self._progress)]
        if self._answers is not None:
            answers.insert(0, self._answers)
        self._answers = torch.cat(answers)
        self._numbers.update(new)
        checked = new.keys() - to_fit
        self._checked |= checked
        self.calls_check += len(checked)
        self.calls_fit += len(new) - len(checked)

    def _now_fitted(self, keys: set[int]) -> None:
        """Rows that were only looked at until now count as fitted from here on."""
        moved = self._checked & keys
        self._checked -= moved
        self.calls_check -= len(moved)
        self.calls_fit += len(moved)
