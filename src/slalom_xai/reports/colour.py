"""One colour scale for every report: blue pushes the output up, orange pulls it down.

Colours show Shapley values. Words without effect have no colour and are ranked last.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from slalom_xai.explanation import Array, Explanation
from slalom_xai.methods.scores import DEFAULT_SCORE

UP = (33, 102, 172)  # blue and orange stay apart for the colour-blind
DOWN = (201, 92, 15)
HIGHLIGHT = DEFAULT_SCORE  # what a colour shows, and what the strongest units are strong in


def intensities(explanation: Explanation) -> Array:
    """The score that colours show, scaled to [-1, 1] by the largest; 0 for units without effect."""
    scores = _shown(explanation)
    largest = float(np.abs(scores).max())
    if largest > 0:
        return scores / largest
    return np.zeros_like(scores)


def _shown(explanation: Explanation) -> Array:
    """The score that colours show, (n,); 0 for units without effect."""
    return np.where(explanation.has_effect, explanation.scores(HIGHLIGHT), 0.0)


def pieces(explanation: Explanation) -> list[tuple[str, float | None]]:
    """The whole text in order, as (characters, intensity); None for what has no score.

    Units that share their characters (the byte tokens of one emoji) appear once, with the strongest
    of their intensities. The two texts of a pair are set apart by an empty line.
    """
    shown = _pieces(explanation, 0, explanation.text)
    if explanation.text_pair is not None:
        shown += [("\n\n", None), *_pieces(explanation, 1, explanation.text_pair)]
    return [piece for piece in shown if piece[0]]


def _pieces(explanation: Explanation, part: int, text: str) -> list[tuple[str, float | None]]:
    strongest: dict[tuple[int, int], float] = {}
    for unit, intensity in zip(explanation.units, intensities(explanation), strict=True):
        span = (unit.start, unit.end)
        if (
            unit.part == part
            and unit.end > unit.start
            and abs(intensity) >= abs(strongest.get(span, 0.0))
        ):
            strongest[span] = float(intensity)
    end = len(text)
    if part == 1 or explanation.text_pair is None:
        end -= len(explanation.left_out)
    shown: list[tuple[str, float | None]] = []
    position = 0
    for start, stop in _without_overlap(sorted(strongest)):
        shown += [(text[position:start], None), (text[start:stop], strongest[(start, stop)])]
        position = stop
    return [*shown, (text[position:end], None)]


def _without_overlap(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    kept = list(spans[:1])
    for before, span in pairwise(spans):
        if span[0] >= max(before[1], kept[-1][1]):
            kept.append(span)
    return kept


def strongest_units(explanation: Explanation, count: int) -> list[int]:
    """Indices of the units with the largest scores of either sign, strongest first.

    Units without effect come last.
    """
    order = np.lexsort((-np.abs(explanation.scores(HIGHLIGHT)), ~explanation.has_effect))
    return [int(index) for index in order[:count]]


def printable(text: str) -> str:
    """A text for people: control characters and direction overrides as escapes.

    So they cannot move a cursor or reorder a line.
    """
    return "".join(map(_escape, text))


def _escape(character: str) -> str:
    if not _is_control(character):
        return character
    return character.encode("unicode_escape").decode()


def _is_control(character: str) -> bool:
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or "\u202a" <= character <= "\u202e"
        or "\u2066" <= character <= "\u2069"
    )
