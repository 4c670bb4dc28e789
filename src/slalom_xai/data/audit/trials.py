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

from slalom_xai.data.audit.data import distinct_words
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.models.text import words
from slalom_xai.system.progress import Bar

# Asks a model about plain texts, and counts the calls.


Array = NDArray[np.float64]

_AT_ONCE = 512  # texts that are read before they are asked


class TextAsker:
    """Answers about texts as log odds for each class.

    Args:
        explainer: holds the model.

    Attributes:
        calls: made so far.
    """

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self.calls = 0
        outputs = explainer.model.outputs
        if outputs.kind not in ("binary", "multiclass"):
            raise InputError(
                f"{explainer.model.name} gives {outputs.kind} outputs: "
                "an audit needs a classifier that chooses one of several classes"
            )
        self.labels = outputs.labels

    def log_odds(self, texts: Sequence[str], bar: Bar | None = None) -> Array:
        """The log odds (m, classes) of each class against all others.

        Raises:
            SlalomError: a text cannot be read, or the model failed.
        """
        found = [self._some(texts[start : start + _AT_ONCE], bar) for start in _starts(len(texts))]
        return np.concatenate(found) if found else np.zeros((0, len(self.labels)))

    def _some(self, texts: Sequence[str], bar: Bar | None) -> Array:
        model, truncation = self._explainer.model, self._explainer.truncation
        rows = []
        for text in texts:
            reading = model.read(text, truncation=truncation)
            rows.append(reading.rows_keeping(np.ones((1, len(reading.pieces)), dtype=bool)))
        if bar is not None:
            bar.start(len(rows))
        columns = self._explainer.batches.columns(rows, bar)
        self.calls += len(rows)
        return _against_others(np.concatenate([column.cpu().numpy() for column in columns]))


def _starts(count: int) -> range:
    return range(0, count, _AT_ONCE)


def _against_others(columns: Array) -> Array:
    """Explained columns (m, C) as the log odds (m, classes) of each class."""
    if columns.shape[1] == 1:
        return np.concatenate([-columns, columns], axis=1)
    logs = columns - np.logaddexp.reduce(columns, axis=1, keepdims=True)
    others = np.log1p(-np.exp(np.minimum(logs, -1e-15)))
    return logs - others


# What a word does when it is put into texts: measured by real calls, beside random words.


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


# How far harmless words differ from each other, and how unlikely a word beyond them is.
#
# Any word moves a model a little, and some words move it more than others for no reason that
# matters. A word is worth a finding only if it stands out from that spread. Its far end is
# described by a generalised Pareto distribution, the limit law of what exceeds a high threshold
# (Pickands, 1975), fitted by probability-weighted moments (Hosking and Wallis, 1987).


FEWEST = 50  # harmless words: the spread of fewer says too little

_FAR = 0.1  # share of the words that make up the far end
_FEWEST_FAR = 10  # words there, however few words there are

# The shape of the far end. Below 0 it would end somewhere, and a word beyond that end would be
# impossible: too much to claim from some dozens of words. Above a half the moments do not exist.
_LEAST_SHAPE, _GREATEST_SHAPE = 0.0, 0.5

# Of the log odds. Words may do the same to the last digit, as unknown ones do: a word that differs
# from them by a rounding error is not worth a finding.
_LEAST_SCALE = 0.01

_ALONE = 0.1  # share of the allowed error for words that the data do not tie to the class


@dataclass(frozen=True)
class FarEnd:
    """The far end of what harmless words do.

    Attributes:
        threshold: where it begins.
        share: of the words that are beyond the threshold.
        scale: of what exceeds it.
        shape: how slowly it falls; 0 falls exponentially.
    """

    threshold: float
    share: float
    scale: float
    shape: float

    def beyond(self, change: float) -> float:
        """The probability that a harmless word does as much or more."""
        excess = change - self.threshold
        if excess <= 0:
            return 1.0  # it is among most words; how many exactly does not matter
        if self.shape == 0:
            return self.share * math.exp(-excess / self.scale)
        return float(self.share * (1 + self.shape * excess / self.scale) ** (-1 / self.shape))


def far_end(changes: Array) -> FarEnd:
    """Fits the far end of the changes (m,) that m harmless words make.

    By hand: a fit is made for each word, and scipy's, by maximum likelihood, takes many times
    longer and knows no bounds of the shape.
    """
    ordered = np.sort(changes)
    count = min(len(ordered) - 1, max(_FEWEST_FAR, round(_FAR * len(ordered))))
    threshold = float(ordered[-count - 1])
    excesses = ordered[-count:] - threshold
    mean = float(excesses.mean())
    above = 1 - (np.arange(1, count + 1) - 0.35) / count
    weighted = float((excesses * above).mean())
    shape = 2 - mean / (mean - 2 * weighted) if mean > 2 * weighted else _LEAST_SHAPE
    shape = min(max(shape, _LEAST_SHAPE), _GREATEST_SHAPE)
    scale = max(mean * (1 - shape), _LEAST_SCALE)
    return FarEnd(threshold, count / len(ordered), scale, shape)


def chances(changes: Array, harmless: NDArray[np.bool_]) -> Array:
    """For each word, the probability that a harmless word does as much or more.

    Args:
        changes: (words,), what each word does.
        harmless: (words,), which of them stand for harmless words. A word is never compared with
            itself, so that one that stands out does not widen the spread.
    """
    found = np.ones(len(changes))
    for index, change in enumerate(changes):
        others = harmless.copy()
        others[index] = False
        found[index] = far_end(changes[others]).beyond(float(change))
    return found


def evidence(changes: Array, z: Array, harmless: NDArray[np.bool_]) -> Array:
    """For each word, the probability that a harmless word stands out as far.

    A word that a model was taught by its data does two things that chance seldom does together: it
    moves the model towards a class, and goes with that class in the data. Their geometric mean is
    compared with that of harmless words. A tenth of the error that is allowed goes to words that
    stand out by what they do to the model alone, for these may be taught by other data.

    Args:
        changes: (words,), of the log odds of a class.
        z: (words,), the z-statistic of word and class; NaN where the data say nothing.
        harmless: (words,), which of them stand for harmless words.
    """
    from scipy import stats

    alone = chances(changes, harmless)
    if np.isnan(z).all():
        return alone
    middle = np.median(changes[harmless])
    spread = stats.median_abs_deviation(changes[harmless], scale="normal") + _LEAST_SCALE
    both = np.sqrt(
        np.clip((changes - middle) / spread, 0, None) * np.clip(np.nan_to_num(z), 0, None)
    )
    found = np.minimum(chances(both, harmless) / (1 - _ALONE), alone / _ALONE)
    return np.minimum(found, 1.0)
