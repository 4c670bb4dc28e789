"""Units and spans: the pieces of a text that receive scores."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


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
