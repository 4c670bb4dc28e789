"""Which words changed between two models: paired differences over texts, false finds controlled.

Of each word and text the difference of a score is taken (the mean over its places). A word's change
is the mean of these over texts. Its standard error comes from their variance, drawn towards that of
all words, because most words stand in few texts.

Training moves every score a little: a model that has grown surer of itself has larger values
everywhere. A word counts as changed where it moved otherwise than words in general did, which is
told by a robust line through all words and their spread around it (the drift). Benjamini and
Hochberg's procedure decides which of these finds are kept: at most the given share of them is false
on average. Of two equal models nothing moves, and nothing is found.

What counts is what a word does in texts: its Shapley value, or what is lost without it where a
method has none. Values and importances of a word that
is hardly heard are uncertain, and training throws them about. They are tested in the same way and
say how a word changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError, quote_text

Record = Mapping[str, Any]
Array = NDArray[np.float64]
SCORES = ("value", "importance", "effect")
_PRIOR_TEXTS = 4.0  # texts that the variance of all words counts for in that of each
_NORMAL = 1.4826  # makes a median of sizes the standard deviation of a normal distribution
_MOST_FREEDOM = 1e6
_BISQUARE = 4.685  # of standard deviations: words further away do not count at all
_LINES = 30  # rounds in which the line settles
_LEAST_WORDS = 20  # fewer tell a shift and no slope
_ROUNDING = 1e-9
_TINY = 1e-7  # of the spread of a score: what single precision rounds away is no change


@dataclass(frozen=True)
class Change:
    """What became of one score of a word.

    Attributes:
        before: mean over texts under the first model.
        after: under the second.
        difference: its mean.
        error: standard error of the difference.
        p: chance of such a difference of a word that moved as words in general did.
        q: the smallest false discovery rate at which it is called changed.
        changed: whether it is, at the rate that was asked for.
    """

    before: float
    after: float
    difference: float
    error: float
    p: float
    q: float
    changed: bool


@dataclass(frozen=True)
class Drift:
    """How words in general moved: to ``shift + slope * before``, give or take ``spread``.

    Attributes:
        shift: what is added.
        slope: what scores are multiplied by.
        spread: of words around that line, beyond their errors; a robust standard deviation.
    """

    shift: float
    slope: float
    spread: float


@dataclass(frozen=True)
class WordChange:
    """A word and what became of its scores.

    Attributes:
        word: in lower case.
        texts: that have it.
        value: what it says.
        importance: how strongly it is heard; None where no text tells.
        effect: what it does in texts; None where no text tells.
    """

    word: str
    texts: int
    value: Change
    importance: Change | None
    effect: Change | None = None

    @property
    def scores(self) -> list[Change]:
        """What is known of it."""
        return [self.value] if self.importance is None else [self.value, self.importance]

    @property
    def moved(self) -> bool:
        """Whether either score changed."""
        return any(score.changed for score in self.scores)

    @property
    def changed(self) -> bool:
        """Whether what the word does in texts changed; either score where no text tells."""
        return self.moved if self.effect is None else self.effect.changed


def read_effect(unit: Record) -> float | None:
    """What a unit does in its text: its Shapley value, or else what is lost without it."""
    shapley: float | None = unit["shapley"]
    removal: float | None = unit["removal"]
    return removal if shapley is None else shapley


class Paired:
    """Collects the scores of words under two models, text by text."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._rows: list[tuple[float, ...]] = []

    def add(self, before: Record, after: Record) -> None:
        """Adds one text that both models were asked about; units are the same."""
        places: dict[str, list[list[float]]] = {}
        columns = [
            np.array([read(unit) for unit in record["units"]], dtype=float)
            for record in (before, after)
            for read in (itemgetter("value"), itemgetter("importance"), read_effect)
        ]
        value_a, importance_a, effect_a, value_b, importance_b, effect_b = columns
        # Importances sum to 0 in each text: one that grows pushes all others down. The median of
        # the differences is put back to 0.
        importance_b = importance_b - np.median(importance_b - importance_a)
        scores = np.column_stack([value_a, value_b, importance_a, importance_b, effect_a, effect_b])
        for unit, row in zip(before["units"], scores.tolist(), strict=True):
            places.setdefault(unit["unit"].casefold(), []).append(row)
        for word, rows in places.items():
            number = self._words.setdefault(word, len(self._words))
            mean = np.mean(rows, axis=0)
            self._rows.append((number, *mean.tolist()))

    def changes(self, rate: float, least: int) -> tuple[list[WordChange], dict[str, Drift]]:
        """Words of at least so many texts, those that changed first, and the drift by score.

        Args:
            rate: of false discoveries.
            least: texts that a word must have.
        """
        if not self._rows:
            return [], {}
        table = np.array(self._rows)
        word, scores = table[:, 0].astype(np.int64), table[:, 1:]
        texts = np.bincount(word)
        value, of_values = _changes(word, scores[:, :2], least, rate)
        importance, of_importances = _changes(word, scores[:, 2:4], least, rate)
        effect, of_effects = _changes(word, scores[:, 4:], least, rate)
        names = list(self._words)
        found = [
            WordChange(
                names[index], int(texts[index]), change, importance.get(index), effect.get(index)
            )
            for index, change in value.items()
        ]
        found.sort(key=lambda each: (not each.changed, (each.effect or each.value).p))
        drifts = dict(zip(SCORES, (of_values, of_importances, of_effects), strict=True))
        return found, drifts


def _changes(
    word: NDArray[np.int64], scores: Array, least: int, rate: float
) -> tuple[dict[int, Change], Drift]:
    """The changes of one score by the number of the word, and how words moved in general.

    Args:
        word: (k,), of each pair of a word and a text.
        scores: (k, 2), before and after; NaN where there is none.
        least: texts that a word must have.
        rate: of false discoveries.
    """
    from scipy import stats

    there = np.isfinite(scores).all(axis=1)
    numbers, word = np.unique(word[there], return_inverse=True)
    before, after = scores[there].T
    if not len(numbers):
        return {}, Drift(0.0, 1.0, 0.0)
    difference = after - before
    difference[np.abs(difference) < _TINY * (float(np.std(scores[there])) or 1.0)] = 0.0
    texts = np.bincount(word)
    first, mean = np.bincount(word, before) / texts, np.bincount(word, difference) / texts
    error, freedom = _errors(word, difference, mean, texts)
    kept = np.flatnonzero(texts >= max(least, 1))
    first, mean, error, freedom = (each[kept] for each in (first, mean, error, freedom))
    drift = _drift(first, mean, error)
    p = _chances(first, mean, error, freedom, drift)
    q = stats.false_discovery_control(p)
    changes = {}
    for place, index in enumerate(numbers[kept].tolist()):
        changes[index] = Change(
            before=float(first[place]),
            after=float(first[place] + mean[place]),
            difference=float(mean[place]),
            error=float(error[place]),
            p=float(p[place]),
            q=float(q[place]),
            changed=bool(q[place] <= rate),
        )
    return changes, drift


def _chances(first: Array, mean: Array, error: Array, freedom: Array, drift: Drift) -> Array:
    """The chance of each word's change, of one that moved as words in general did."""
    from scipy import stats

    away = first + mean - (drift.shift + drift.slope * first)
    variance = error**2 + drift.spread**2
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(away) <= _ROUNDING, 0.0, away / np.sqrt(variance))
        # The drift is known well, a word's own error is not (Satterthwaite).
        own = np.where(error > 0, variance**2 / (error**4 / freedom), _MOST_FREEDOM)
    return np.asarray(2 * stats.t.sf(np.abs(t), own.clip(max=_MOST_FREEDOM)))


def _drift(before: Array, difference: Array, error: Array) -> Drift:
    """How words in general moved: a line that outlying words do not bend (Tukey's bisquare)."""
    if not len(before):
        return Drift(0.0, 1.0, 0.0)
    shift, slope = float(np.median(difference)), 0.0
    for _ in range(_LINES):
        away = difference - shift - slope * before
        size = _NORMAL * float(np.median(np.abs(away)))
        if size == 0:
            break
        weights = np.clip(1 - (away / (_BISQUARE * size)) ** 2, 0, None) ** 2
        if len(before) < _LEAST_WORDS or not np.ptp(before[weights > 0]):
            shift = float(np.average(difference, weights=weights))
            continue
        root = np.sqrt(weights)
        design = np.column_stack([root, root * before])
        shift, slope = np.linalg.lstsq(design, root * difference, rcond=None)[0].tolist()
    away = difference - shift - slope * before
    beyond = (_NORMAL * float(np.median(np.abs(away)))) ** 2 - float(np.median(error**2))
    return Drift(shift, 1 + slope, math.sqrt(max(0.0, beyond)))


def _errors(
    word: NDArray[np.int64], difference: Array, mean: Array, texts: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Standard errors of means, and their degrees of freedom."""
    squares = np.bincount(word, (difference - mean[word]) ** 2)
    several = texts > 1
    pooled = 0.0
    if several.any():
        pooled = float(squares[several].sum() / (texts[several] - 1).sum())
    freedom: Array = np.asarray(texts - 1 + _PRIOR_TEXTS, dtype=np.float64)
    variance = (squares + _PRIOR_TEXTS * pooled) / freedom
    return np.sqrt(variance / texts).astype(np.float64), freedom


# Which texts two models answer differently, and by which words.


_WORDS = 5  # that are named for each text


@dataclass(frozen=True)
class WordShare:
    """What a unit does to the answers to one text.

    Attributes:
        unit: as it stands there.
        before: what is lost without it, under the first model.
        after: under the second.
    """

    unit: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """By how much more it argues for the target."""
        return self.after - self.before


@dataclass(frozen=True)
class TextChange:
    """A text that two models answer differently.

    Attributes:
        id: of the text in the table.
        text: the text.
        before: the label that the first model predicts.
        after: the label that the second one predicts.
        output_before: the explained output of the first model.
        output_after: that of the second.
        words: whose effect differs most between the two, in the direction of the change first.
    """

    id: str
    text: str
    before: str | None
    after: str | None
    output_before: float
    output_after: float
    words: tuple[WordShare, ...]


def check_pair(before: Record, after: Record) -> None:
    """Refuses explanations of different units or labels.

    Raises:
        InputError: the two models split the text differently, or explain another label.
    """
    spans = [
        [(unit["part"], unit["start"], unit["end"]) for unit in record["units"]]
        for record in (before, after)
    ]
    if spans[0] != spans[1]:
        raise InputError(
            f"the two models split {quote_text(before['text'], 60)} into different tokens: "
            "compare them with --granularity word"
        )
    if before["target"] != after["target"]:
        raise InputError(
            f"one model explains {before['target']!r} and the other {after['target']!r} in "
            f"{quote_text(before['text'], 60)}: give --target"
        )


def text_change(before: Record, after: Record) -> TextChange | None:
    """What became of a text; None where both models predict the same label."""
    if before["predicted"] == after["predicted"]:
        same_side = before["prediction"] * after["prediction"] > 0
        if before["predicted"] is not None or same_side:
            return None
    moved = after["prediction"] - before["prediction"]
    shares = [
        WordShare(one["unit"], first, second)
        for one, other in zip(before["units"], after["units"], strict=True)
        if (first := read_effect(one)) is not None and (second := read_effect(other)) is not None
    ]
    direction = 1 if moved >= 0 else -1
    shares.sort(key=lambda share: -direction * share.difference)
    return TextChange(
        before["id"],
        before["text"],
        before["predicted"],
        after["predicted"],
        before["prediction"],
        after["prediction"],
        tuple(share for share in shares[:_WORDS] if direction * share.difference > 0),
    )
