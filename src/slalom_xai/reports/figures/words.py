"""Tokens merged to the words a reader sees, with the scores of whole words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.explanation import Array, Explanation
from slalom_xai.models.text import Unit, words
from slalom_xai.reports.figures.canvas import label
from slalom_xai.slalom import BoundedSlalom

_NEARLY = 1 - 1e-12  # a value at an end of the range has no finite place before the bound
_WHOLE = (
    "type",
    "word",
    "phrase",
    "sentence",
    "passage",
)  # units that are more than a part of one word


@dataclass(frozen=True)
class Word:
    """Neighbouring units that a reader sees as one word.

    Attributes:
        text: its characters in the text.
        start: offset of the first one.
        end: offset behind the last one.
        part: 0, or 1 in the second text of a pair.
        indices: which units it is made of.
    """

    text: str
    start: int
    end: int
    part: int
    indices: tuple[int, ...]


@dataclass
class _Group:
    """Units that are being collected into a word.

    Attributes:
        part: 0, or 1 in the second text of a pair.
        number: of the word in the text.
        end: offset behind the last character so far.
        indices: of the units so far.
    """

    part: int
    number: int
    end: int
    indices: list[int]

    def takes(self, unit: Unit, number: int) -> bool:
        """Whether a unit stands in the same word or shares characters with the group."""
        return self.part == unit.part and (self.number == number or unit.start < self.end)


def merge_units(explanation: Explanation) -> tuple[Word, ...]:
    """The words that the units make up, in reading order.

    Units that share characters fall into one word. Larger units stay as they are, and so do types,
    which stand for several places.
    """
    units = explanation.units
    starts = _word_starts(explanation)
    groups: list[_Group] = []
    for index in sorted(range(len(units)), key=lambda index: _span(units[index])):
        unit = units[index]
        if unit.end <= unit.start:
            continue  # no characters to show
        number = index
        if explanation.granularity not in _WHOLE:
            number = bisect_right(starts[unit.part], unit.start)
        if groups and groups[-1].takes(unit, number):
            group = groups[-1]
            group.indices.append(index)
            group.number, group.end = number, max(group.end, unit.end)
        else:
            groups.append(_Group(unit.part, number, unit.end, [index]))
    return tuple(_word(explanation, sorted(group.indices)) for group in groups)


def _span(unit: Unit) -> tuple[int, int, int]:
    return unit.part, unit.start, unit.end


def _word(explanation: Explanation, indices: Sequence[int]) -> Word:
    units = [explanation.units[index] for index in indices]
    start = min(unit.start for unit in units)
    end = max(unit.end for unit in units)
    part = units[0].part
    characters = _part_text(explanation, part)[start:end] or units[0].text
    return Word(characters, start, end, part, tuple(indices))


def _part_text(explanation: Explanation, part: int) -> str:
    """The first or the second text of a pair."""
    return (explanation.text, explanation.text_pair or "")[part]


def _word_starts(explanation: Explanation) -> list[list[int]]:
    """For each of the two texts of a pair, the offsets where its words start."""
    starts = []
    for part in (0, 1):
        starts.append([word.start for word in words(_part_text(explanation, part))])
    return starts


def word_scores(explanation: Explanation, merged_words: Sequence[Word], name: str) -> Array:
    """One score per word, (words,), each what the surrogate gives for the word as a whole.

    A SLALOM treats units together as one unit with the sum of their weights and the weighted mean
    of their values before the bound, so that nothing is approximated here. For methods with one
    score, Shapley values and slopes, the parts add up; only removals of functions that are not
    linear do not. Where units were measured, the model was not called for words of several units:
    their scores are what the explanation predicts.
    """
    scores = explanation.scores(name)
    if all(len(word.indices) == 1 for word in merged_words):
        return np.array([scores[word.indices[0]] for word in merged_words])
    if name == "alone":
        return _alone(explanation, merged_words, scores)
    if name == "removal" and explanation.surrogate != "linear":
        return _removal(explanation, merged_words, scores)
    parts = [scores[list(word.indices)] for word in merged_words]
    if name == "importance":
        return np.array([np.logaddexp.reduce(part) for part in parts])
    if name == "value" and explanation.has_importances:
        return _values(explanation, merged_words, scores)
    return np.array([part.sum() for part in parts])


def word_effects(explanation: Explanation, merged_words: Sequence[Word]) -> NDArray[np.bool_]:
    """Which words have an effect, (words,): those with any unit that has one."""
    effect = explanation.has_effect
    return np.array([effect[list(word.indices)].any() for word in merged_words], dtype=bool)


def has_longer_words(explanation: Explanation) -> bool:
    """Whether any word is made of several units."""
    return any(len(word.indices) > 1 for word in merge_units(explanation))


def _values(explanation: Explanation, merged_words: Sequence[Word], values: Array) -> Array:
    """The value of each word, (words,): the weighted mean of its units' values (n,)."""
    importances, function = explanation.scores("importance"), explanation.function
    if isinstance(function, BoundedSlalom) and explanation.range is not None:
        low, high = explanation.range
        centre, half = (low + high) / 2, (high - low) / 2
        inside = np.clip((values - centre) / half, -_NEARLY, _NEARLY)
        inner = np.arctanh(inside)
        means = np.array([_weighted_mean(inner, importances, word) for word in merged_words])
        return np.asarray(centre + half * np.tanh(means))
    return np.array([_weighted_mean(values, importances, word) for word in merged_words])


def _weighted_mean(values: Array, importances: Array, word: Word) -> float:
    """The mean of a word's values, weighted by exp(importance)."""
    own = importances[list(word.indices)]
    return float(np.average(values[list(word.indices)], weights=np.exp(own - own.max())))


def _alone(explanation: Explanation, merged_words: Sequence[Word], scores: Array) -> Array:
    """What the surrogate says for nothing but each word, (words,).

    Args:
        explanation: whose surrogate is asked.
        merged_words: of its text.
        scores: (units,), the same for single units; words of one unit have it from there.
    """
    alone = np.array([scores[word.indices[0]] for word in merged_words])
    for index, word in enumerate(merged_words):
        if len(word.indices) > 1:
            alone[index] = explanation.predict(_only(word, len(explanation.units)))[0]
    return alone


def _removal(explanation: Explanation, merged_words: Sequence[Word], scores: Array) -> Array:
    """What the surrogate loses without each word, (words,); arguments as for ``_alone``."""
    everything = np.ones((1, len(explanation.units)))
    removal = np.array([scores[word.indices[0]] for word in merged_words])
    for index, word in enumerate(merged_words):
        if len(word.indices) == 1:
            continue  # a score of its own
        without = explanation.base_value
        if len(word.indices) < len(explanation.units):
            without = explanation.predict(everything - _only(word, len(explanation.units)))[0]
        removal[index] = explanation.predict(everything)[0] - without
    return removal


def _only(word: Word, units: int) -> Array:
    """The row that keeps nothing but a word, (1, units)."""
    row = np.zeros((1, units))
    row[0, list(word.indices)] = 1
    return row


def unit_labels(explanation: Explanation) -> list[str]:
    """A short name for every unit; a piece that goes on with a word starts with a hyphen."""
    starts = _word_starts(explanation)
    names = []
    for unit in explanation.units:
        name = label(unit.text)
        if _continues(explanation, unit, starts[unit.part]):
            name = "-" + name
        names.append(name)
    return names


def _continues(explanation: Explanation, unit: Unit, starts: list[int]) -> bool:
    """Whether a unit begins inside a word; the words of its text begin at ``starts``."""
    if explanation.granularity != "token" or unit.end <= unit.start:
        return False
    text = _part_text(explanation, unit.part)
    first = unit.start + len(unit.text) - len(unit.text.lstrip())
    word = bisect_right(starts, first) - 1
    return word >= 0 and starts[word] < first and not text[first - 1].isspace()
