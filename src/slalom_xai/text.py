"""Units and spans: the pieces of a text that receive scores."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GRANULARITIES = ("token", "type", "word", "phrase", "sentence")

_WIDE_STOPS = "\u3002\uff01\uff1f"  # the full stop, exclamation and question mark of Chinese and Japanese
_WIDE_PAUSES = _WIDE_STOPS + "\u3001\uff0c\uff1b\uff1a"
_CLOSING = "[\"')\\]\u00bb\u201d\u2019]*"
_SENTENCE_END = re.compile(rf"[.!?…]+{_CLOSING}\s+|[{_WIDE_STOPS}]+\s*|\n\s*\n")
_PHRASE_END = re.compile(rf"[,;:.!?…\u2013\u2014]+{_CLOSING}\s+|[{_WIDE_PAUSES}]+\s*|\n+")


@dataclass(frozen=True)
class Unit:
    """One piece of a text.

    Attributes:
        text: the characters as they stand in the text.
        start: offset of the first character.
        end: offset behind the last character.
        token_ids: the model's token ids of this piece; empty for models that take strings.
    """

    text: str
    start: int
    end: int
    token_ids: tuple[int, ...] = ()


def words(text: str) -> tuple[Unit, ...]:
    """Splits a text at white space, and punctuation off both ends of each word.

    A run without any letter or digit (dots, an emoji with its joiners) stays whole, and
    so does punctuation inside a word ("isn't", "3.5").
    """
    spans = [span for match in re.finditer(r"\S+", text) for span in _peel(text, match.start(), match.end())]
    return tuple(Unit(text[start:end], start, end) for start, end in spans)


def _peel(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The span of one chunk, as leading punctuation, word, trailing punctuation."""
    left, right = start, end
    while left < end and _is_mark(text[left]):
        left += 1
    while right > left and _is_mark(text[right - 1]):
        right -= 1
    if left == end:
        return [(start, end)]
    return [span for span in ((start, left), (left, right), (right, end)) if span[0] < span[1]]


def _is_mark(character: str) -> bool:
    """Punctuation and symbols, with the joiners and the variation selector that emoji carry."""
    return unicodedata.category(character) == "Cf" or unicodedata.category(character)[0] in "PS" or character == "\ufe0f"


def owners(text: str, pieces: Sequence[Unit], codes: NDArray[np.int64], granularity: str) -> NDArray[np.int64]:
    """The unit each piece belongs to, numbered in reading order.

    Args:
        text: the whole text.
        pieces: its tokens or words.
        codes: (pieces,), equal where two read the same.
        granularity: one of ``GRANULARITIES``.
    """
    if granularity == "token":
        return np.arange(len(pieces))
    if granularity == "type":
        keys = codes.tolist()
    else:
        starts = {"word": _word_starts, "phrase": _phrase_starts, "sentence": _sentence_starts}[granularity](text)
        keys = [bisect_right(starts, piece.start) for piece in pieces]
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def joined(text: str, pieces: Sequence[Unit]) -> Unit:
    """One unit made of neighbouring pieces."""
    if len(pieces) == 1:
        return pieces[0]
    start, end = min(piece.start for piece in pieces), max(piece.end for piece in pieces)
    return Unit(text[start:end], start, end, tuple(token for piece in pieces for token in piece.token_ids))


def _word_starts(text: str) -> list[int]:
    return [unit.start for unit in words(text)]


def _phrase_starts(text: str) -> list[int]:
    """Phrases end at punctuation and line breaks."""
    return [0, *(match.end() for match in _PHRASE_END.finditer(text))]


def _sentence_starts(text: str) -> list[int]:
    """Sentences end at a full stop, question or exclamation mark before white space, and at empty lines."""
    return [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
