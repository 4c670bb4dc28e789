"""Asks a model many questions: each distinct row once, in batches of similar length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import BudgetError, InputError, ModelError, SlalomError, shortened
from slalom_xai.models import Prompt, Row, TextModel

Purpose = Literal["fit", "check"]


class Batches:
    """How many tokens go into one batch; learns from running out of memory.

    Args:
        tokens: padded tokens a batch holds at most; by default 8,192 on a CPU and 131,072 elsewhere.
        device: where the model runs.
    """

    def __init__(self, tokens: int | None, device: torch.device) -> None:
        if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
            raise InputError(f"batch_tokens is {tokens!r}: give a whole number of at least 1, or None to leave it to the package")
        self.tokens = tokens or (8_192 if device.type == "cpu" else 131_072)

    def halve(self, rows: int, longest: int) -> None:
        """Makes the next batches at most half of one that did not fit."""
        self.tokens = max(1, min(self.tokens, rows * longest) // 2)


class Progress(Protocol):
    """What a progress bar must do."""

    def start(self, total: int) -> None:
        """Expect this many more rows."""

    def advance(self, rows: int) -> None:
        """Some rows are answered."""


class Queries:
    """All calls to a model about one text: counted, never repeated, never over budget.

    Args:
        model: what is asked.
        prompt: the text as the model reads it.
        budget: distinct rows that may be asked.
        batches: the batch size, shared with other texts so that it stays learned.
        progress: shown while asking.
        first: calls to begin with, where the method may stop before the budget; None: it should use the budget.
    """

    def __init__(
        self,
        model: TextModel,
        prompt: Prompt,
        *,
        budget: int,
        batches: Batches,
        progress: Progress | None = None,
        first: int | None = None,
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.budget = budget
        self.first = first
        self.calls_fit = 0
        self.calls_check = 0
        self.asked_sequences = False
        self._batches = batches
        self._progress = progress
        self._answers: dict[Row, Tensor] = {}
        self._checked: set[Row] = set()

    @property
    def calls(self) -> int:
        """Distinct rows asked so far."""
        return self.calls_fit + self.calls_check

    @property
    def asked(self) -> Iterable[Row]:
        """Every row asked so far."""
        return self._answers.keys()

    def ask(self, masks: NDArray[np.bool_], purpose: Purpose = "fit") -> Tensor:
        """The model's explained columns (m, C), float64, for rows of masks (m, n).

        Raises:
            BudgetError: more new rows than the budget leaves.
            ModelError: an answer that is not finite, or a row that does not fit into memory.
        """
        return self.ask_rows([self.prompt.row(mask) for mask in masks], purpose)

    def ask_sequences(self, sequences: Sequence[NDArray[np.int64]], purpose: Purpose = "fit") -> Tensor:
        """Like ``ask``, for sequences of units in any order and number, given by their places."""
        self.asked_sequences = True
        return self.ask_rows([self.prompt.sequence(units) for units in sequences], purpose)

    def ask_rows(self, rows: Sequence[Row], purpose: Purpose) -> Tensor:
        """The model's explained columns (m, C), float64, for its own kind of questions."""
        if purpose == "fit":
            self._now_fitted(rows)
        new = [row for row in dict.fromkeys(rows) if row not in self._answers]
        if self.calls + len(new) > self.budget:
            raise BudgetError(f"{self.calls + len(new)} calls asked for with a budget of {self.budget}: raise the budget")
        if self._progress:
            self._progress.start(len(new))
        for batch in self._in_batches(sorted(new, key=self.model.size, reverse=True)):
            self._keep(batch, purpose)
        return torch.stack([self._answers[row] for row in rows])

    def _now_fitted(self, rows: Sequence[Row]) -> None:
        """Rows that were only looked at until now count as fitted from here on."""
        moved = self._checked.intersection(rows)
        self._checked -= moved
        self.calls_check -= len(moved)
        self.calls_fit += len(moved)

    def _in_batches(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """Cuts sorted rows, longest first, by what the token budget is at that moment."""
        start = 0
        while start < len(rows):
            longest = max(1, self.model.size(rows[start]))
            size = max(1, self._batches.tokens // longest)
            yield rows[start : start + size]
            start += size

    def _keep(self, rows: Sequence[Row], purpose: Purpose) -> None:
        """Asks one batch, in halves where it does not fit into memory, and stores the answers."""
        try:
            logits = self.model.answer(rows)
        except SlalomError:
            raise
        except Exception as error:
            if not _out_of_memory(error):
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                raise ModelError(
                    f"{self.model.name} failed on {shortened(self.model.show(rows[0]))} ({reason}): try the model on this text alone"
                ) from error
            longest = max(self.model.size(row) for row in rows)
            if len(rows) == 1:
                raise ModelError(
                    f"one row of {longest} tokens does not fit into memory: use a shorter text, a smaller model or another device"
                ) from error
            self._batches.halve(len(rows), longest)
        else:
            self._store(rows, logits, purpose)
            return
        _free_memory(self.model.device)
        middle = len(rows) // 2
        self._keep(rows[:middle], purpose)
        self._keep(rows[middle:], purpose)

    def _store(self, rows: Sequence[Row], logits: Tensor, purpose: Purpose) -> None:
        exact = logits.device if logits.device.type != "mps" else torch.device("cpu")
        answers = self.model.outputs.columns(logits.to(exact, torch.float64))
        bad = ~(logits.isfinite().all(dim=1) & answers.isfinite().all(dim=1).to(logits.device))
        if bool(bad.any()):
            place = int(bad.nonzero()[0])
            answer = ", ".join(f"{value:.4g}" for value in logits[place][:6].tolist())
            raise ModelError(
                f"{self.model.name} answers [{answer}] (shape {tuple(logits.shape)}) for {shortened(self.model.show(rows[place]))}: "
                "expected finite numbers; check the model's weights and precision"
            )
        self._answers.update(zip(rows, answers, strict=True))
        if purpose == "fit":
            self.calls_fit += len(rows)
        else:
            self.calls_check += len(rows)
            self._checked.update(rows)
        if self._progress:
            self._progress.advance(len(rows))


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return any(sign in str(error).lower() for sign in ("out of memory", "can't allocate memory", "not enough memory"))


def _free_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
