"""A text cut into pieces, each with the units that stand there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import HIGHLIGHT

Piece = tuple[str, list[int]]  # characters, and the indices of the units that stand there
_Span = tuple[int, int]


def text_pieces(explanation: Explanation) -> list[list[Piece]]:
    """Each text in order, as (characters, units that stand there); no units for what has no score.

    Units that share their characters (the byte tokens of one emoji) share a piece. Where a unit
    stands for all places of a token, its other places are found by their characters, if exactly as
    many are found as there should be.
    """
    texts = [explanation.text]
    if explanation.text_pair is not None:
        texts.append(explanation.text_pair)
    parts = []
    for part, text in enumerate(texts):
        end = len(text)
        if part == len(texts) - 1:
            end -= len(explanation.left_out)
        parts.append(_part_pieces(explanation, part, text, end))
    return parts


def _part_pieces(explanation: Explanation, part: int, text: str, end: int) -> list[Piece]:
    spans: dict[_Span, list[int]] = {}
    for index, unit in enumerate(explanation.units):
        if unit.part == part and unit.start < unit.end <= len(text):
            spans.setdefault((unit.start, unit.end), []).append(index)
    if explanation.granularity == "type" and explanation.text_pair is None:
        spans |= _repeats(explanation, text[:end], list(spans))
    strengths = np.abs(explanation.scores(HIGHLIGHT))
    pieces: list[Piece] = []
    position = 0
    for (start, stop), indices in sorted(spans.items()):
        if start < position:  # overlaps its neighbour: its units are in the chart and in the table
            continue
        if start > position:
            pieces.append((text[position:start], []))
        strongest_first = sorted(indices, key=lambda index: -strengths[index])
        pieces.append((text[start:stop], strongest_first))
        position = stop
    if position < end:
        pieces.append((text[position:end], []))
    return pieces


def _repeats(explanation: Explanation, text: str, taken: list[_Span]) -> dict[_Span, list[int]]:
    """Further places of units that occur several times.

    The longest units come first, so that "the" is not found inside "there".
    """
    units = explanation.units
    occurrences = explanation.occurrences or (1,) * len(units)
    free = np.ones(len(text), dtype=bool)
    for start, stop in taken:
        free[start:stop] = False
    repeats: dict[_Span, list[int]] = {}
    for index in sorted(range(len(units)), key=lambda index: -len(units[index].text)):
        if occurrences[index] < 2 or not units[index].text:
            continue
        spans = _free_spans(units[index].text, text, free)
        if len(spans) == occurrences[index] - 1:
            for start, stop in spans:
                free[start:stop] = False
                repeats[(start, stop)] = [index]
    return repeats


def _free_spans(wanted: str, text: str, free: NDArray[np.bool_]) -> list[_Span]:
    """Where a string stands on characters that are all free; ``free`` is (characters,)."""
    return [(start, stop) for start, stop in _occurrences(wanted, text) if free[start:stop].all()]


def _occurrences(wanted: str, text: str) -> list[_Span]:
    """Where a string stands, in any case, as a word of its own if it is one."""
    lowered, wanted = text.lower(), wanted.lower()
    if len(lowered) != len(text):  # some letters grow when lowered, and offsets with them
        lowered = text
    spans = []
    start = lowered.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        goes_on_before = start > 0 and lowered[start - 1 : start + 1].isalnum()
        goes_on_after = end < len(text) and lowered[end - 1 : end + 1].isalnum()
        if not goes_on_before and not goes_on_after:
            spans.append((start, end))
        start = lowered.find(wanted, end)
    return spans
