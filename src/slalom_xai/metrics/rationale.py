"""Rationales of people, marked on words, brought to the units of an explanation.

Words and units need not begin and end together, so a unit counts as marked where it shares a
character with a marked word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.spans import placed
from slalom_xai.text import Unit

AtLeast = float | Literal["all"]  # how many annotators make a word marked


@dataclass(frozen=True, eq=False)
class Rationale:
    """What people marked, per unit of an explanation.

    Attributes:
        marks: (n,), whether a unit overlaps a marked word; this is what ``Case.rationale`` takes.
        counts: (n,), the most that a word it overlaps was given; 0 where it overlaps none.
        words: how many words the rationale has.
        cut: words behind the end of what the model read; they have no unit and are not scored.
        unread: other words without a unit, such as characters the tokenizer drops, and empty ones.
    """

    marks: NDArray[np.bool_]
    counts: NDArray[np.float64]
    words: int
    cut: int
    unread: int


def to_units(
    explanation: Explanation,
    marks: ArrayLike,
    words: Sequence[str] | None = None,
    *,
    at_least: AtLeast | None = None,
) -> Rationale:
    """Maps marks on words to units: a unit is marked when it shares a character with a marked word.

    Args:
        explanation: of the text the rationale is about.
        marks: one per word: zeros and ones, or how many annotators marked it. Or a list of zeros
            and ones from each annotator, (annotators, words).
        words: the words in reading order, as they stand in the text; None: the text split at white
            space.
        at_least: what counts as marked, such as 2 for two annotators, or "all" for the words that
            every annotator marked; needed where ``marks`` holds more than zeros and ones.

    Raises:
        InputError: there are not as many marks as words, a mark is not a count, annotators marked
            different words, words are not in the text, or units stand in several places of it.
    """
    if explanation.text_pair is not None:
        raise InputError(
            "a rationale is for one text, but the explanation is of a pair: "
            "explain the text that was marked"
        )
    if explanation.granularity == "type":
        raise InputError(
            'units of granularity "type" stand in several places at once: '
            'explain with granularity="token" or "word"'
        )
    spans = _word_spans(explanation.text, words)
    split_by = "words"
    if words is None:
        split_by = "white space"
    by_annotator = _by_annotator(marks)
    if by_annotator is not None:
        marks = by_annotator.sum(axis=0)
        if at_least == "all":
            at_least = len(by_annotator)
    counts = _counts(marks, len(spans), split_by)
    threshold = _threshold(counts, at_least)
    shared = _shared(explanation.units, spans)  # (n, words)
    per_unit = np.where(shared, counts[None, :], 0.0).max(axis=1)
    without_unit = ~shared.any(axis=0)
    end_of_text = len(explanation.text) - len(explanation.left_out)
    behind_end = np.array([start >= end_of_text for start, _ in spans])
    cut = int((without_unit & behind_end).sum())
    unread = int(without_unit.sum()) - cut
    return Rationale(per_unit >= threshold, per_unit, len(spans), cut, unread)


def _shared(units: Sequence[Unit], words: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Whether each unit shares a character with each word, (n, words)."""
    # An empty unit lies where it stands.
    unit_spans = [(unit.start, max(unit.end, unit.start + 1)) for unit in units]
    starts, ends = np.array(unit_spans).T  # (n,) each
    word_starts, word_ends = np.array(words).T  # (words,) each
    begins_before = starts[:, None] < word_ends[None, :]
    ends_behind = word_starts[None, :] < ends[:, None]
    return np.asarray(begins_before & ends_behind)


def _by_annotator(marks: Any) -> NDArray[np.float64] | None:
    """The marks of each annotator, (annotators, words); None where there is one list for all."""
    if not _is_list(marks) or not len(marks) or not all(_is_list(one) for one in marks):
        return None
    lengths = sorted({len(one) for one in marks})
    if len(lengths) > 1:
        given = " and ".join(str(length) for length in lengths)
        raise InputError(
            f"the annotators' marks are for {given} words: "
            "give the marks of all annotators on the same words"
        )
    numbers = _numbers(marks)
    if not np.isin(numbers, (0, 1)).all():
        raise InputError(
            f"an annotator's marks go up to {numbers.max():g}: "
            "give 0 or 1 for each word, or one list with the numbers of annotators"
        )
    return numbers


def _is_list(given: Any) -> bool:
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, (list, tuple))


def _threshold(counts: NDArray[np.float64], at_least: AtLeast | None) -> float:
    """What counts as marked."""
    if at_least == "all":
        raise InputError(
            "at_least is 'all', but the marks do not say how many annotators there were: "
            "give a list of marks from each annotator, or a number"
        )
    if at_least is None:
        if not np.isin(counts, (0, 1)).all():
            raise InputError(
                f"the marks go up to {counts.max():g}: "
                "say what counts as marked, such as at_least=2"
            )
        return 1
    if at_least <= 0:
        raise InputError(
            f"at_least is {at_least:g}: give a number above 0, because 0 marks every unit"
        )
    return at_least


def _word_spans(text: str, words: Sequence[str] | None) -> list[tuple[int, int]]:
    """Where each word stands; an empty one stands nowhere, at (0, 0)."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if words is None:
        return spans
    if isinstance(words, str):
        raise InputError(
            "words is one string: "
            "give a list of words, or leave words out to split the text at white space"
        )
    written = [word for word in words if word]
    if written != [text[start:end] for start, end in spans]:
        spans = [(unit.start, unit.end) for unit in placed(text, written)]
    places = iter(spans)
    return [next(places) if word else (0, 0) for word in words]


def _counts(marks: ArrayLike, words: int, split_by: str) -> NDArray[np.float64]:
    """The marks as numbers, (words,), checked."""
    counts = _numbers(marks)
    if counts.shape != (words,):
        given = f"marks of shape {counts.shape}"
        if counts.ndim == 1:
            given = f"{len(counts)} marks"
        raise InputError(
            f"the rationale has {given}, but the text has {words} words by {split_by}: "
            "give one mark for each word, or pass the words that were marked"
        )
    if not words:
        raise InputError("the rationale has no words: give one mark for each word of the text")
    return counts


def _numbers(marks: ArrayLike) -> NDArray[np.float64]:
    """Marks as numbers that may be counts."""
    try:
        numbers = np.asarray(marks, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the rationale has marks that are not numbers ({error}): "
            "give 0 or 1, or a count, for each word"
        ) from error
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise InputError(
            "the rationale has marks that are negative or not finite: "
            "give 0 or 1, or a count, for each word"
        )
    return numbers
