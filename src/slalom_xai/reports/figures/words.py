"""Tokens merged to the words a reader sees, with the scores of whole words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.figures.canvas import label
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.text import Unit, words

_WHOLE = ("type", "word", "phrase", "sentence")  # units that are more than a part of one word


@dataclass(frozen=True)
class Word:
    """Neighbouring units that a reader sees as one word.

    Attributes:
        text: its characters in the text.
        start: offset of the first one.
        end: offset behind the last one.
        part: 0, or 1 in the second text of a pair.
        places: which units it is made of.
    """

    text: str
    start: int
    end: int
    part: int
    places: tuple[int, ...]


def merged(explanation: Explanation) -> tuple[Word, ...]:
    """The words that the units make up, in reading order; units that share characters fall into one word.

    Larger units stay as they are, and so do types, which stand for several places.
    """
    found: list[list[int]] = []
    ends: list[tuple[int, int, int]] = []  # part, number of the word, end so far
    units = explanation.units
    starts = _word_starts(explanation)
    for place in sorted(
        range(len(units)),
        key=lambda place: (units[place].part, units[place].start, units[place].end),
    ):
        unit = units[place]
        if unit.end <= unit.start:
            continue  # no characters to show
        number = (
            place
            if explanation.granularity in _WHOLE
            else bisect_right(starts[unit.part], unit.start)
        )
        if (
            found
            and ends[-1][0] == unit.part
            and (ends[-1][1] == number or unit.start < ends[-1][2])
        ):
            found[-1].append(place)
            ends[-1] = (unit.part, number, max(ends[-1][2], unit.end))
        else:
            found.append([place])
            ends.append((unit.part, number, unit.end))
    return tuple(_word(explanation, sorted(places)) for places in found)


def _word(explanation: Explanation, places: Sequence[int]) -> Word:
    units = [explanation.units[place] for place in places]
    start, end, part = (
        min(unit.start for unit in units),
        max(unit.end for unit in units),
        units[0].part,
    )
    text = explanation.text if part == 0 else explanation.text_pair or ""
    return Word(text[start:end] or units[0].text, start, end, part, tuple(places))


def _word_starts(explanation: Explanation) -> list[list[int]]:
    return [
        [word.start for word in words(text)]
        for text in (explanation.text, explanation.text_pair or "")
    ]


def word_scores(explanation: Explanation, found: Sequence[Word], name: str) -> Array:
    """One score per word, (words,), each what the surrogate gives for the word as a whole.

    A SLALOM treats units together as one unit with the sum of their weights and the weighted mean of their values, so that
    nothing is approximated here. For additive methods, Shapley values and slopes the parts add up.
    """
    single = explanation.scores(name)
    if all(len(word.places) == 1 for word in found):
        return np.array([single[word.places[0]] for word in found])
    if name in ("removal", "alone") and not (
        name == "removal" and explanation.surrogate == "linear"
    ):
        return _predicted(explanation, found, single, name)
    if name == "importance":
        return np.array([np.logaddexp.reduce(single[list(word.places)]) for word in found])
    if name == "value" and explanation.surrogate == "slalom":
        importances = explanation.scores("importance")
        weights = [
            np.exp(importances[list(word.places)] - importances[list(word.places)].max())
            for word in found
        ]
        return np.array(
            [
                np.average(single[list(word.places)], weights=weight)
                for word, weight in zip(found, weights, strict=True)
            ]
        )
    return np.array([single[list(word.places)].sum() for word in found])


def _predicted(explanation: Explanation, found: Sequence[Word], single: Array, name: str) -> Array:
    """What the surrogate says without each word, or with nothing else."""
    everything = np.ones((1, len(explanation.units)))
    # An effect is a word's own: what the length alone does is in no unit's score, so in no word's either.
    effects = explanation
    if isinstance(explanation.function, SlalomSurrogate):
        effects = replace(explanation, function=replace(explanation.function, length_offsets=None))
    scores = np.array([single[word.places[0]] for word in found])
    for place, word in enumerate(found):
        if len(word.places) == 1:
            continue  # a score of its own
        row = np.zeros_like(everything)
        row[0, list(word.places)] = 1
        if name == "alone":
            scores[place] = explanation.predict(row)[0]
        else:
            without = (
                effects.predict(everything - row)[0]
                if len(word.places) < len(explanation.units)
                else effects.base_value
            )
            scores[place] = effects.predict(everything)[0] - without
    return scores


def unit_labels(explanation: Explanation) -> list[str]:
    """A short name for every unit; a piece that goes on with a word starts with a hyphen."""
    starts = _word_starts(explanation)
    return [
        ("-" if _continues(explanation, unit, starts[unit.part]) else "") + label(unit.text)
        for unit in explanation.units
    ]


def _continues(explanation: Explanation, unit: Unit, starts: list[int]) -> bool:
    if explanation.granularity != "token" or unit.end <= unit.start:
        return False
    text = explanation.text if unit.part == 0 else explanation.text_pair or ""
    first = unit.start + len(unit.text) - len(unit.text.lstrip())
    place = bisect_right(starts, first) - 1
    return place >= 0 and starts[place] < first and not text[first - 1].isspace()
