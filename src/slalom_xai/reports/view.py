"""What the interactive view shows, as plain data: every score, and the surrogate itself.

The page computes nothing but the formula. The surrogate goes into it at full precision, so that
what the page predicts for an edited text is what ``Explanation.predict`` gives. Scores, which are
only shown, are rounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slalom_xai.errors import InputError, quote_text
from slalom_xai.explanation import Array, Explanation
from slalom_xai.explanation.file_checks import function_to_dict, without_nan
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.methods.scores import OneScore
from slalom_xai.reports.colour import HIGHLIGHT, printable
from slalom_xai.reports.wording import model_name, predicted_class, unit_texts
from slalom_xai.slalom import BoundedSlalom

# A text cut into pieces, each with the units that stand there.


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


# What the interactive view shows, as plain data: every score, and the surrogate itself.


FORMAT = "slalom-view"
VERSION = 2
# Scores of more classes than a reader can compare would make the file large for nothing.
_MOST_COLUMNS = 12
_DIGITS = 7  # of scores; more are never shown
_ERROR_DIGITS = 4
_LONGEST = 400  # characters of a text in the list of texts


def index_data(explanations: Sequence[Explanation], title: str) -> dict[str, Any]:
    """What the page needs before a text is chosen: one entry per text, with its explanations."""
    groups: dict[tuple[str, str | None], list[int]] = {}
    for index, explanation in enumerate(explanations):
        groups.setdefault((explanation.text, explanation.text_pair), []).append(index)
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": printable(title),
        "count": len(explanations),
        "texts": [_entry(explanations, indices) for indices in groups.values()],
    }


def _entry(explanations: Sequence[Explanation], indices: list[int]) -> dict[str, Any]:
    """One text: its beginning, what was predicted, and which of the explanations are of it."""
    first = explanations[indices[0]]
    label, probability = predicted_class(first)
    texts = first.text + " " + (first.text_pair or "")
    return {
        "text": printable(" ".join(texts[:_LONGEST].split())),
        "label": printable(first.target if label is None else label),
        "probability": probability,
        "prediction": first.prediction,
        "names": sorted({_name(explanations[index]) for index in indices}),
        "items": indices,
    }


def _name(explanation: Explanation) -> str:
    return printable(f"{explanation.method} {model_name(explanation.model)}")


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """One explanation for the page.

    Raises:
        InputError: it holds numbers that are not finite, which no picture can show.
    """
    _check_finite(explanation)
    return {
        "model": printable(model_name(explanation.model)),
        "method": printable(explanation.method),
        "granularity": printable(explanation.granularity),
        "removal": printable(explanation.removal),
        "kind": explanation.outputs.kind,
        "labels": [printable(label) for label in explanation.outputs.labels],
        "target": explanation.target_index,
        "full": list(explanation.full),
        "highlight": HIGHLIGHT,
        "function": function_to_dict(explanation.function),  # what predicts edited texts
        "units": unit_texts(explanation),
        "spans": [[unit.part, unit.start, unit.end] for unit in explanation.units],
        "occurrences": list(explanation.occurrences),
        "parts": _parts(explanation),
        "left_out": len(explanation.left_out),
        "columns": _columns(explanation),
        "calls": explanation.calls,
        "calls_check": explanation.calls_check,
        "notes": [printable(note) for note in explanation.notes],
        "question": _said(explanation.question),
        "reply": _said(explanation.reply),
    }


def _said(words: str | None) -> str | None:
    """What was said in a conversation; None where there was none."""
    return None if words is None else printable_lines(words)


def _parts(explanation: Explanation) -> list[list[list[Any]]]:
    """Each text of a pair, or the only one, as pieces with their units."""
    parts = []
    for pieces in text_pieces(explanation):
        parts.append([[printable_lines(text), units] for text, units in pieces])
    return parts


def to_json(data: Any) -> str:
    """JSON for a script element: no character of a text can end the element or begin a comment."""
    plain = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def printable_lines(text: str) -> str:
    """``printable``, with line breaks and tabs left as they are."""
    return "".join(character if character in "\n\t" else printable(character) for character in text)


def _columns(explanation: Explanation) -> list[dict[str, Any] | None]:
    """The columns for the page; None for those whose scores it does not get."""
    shapley = None
    if isinstance(explanation.function, SlalomSurrogate):  # all columns at once: it is slow
        shapley = shapley_values(explanation.function).numpy()
    shown = _shown_columns(explanation)
    columns: list[dict[str, Any] | None] = [None] * len(explanation.full)
    for column in shown:
        columns[column] = _column(explanation, column, shapley)
    return columns


def _shown_columns(explanation: Explanation) -> set[int]:
    """The columns whose scores the page gets: the target's, and those with the largest outputs."""
    own = explanation.target_index
    if explanation.outputs.kind == "binary":
        own = 0
    largest = np.argsort(-np.array(explanation.full), kind="stable")[:_MOST_COLUMNS]
    return {own, *(int(column) for column in largest)}


def _column(explanation: Explanation, column: int, shapley: Array | None) -> dict[str, Any]:
    """Scores, errors and trust of one column, with the sign of its label.

    Of two classes, which share a column, that is the second.

    Args:
        explanation: for any target.
        column: of the outputs.
        shapley: (n, C) Shapley values; None for methods with one score.
    """
    label = column
    if explanation.outputs.kind == "binary":  # one column for both classes
        label = 1
    shown = explanation.for_target(label)
    names = shown.score_names
    scores = {}
    for name in names:
        if name == "shapley" and shapley is not None:
            scores[name] = _round_numbers(shapley[:, column])
        else:
            scores[name] = _round_numbers(shown.scores(name))
    errors = {}
    for name, numbers in shown.standard_errors.items():
        if name in names and np.isfinite(numbers).any():
            errors[name] = _round_numbers(numbers, _ERROR_DIGITS)
    fidelity = None
    if shown.fidelity is not None:
        fidelity = without_nan(asdict(shown.fidelity))
    return {
        "scores": scores,
        "errors": errors,
        "sources": {name: shown.source(name) for name in names},
        "sink": shown.sink,
        "fidelity": fidelity,
        "trust": shown.trust,
        "effect": shown.has_effect.tolist(),
        "range": shown.range,
    }


def _round_numbers(numbers: ArrayLike, digits: int = _DIGITS) -> list[float | None]:
    """Numbers (n,) to so many digits; None for those that are not finite."""
    rounded: list[float | None] = []
    for number in np.asarray(numbers, dtype=float).tolist():
        if math.isfinite(number):
            rounded.append(float(f"{number:.{digits}g}"))
        else:
            rounded.append(None)
    return rounded


def _check_finite(explanation: Explanation) -> None:
    # Of huge numbers, what is computed can be infinite.
    scores = [*_tensors(explanation.function), explanation.scores(HIGHLIGHT)]
    outputs = [np.array(explanation.full)]
    for what, numbers in (("scores", scores), ("predictions", outputs)):
        if not all(np.isfinite(entry).all() for entry in numbers):
            raise InputError(
                f"the explanation of {quote_text(explanation.text, 40)} has {what} that are not "
                "finite numbers: it cannot be shown; explain again"
            )


def _tensors(function: BoundedSlalom | SlalomSurrogate | OneScore) -> list[Array]:
    """All numbers of a function."""
    entries = [getattr(function, part.name) for part in fields(function)]
    return [entry.numpy() for entry in entries if isinstance(entry, Tensor)]
