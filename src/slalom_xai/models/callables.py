"""Any function from texts to numbers, explained by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, one_of, shortened
from slalom_xai.models.base import Reading, Row, lock_of, unit_codes
from slalom_xai.outputs import Outputs
from slalom_xai.text import words

CONVENTIONS = ("auto", "probabilities", "logits")


class CallableModel:
    """A function ``list[str] -> (n, classes)``.

    Args:
        function: answers a list of texts with one row of numbers each.
        output: "probabilities" ("auto" means the same), or "logits".
    """

    device = torch.device("cpu")
    probe_calls = 0

    def __init__(self, function: Callable[[list[str]], Any], output: str = "auto") -> None:
        if output not in CONVENTIONS:
            raise one_of("output", output, CONVENTIONS)
        self._function = function
        self._lock = lock_of(function)
        self._probabilities = output != "logits"
        self._outputs: Outputs | None = None
        self.name = getattr(function, "__qualname__", type(function).__name__)

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the function has answered a text."""
        if self._outputs is None:
            raise ModelError("ask the function a text first: only its answer shows how many classes it has")
        return self._outputs

    def read(self, text: str, *, truncation: bool = False) -> Reading:
        """Splits a text into words."""
        units = words(text)
        if not units:
            raise InputError(f"no word in {shortened(text)}: give a text with words in it")
        starts = [0, *(unit.end for unit in units[:-1])]
        pieces = np.array([text[start : unit.end] for start, unit in zip(starts, units, strict=True)], dtype=object)

        def compose(places: NDArray[np.int64]) -> Row:
            if np.array_equal(places, np.arange(len(units))):
                return text
            if bool((np.diff(places) > 0).all()):
                return "".join(pieces[places]).strip()
            return " ".join(units[place].text for place in places)  # words in another order than the text's

        return Reading(text, units, unit_codes([unit.text for unit in units]), "", compose)

    def size(self, row: Row) -> int:
        """Words in a row, about."""
        return cast(str, row).count(" ") + 1

    def show(self, row: Row) -> str:
        """The row is a text."""
        return cast(str, row)

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of texts."""
        texts = cast(list[str], list(rows))
        with self._lock:
            raw = self._function(list(texts))
        try:
            answers = raw.detach().cpu().double() if isinstance(raw, Tensor) else torch.as_tensor(np.asarray(raw, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{self.name} answers {len(texts)} texts with {type(raw).__name__}, not numbers: return an array (n, classes)"
            ) from error
        if answers.ndim == 1:
            answers = answers[:, None]
        if answers.ndim != 2 or len(answers) != len(texts) or answers.shape[1] == 0:
            raise ModelError(
                f"{self.name} answers {len(texts)} texts with shape {tuple(np.shape(raw))} for {shortened(texts[0])}: return an array (n, classes)"
            )
        if self._probabilities and answers.shape[1] == 1:
            answers = torch.cat([1 - answers, answers], dim=1)
        self._note_width(answers.shape[1], texts)
        return self._as_logits(answers, texts) if self._probabilities else answers

    def _note_width(self, width: int, texts: list[str]) -> None:
        if self._outputs is None:
            labels = tuple(str(index) for index in range(width))
            self._outputs = Outputs("single" if width == 1 else "binary" if width == 2 else "multiclass", labels)
        elif self._outputs.width != width:
            raise ModelError(
                f"{self.name} answered {self._outputs.width} classes before and {width} for {shortened(texts[0])}: return the same for every text"
            )

    def _as_logits(self, answers: Tensor, texts: list[str]) -> Tensor:
        """Log probabilities, after checking that these are probabilities."""
        finite = answers.isfinite().all(dim=1)
        if not bool(finite.all()):
            return torch.where(finite[:, None], torch.ones_like(answers), answers)  # refused, with its text, by the caller
        sums = answers.sum(dim=1)
        wrong = (answers < 0).any(dim=1) | (answers > 1).any(dim=1) | ((sums - 1).abs() > 1e-3)
        if bool(wrong.any()):
            place = int(wrong.nonzero()[0])
            raise ModelError(
                f"{self.name} answers {_numbers(answers[place])} for {shortened(texts[place])}, which are not probabilities that sum to 1: "
                'pass output="logits" if they are logits'
            )
        certain = ((answers == 0) | (answers == 1)).any(dim=1)
        if bool(certain.any()):
            place = int(certain.nonzero()[0])
            raise ModelError(
                f"{self.name} answers a probability of exactly 0 or 1, {_numbers(answers[place])}, for {shortened(texts[place])}, whose log odds are infinite: "
                'return logits and pass output="logits", or keep probabilities inside (0, 1)'
            )
        return answers.log()


def _numbers(row: Tensor) -> str:
    shown = ", ".join(f"{value:.4g}" for value in row[:6].tolist())
    return f"[{shown}{', …' if len(row) > 6 else ''}]"
