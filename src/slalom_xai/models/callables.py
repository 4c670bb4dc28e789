"""Functions that take texts, explained by words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import CannotHideError, InputError, quote_text
from slalom_xai.models.answers import Answers, check_convention
from slalom_xai.models.locks import lock_of
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.reading import Reading
from slalom_xai.models.rows import Indices, Row
from slalom_xai.models.text import equal_codes, is_unspaced, words

# Texts read as words, for models that take strings and have no tokenizer to ask.


# What stands for a removed word.
MARKS = {"mask": "[MASK]", "unk": "[UNK]"}


class ReadsWords:
    """The part of a model that reads a text as its words: rows are strings.

    Attributes:
        name: of the model, for messages.
    """

    name: str

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Splits a text into words."""
        return _read_words(text, text_pair, removal, self.name)

    def size(self, row: Row) -> int:
        """Words in a row, about."""
        return cast(str, row).count(" ") + 1

    def show(self, row: Row) -> str:
        """The row is a text."""
        return cast(str, row)


def _read_words(text: str, text_pair: str | None, removal: str, model: str) -> Reading:
    """A text as its words, whose rows keep the white space of the text as far as they can.

    Args:
        text: as the user gave it.
        text_pair: must be None; a model of strings takes one.
        removal: "delete", "mask" or "unk".
        model: its name, for messages.
    """
    if text_pair is not None:
        raise InputError(
            f"a pair of texts was given, but {model} takes single texts: "
            "join the two as it expects them"
        )
    if removal == "hide":
        raise CannotHideError.because(
            f"{model} takes strings, which have no attention to hide words from"
        )
    units = words(text)
    if not units:
        raise InputError(f"there is no word in {quote_text(text)}: give a text with words in it")
    starts = [0, *(unit.end for unit in units[:-1])]
    gaps = [text[start : unit.start] for start, unit in zip(starts, units, strict=True)]
    rest = text[units[-1].end :]

    def compose(indices: Indices) -> Row:
        if np.array_equal(indices, np.arange(len(units))):
            return text
        if bool((np.diff(indices) > 0).all()):
            return "".join(gaps[index] + units[index].text for index in indices).strip()
        return _join_words(
            [units[index].text for index in indices]
        )  # another order than the text's

    def without(keep: NDArray[np.bool_]) -> Row:
        return compose(np.flatnonzero(keep))

    def marked(keep: NDArray[np.bool_]) -> Row:
        row = ""
        for gap, unit, kept in zip(gaps, units, keep, strict=True):
            row += gap + (unit.text if kept else MARKS[removal])
        return row + rest

    return Reading(
        text,
        units,
        equal_codes([unit.text for unit in units]),
        "",
        compose,
        without if removal == "delete" else marked,
        in_place=removal != "delete",
    )


def _join_words(pieces: Sequence[str]) -> str:
    """Words in a row, with spaces where their script has them."""
    text = pieces[0]
    for before, piece in pairwise(pieces):
        together = is_unspaced(before[-1]) and is_unspaced(piece[0])
        text += piece if together else f" {piece}"
    return text


# Functions that take texts, explained by words.


class CallableModel(ReadsWords):
    """A function ``list[str] -> (n, classes)``.

    Args:
        function: answers a list of texts with one row of numbers each.
        output: "probabilities" ("auto" means the same, if there is a number for each class), or
            "logits".
        name: how it is called in results.
        outputs: what its numbers mean, where that is known.
        owner: the object that calls take turns with; the function itself by default.
        labels: the names of the classes, where the caller gave some.
    """

    device = torch.device("cpu")
    probe_calls = 0

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        output: str = "auto",
        *,
        name: str | None = None,
        outputs: Outputs | None = None,
        owner: Any = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        check_convention(output)
        self.name = str(name or getattr(function, "__qualname__", type(function).__name__))
        self._function = function
        self._lock = lock_of(function if owner is None else owner)
        self._answers = Answers(
            self.name,
            probabilities=output != "logits",
            outputs=outputs,
            labels=labels,
            said=output != "auto" or len(labels or ()) == 2,  # one number for two names
            **_advice(function),
        )

    @property
    def outputs(self) -> Outputs:
        """What the answers mean; known once the function has answered a text."""
        return self._answers.outputs

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of texts."""
        texts = cast(list[str], list(rows))
        with self._lock:
            raw = self._function(list(texts))
        return self._answers.logits(raw, len(texts), texts.__getitem__).cpu().double()


def _advice(function: Callable[..., Any]) -> dict[str, str]:
    """What to give in the place of a method that chooses labels, such as a pipeline's predict."""
    owner = getattr(function, "__self__", None)
    if not hasattr(owner, "predict"):
        return {}
    kind = type(owner).__name__
    if hasattr(owner, "predict_proba"):
        return {"instead": f"pass the {kind} itself, or its predict_proba"}
    return {"instead": f"pass the {kind} itself"}
