"""Rationales of people, marked on words, brought to the units of an explanation.

Words and units need not begin and end together, so a unit counts as marked where it shares a
character with a marked word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.spans import placed
from slalom_xai.text import Unit


@dataclass(frozen=True, eq=False)
class Rationale:
    """What people marked, per unit of an explanation.

    Attributes:
        marks: (n,), whether a unit overlaps a marked word; this is what ``Case.rationale`` takes.
        counts: (n,), the most that a word it overlaps was given; 0 where it overlaps none.
        words: how many words the rationale has.
        cut: words behind the end of what the model read; they have no unit and are not scored.
        unread: other words without a unit, such as characters the tokenizer drops.
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
    at_least: float | None = None,
) -> Rationale:
    """Maps marks on words to units: a unit is marked when it shares a character with a marked word.

    Args:
        explanation: of the text the rationale is about.
        marks: one per word: zeros and ones, or how many annotators marked it.
        words: the words in reading order, as they stand in the text; None: the text split at white
            space.
        at_least: what counts as marked, such as 2 for two annotators; needed where ``marks`` holds
            more than zeros and ones.

    Raises:
        InputError: there are not as many marks as words, a mark is not a count, words are not in
            the text, or units stand in several places of it.
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


def _threshold(counts: NDArray[np.float64], at_least: float | None) -> float:
    """What counts as marked."""
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
    """Where each word stands."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if words is None or list(words) == [text[start:end] for start, end in spans]:
        return spans
    if isinstance(words, str):
        raise InputError(
            "words is one string: "
            "give a list of words, or leave words out to split the text at white space"
        )
    return [(unit.start, unit.end) for unit in placed(text, list(words))]


def _counts(marks: ArrayLike, words: int, split_by: str) -> NDArray[np.float64]:
    """The marks as numbers, (words,), checked."""
    try:
        counts = np.asarray(marks, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the rationale has marks that are not numbers ({error}): "
            "give 0 or 1, or a count, for each word"
        ) from error
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
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise InputError(
            "the rationale has marks that are negative or not finite: "
            "give 0 or 1, or a count, for each word"
        )
    return counts
