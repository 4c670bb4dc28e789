"""Texts read as words, for models that take strings and have no tokenizer to ask."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import CannotHideError, InputError, shortened
from slalom_xai.models.reading import Reading
from slalom_xai.models.rows import Indices, Row
from slalom_xai.text import equal_codes, is_unspaced, words

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
        raise InputError(f"there is no word in {shortened(text)}: give a text with words in it")
    starts = [0, *(unit.end for unit in units[:-1])]
    gaps = [text[start : unit.start] for start, unit in zip(starts, units, strict=True)]
    rest = text[units[-1].end :]

    def compose(indices: Indices) -> Row:
        if np.array_equal(indices, np.arange(len(units))):
            return text
        if bool((np.diff(indices) > 0).all()):
            return "".join(gaps[index] + units[index].text for index in indices).strip()
        return _joined([units[index].text for index in indices])  # another order than the text's

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


def _joined(pieces: Sequence[str]) -> str:
    """Words in a row, with spaces where their script has them."""
    text = pieces[0]
    for before, piece in pairwise(pieces):
        together = is_unspaced(before[-1]) and is_unspaced(piece[0])
        text += piece if together else f" {piece}"
    return text
