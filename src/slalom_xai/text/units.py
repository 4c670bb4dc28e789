"""Units, and the spans of characters that they cover."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

GRANULARITIES = ("token", "type", "word", "phrase", "sentence", "passage")


@dataclass(frozen=True)
class Unit:
    """One piece of a text.

    Attributes:
        text: the characters as they stand in the text.
        start: offset of the first character.
        end: offset behind the last character.
        token_ids: the model's token ids of this piece; empty for models that take strings.
        part: 0 for a piece of the text, 1 for one of the second text of a pair; offsets count in
            that text.
    """

    text: str
    start: int
    end: int
    token_ids: tuple[int, ...] = ()
    part: int = 0


def equal_codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Numbers (keys,) from 0 that are equal where the keys are, in the order of their first use."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def joined(texts: Sequence[str], pieces: Sequence[Unit]) -> Unit:
    """One unit made of neighbouring pieces."""
    if len(pieces) == 1:
        return pieces[0]
    part = pieces[0].part
    text = texts[part]
    first = min(piece.start for piece in pieces)
    last = max(piece.end for piece in pieces)
    start, end = trimmed(text, first, last)
    token_ids = tuple(token for piece in pieces for token in piece.token_ids)
    return Unit(text[start:end], start, end, token_ids, part)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without white space at its ends, unless that is all of it.

    Some tokenizers count the space before a word as part of it.
    """
    piece = text[start:end]
    if not piece.strip():
        return start, end
    before = len(piece) - len(piece.lstrip())
    behind = len(piece) - len(piece.rstrip())
    return start + before, end - behind


def disjoint(spans: Sequence[tuple[int, int]], bare: Sequence[bool]) -> list[tuple[int, int]]:
    """Spans in reading order, cut until any two of them are apart or the same.

    A tokenizer that rewrites a text before it splits it may give one character to several tokens,
    and to some of them together with its neighbours. Such a character stays with the tokens that
    have nothing else.

    Args:
        spans: start and end of each token.
        bare: whether a token stands for no character, as the marker of a word's beginning does.
    """
    cut = [list(span) for span in spans]
    for index, (here, after) in enumerate(pairwise(cut)):
        if bare[index] and here[0] == after[0] and here != after:
            here[1] = here[0]
    filled = [span for span in cut if span[0] < span[1]]
    for index in range(1, len(filled)):
        before, here = filled[index - 1], filled[index]
        if here[0] >= before[1] or here == before:
            continue
        if before[0] < here[0]:
            _end_at(filled, index - 1, here[0])
        elif before[0] == here[0] and before[1] < here[1]:
            here[0] = before[1]
        else:
            here[:] = before
    return [(start, end) for start, end in cut]


def _end_at(spans: list[list[int]], index: int, end: int) -> None:
    """Ends a span earlier, and with it those before it that are the same."""
    whole = list(spans[index])
    while index >= 0 and spans[index] == whole:
        spans[index][1] = end
        index -= 1
