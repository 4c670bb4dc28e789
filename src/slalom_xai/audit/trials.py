"""What a word does when it is put into texts: measured by real calls, beside random words.

A trial puts each word at the same places of the same texts, none of which the model takes for the
class that is tried. A text flips if the model then chooses that class. Words without a meaning flip
some texts, too, because any word changes a text: that share is the control.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.audit.asking import TextAsker
from slalom_xai.audit.bias import distinct_words
from slalom_xai.progress import Bar
from slalom_xai.text import words

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """A place in a text where words are put.

    Attributes:
        text: the text.
        at: the character before which a word is put.
    """

    text: str
    at: int

    def with_word(self, word: str) -> str:
        """The text with a word there."""
        before, after = self.text[: self.at], self.text[self.at :]
        gap = "" if not before or before[-1].isspace() else " "
        return f"{before}{gap}{word}{' ' if after else ''}{after.lstrip()}"


def random_places(texts: Sequence[str], rng: np.random.Generator) -> list[Place]:
    """A place before a word of each text, or at its end."""
    places = []
    for text in texts:
        starts = [unit.start for unit in words(text)]
        places.append(Place(text, int(rng.choice([*starts, len(text)]))))
    return places


def without_word(text: str, word: str) -> str:
    """A text without a word, wherever it stands and however it is written."""
    pieces, end = [], 0
    for unit in words(text):
        if unit.text.lower() == word:
            pieces.append(text[end : unit.start].rstrip() or text[end : unit.start])
            end = unit.end
    return "".join([*pieces, text[end:]])


@dataclass(frozen=True)
class Effect:
    """What one word did to some texts.

    Attributes:
        word: that was put in.
        texts: how many.
        flips: how many the model then took for the class.
        change: of the log odds of the class, on average.
        error: the standard error of ``change``.
    """

    word: str
    texts: int
    flips: int
    change: float
    error: float

    @property
    def rate(self) -> float:
        """The share of texts that flipped."""
        return self.flips / self.texts if self.texts else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of ``rate`` (Wilson's)."""
        return wilson(self.flips, self.texts)


def effects(
    asker: TextAsker,
    tried: Sequence[str],
    places: Sequence[Place],
    label: int,
    bar: Bar | None = None,
) -> list[Effect]:
    """Puts each word into each text.

    Args:
        asker: asks the model.
        tried: the words.
        places: of texts that the model does not take for the class.
        label: the index of the class.
        bar: shows how far it is.
    """
    changes, flipped = put_in(asker, tried, places, label, bar)
    flips = flipped.sum(axis=1)
    return [
        Effect(word, len(places), int(flips[index]), *_mean(changes[index]))
        for index, word in enumerate(tried)
    ]


def put_in(
    asker: TextAsker,
    tried: Sequence[str],
    places: Sequence[Place],
    label: int,
    bar: Bar | None = None,
) -> tuple[Array, NDArray[np.bool_]]:
    """Each word in each text: changes of the log odds, and which texts flip, (words, texts) each.

    The arguments are those of ``effects``.
    """
    before = asker.log_odds([place.text for place in places], bar)[:, label]
    texts = [place.with_word(word) for word in tried for place in places]
    odds = asker.log_odds(texts, bar).reshape(len(tried), len(places), -1)
    return odds[:, :, label] - before, odds.argmax(axis=2) == label


def removed(
    asker: TextAsker, word: str, texts: Sequence[str], odds: Array, bar: Bar | None = None
) -> Effect:
    """What happens when a word is taken out of the texts that hold it.

    Args:
        asker: asks the model.
        word: in small letters.
        texts: all of them.
        odds: (texts, classes), what the model answers to them.
        bar: shows how far it is.
    """
    holding = [index for index, text in enumerate(texts) if word in distinct_words(text)]
    without = [(without_word(texts[index], word), index) for index in holding]
    left = [(text, int(odds[index].argmax())) for text, index in without if text.strip()]
    after = asker.log_odds([text for text, _ in left], bar)
    flips = sum(int(row.argmax()) != label for row, (_, label) in zip(after, left, strict=True))
    return Effect(word, len(left), flips, math.nan, math.nan)


def _mean(numbers: Array) -> tuple[float, float]:
    """The mean of numbers, and its standard error."""
    error = math.nan
    if len(numbers) > 1:
        error = float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
    return float(numbers.mean()), error


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95% interval of a share of which ``hits`` of ``of`` were seen; all of 0 to 1 of none."""
    from scipy import stats

    if of == 0:
        return 0.0, 1.0
    interval = stats.binomtest(hits, of).proportion_ci(0.95, "wilson")
    return float(interval.low), float(interval.high)
