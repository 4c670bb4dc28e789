"""What the interactive view shows, as plain data: the text in pieces, every score, and the surrogate itself.

The page computes nothing but the formula. The surrogate goes into it at full precision, so that what the page predicts for an edited
text is what ``Explanation.predict`` gives; scores, which are only shown, are rounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from slalom_xai.errors import InputError, shortened
from slalom_xai.explanation import Array, Explanation
from slalom_xai.explanation.function_data import function_to_dict, without_nan
from slalom_xai.reports.colour import HIGHLIGHT, printable
from slalom_xai.reports.wording import model_name, unit_texts
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.scores import SCORES

FORMAT = "slalom-view"
VERSION = 1
_MOST_COLUMNS = (
    12  # scores of more classes than a reader can compare would make the file large for nothing
)
_DIGITS = 7  # of scores; more are never shown
_ERROR_DIGITS = 4

Piece = tuple[str, list[int]]


def index_data(explanations: Sequence[Explanation], title: str) -> dict[str, Any]:
    """What the page needs before a text is chosen: one entry per text, with its explanations."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for place, explanation in enumerate(explanations):
        groups.setdefault((explanation.text, explanation.text_pair), []).append(place)
    entries = [_entry(explanations, places) for places in groups.values()]
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": printable(title),
        "count": len(explanations),
        "texts": entries,
    }


def _entry(explanations: Sequence[Explanation], places: list[int]) -> dict[str, Any]:
    first = explanations[places[0]]
    return {
        "text": printable(" ".join((first.text + " " + (first.text_pair or ""))[:400].split())),
        "label": printable(first.target),
        "prediction": first.prediction,
        "names": sorted(
            {
                printable(f"{explanations[place].method} {model_name(explanations[place].model)}")
                for place in places
            }
        ),
        "items": places,
    }


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """One explanation for the page.

    Raises:
        InputError: it holds numbers that are not finite, which no picture can show.
    """
    _check_finite(explanation)
    kept = _columns(explanation)
    function = explanation.function
    shapley = (
        shapley_values(function).numpy() if isinstance(function, SlalomSurrogate) else None
    )  # all columns at once: the one slow score
    return {
        "model": printable(model_name(explanation.model)),
        "method": printable(explanation.method),
        "granularity": printable(explanation.granularity),
        "removal": printable(explanation.removal),
        "kind": explanation.outputs.kind,
        "labels": [printable(label) for label in explanation.outputs.labels],
        "target": explanation.target_index,
        "full": list(explanation.full),
        "function": _function(explanation.function),
        "units": unit_texts(explanation),
        "spans": [[unit.part, unit.start, unit.end] for unit in explanation.units],
        "occurrences": list(explanation.occurrences),
        "parts": [
            [[printable_lines(text), units] for text, units in part]
            for part in text_pieces(explanation)
        ],
        "left_out": len(explanation.left_out),
        "columns": [
            _column(explanation, column, shapley) if column in kept else None
            for column in range(len(explanation.full))
        ],
        "calls": explanation.calls,
        "calls_check": explanation.calls_check,
        "notes": [printable(note) for note in explanation.notes],
    }


def _function(function: SlalomSurrogate | AdditiveSurrogate) -> dict[str, Any]:
    """What predicts. The nearest SLALOM with one head does not: the scores read from it are in the page already."""
    return {name: entry for name, entry in function_to_dict(function).items() if name != "nearest"}


def to_json(data: Any) -> str:
    """JSON for a script element: no character of a text can end the element or begin a comment."""
    plain = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def printable_lines(text: str) -> str:
    """``printable``, with line breaks and tabs left as they are."""
    return "".join(character if character in "\n\t" else printable(character) for character in text)


def text_pieces(explanation: Explanation) -> list[list[Piece]]:
    """Each text in order, as (characters, units that stand there); no units for what has no score.

    Units that share their characters (the byte tokens of one emoji) share a piece. Where a unit stands for all places of a token,
    its other places are found by their characters, if exactly as many are found as there should be.
    """
    texts = [explanation.text] + ([] if explanation.text_pair is None else [explanation.text_pair])
    shown = []
    for part, text in enumerate(texts):
        end = len(text) - (len(explanation.left_out) if part == len(texts) - 1 else 0)
        shown.append(_part_pieces(explanation, part, text, end))
    return shown


def _part_pieces(explanation: Explanation, part: int, text: str, end: int) -> list[Piece]:
    spans: dict[tuple[int, int], list[int]] = {}
    for place, unit in enumerate(explanation.units):
        if unit.part == part and unit.start < unit.end <= len(text):
            spans.setdefault((unit.start, unit.end), []).append(place)
    if explanation.granularity == "type" and explanation.text_pair is None:
        spans |= _repeats(explanation, text[:end], list(spans))
    scores = np.abs(explanation.scores(HIGHLIGHT))
    pieces: list[Piece] = []
    position = 0
    for (start, stop), units in sorted(spans.items()):
        if start < position:  # overlaps its neighbour: its units are in the chart and in the table
            continue
        if start > position:
            pieces.append((text[position:start], []))
        pieces.append((text[start:stop], sorted(units, key=lambda place: -scores[place])))
        position = stop
    if position < end:
        pieces.append((text[position:end], []))
    return pieces


def _repeats(
    explanation: Explanation, text: str, taken: list[tuple[int, int]]
) -> dict[tuple[int, int], list[int]]:
    """Further places of units that occur several times; the longest first, so that "the" is not found inside "there"."""
    free = np.ones(len(text), dtype=bool)
    for start, stop in taken:
        free[start:stop] = False
    found: dict[tuple[int, int], list[int]] = {}
    order = sorted(
        range(len(explanation.units)), key=lambda place: -len(explanation.units[place].text)
    )
    for place in order:
        unit, times = (
            explanation.units[place],
            (explanation.occurrences or (1,) * len(explanation.units))[place],
        )
        spans = (
            [span for span in _occurrences(unit.text, text) if free[span[0] : span[1]].all()]
            if times > 1 and unit.text
            else []
        )
        if len(spans) == times - 1:
            for start, stop in spans:
                free[start:stop] = False
                found[(start, stop)] = [place]
    return found


def _occurrences(wanted: str, text: str) -> list[tuple[int, int]]:
    """Where a string stands, in any case, as a word of its own if it is one."""
    lowered, wanted = text.lower(), wanted.lower()
    if len(lowered) != len(text):  # some letters grow when lowered, and offsets with them
        lowered = text
    spans, position = [], lowered.find(wanted)
    while position >= 0:
        end = position + len(wanted)
        inside = (position > 0 and lowered[position - 1 : position + 1].isalnum()) or (
            end < len(text) and lowered[end - 1 : end + 1].isalnum()
        )
        if not inside:
            spans.append((position, end))
        position = lowered.find(wanted, end)
    return spans


def _columns(explanation: Explanation) -> set[int]:
    """The columns whose scores the page gets: the target's, and those with the largest outputs."""
    own = 0 if explanation.outputs.kind == "binary" else explanation.target_index
    largest = np.argsort(-np.array(explanation.full), kind="stable")[:_MOST_COLUMNS]
    return {own, *(int(column) for column in largest)}


def _column(explanation: Explanation, column: int, shapley: Array | None) -> dict[str, Any]:
    """Scores, errors and trust of one column, with the sign of its label; of two classes, the second.

    Args:
        explanation: for any target.
        column: of the outputs.
        shapley: (n, C) Shapley values; None for additive methods.
    """
    shown = explanation.for_target(1 if explanation.outputs.kind == "binary" else column)
    names = SCORES if shown.surrogate == "slalom" else ("value", "alone")
    errors = {name: found for name, found in shown.standard_errors.items() if name in names}
    return {
        "scores": {
            name: _rounded(
                shown.scores(name) if name != "shapley" or shapley is None else shapley[:, column]
            )
            for name in names
        },
        "errors": {
            name: _rounded(found, _ERROR_DIGITS)
            for name, found in errors.items()
            if np.isfinite(found).any()
        },
        "sink": shown.sink,
        "fidelity": None if shown.fidelity is None else without_nan(asdict(shown.fidelity)),
        "trust": shown.trust,
    }


def _rounded(numbers: ArrayLike, digits: int = _DIGITS) -> list[float | None]:
    return [
        float(f"{number:.{digits}g}") if math.isfinite(number) else None
        for number in np.asarray(numbers, dtype=float).tolist()
    ]


def _check_finite(explanation: Explanation) -> None:
    function = explanation.function
    read = [function, function.one_head] if isinstance(function, SlalomSurrogate) else [function]
    scores = [
        entry.numpy() for part in read for entry in vars(part).values() if isinstance(entry, Tensor)
    ]
    scores.append(
        explanation.scores(HIGHLIGHT)
    )  # of huge numbers, what is computed can be infinite
    for what, numbers in (("scores", scores), ("predictions", [np.array(explanation.full)])):
        if not all(np.isfinite(entry).all() for entry in numbers):
            raise InputError(
                f"the explanation of {shortened(explanation.text, 40)} has {what} that are not finite numbers: it cannot be shown; explain again"
            )
