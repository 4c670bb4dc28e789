"""Words without a task meaning that change the model's mind more than harmless words do.

Two things make a finding. The word stands out: it moves the model towards a class, and goes with
that class in the data, further than the spread between harmless words explains (``trials``), at a
false discovery rate over all words of the lists and all classes. And it flips texts, which is
measured on other texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slalom_xai.data.audit.data import WordCounts
from slalom_xai.data.audit.trials import Array, Effect, Place, TextAsker, effects, evidence
from slalom_xai.data.audit.words import Candidate
from slalom_xai.system.progress import Bar


@dataclass(frozen=True)
class TrialSettings:
    """How words are tested.

    Attributes:
        control: random words that are put in beside those that are tested.
        margin: a finding must flip more texts than random words by this share: a word that stands
            out and flips nothing changes nobody's mind.
        rate: of false discoveries among the findings, on average.
        least: texts that words must be put into towards a class; fewer flips say too little.
    """

    control: int = 40
    margin: float = 0.02
    rate: float = 0.05
    least: int = 20


TRIALS = TrialSettings()


@dataclass(frozen=True)
class Chosen:
    """A word that is put into texts.

    Attributes:
        label: the class towards which it is tried.
        candidate: the word.
        chance: that a harmless word stands out as far or further; NaN where that was not
            tested.
        stands_out: whether it does, at the rate of false discoveries.
    """

    label: int
    candidate: Candidate
    chance: float = math.nan
    stands_out: bool = False


def standing_out(
    listed: Sequence[Candidate],
    every: Sequence[Candidate],
    ties: Mapping[int, Array],
    rate: float,
) -> list[Chosen]:
    """Compares words of the lists with harmless ones, towards each class.

    Args:
        listed: the words of the lists.
        every: these and all harmless words.
        ties: for each class towards which words are tried, the z-statistic of each of ``every``;
            NaN where the data say nothing.
        rate: of false discoveries.

    Returns:
        Every word for every class, those that stand out most first.
    """
    from scipy import stats

    harmless = np.array([one.harmless for one in every])
    index_of = {one.word: index for index, one in enumerate(every)}
    tests = []
    for label, z in ties.items():
        found = evidence(np.array([one.changes[label] for one in every]), z, harmless)
        tests += [(label, one, float(found[index_of[one.word]])) for one in listed]
    adjusted = stats.false_discovery_control([chance for _, _, chance in tests])
    chosen = [
        Chosen(label, one, chance, bool(q <= rate))
        for (label, one, chance), q in zip(tests, adjusted, strict=True)
    ]
    return sorted(chosen, key=lambda one: (one.chance, -one.candidate.changes[one.label]))


@dataclass(frozen=True)
class TriedWord:
    """A word that was put into texts by real calls.

    Attributes:
        word: itself.
        lists: that it is on.
        label: the class towards which it was tried.
        value: log odds of that class for a text filled with the word.
        z: what the data set says of word and class.
        texts_with: texts of the data that hold it.
        effect: what it did.
        control: share of texts that random words flipped.
        chance: that a harmless word stands out as far or further; NaN where that was not
            tested.
        found: whether it is a finding.
    """

    word: str
    lists: tuple[str, ...]
    label: str
    value: float
    z: float
    texts_with: int
    effect: Effect
    control: float
    chance: float
    found: bool


@dataclass(frozen=True)
class Trials:
    """Tests of words.

    Attributes:
        asker: asks the model.
        places: for each class, places in texts that the model does not take for it.
        control: random words.
        counts: of the data.
        names: of each class in the data.
        bar: shows how far it is.
    """

    asker: TextAsker
    places: Sequence[Sequence[Place]]
    control: Sequence[str]
    counts: WordCounts
    names: Sequence[str]
    bar: Bar | None

    def try_words(self, chosen: Sequence[Chosen], margin: float) -> list[TriedWord]:
        """Puts words into texts, and says which are findings.

        Args:
            chosen: the words.
            margin: share of texts by which a finding must flip more than random words.

        Returns:
            Findings first, those that stand out most before the others.
        """
        tried = []
        for one, effect in zip(chosen, self._effects(chosen), strict=True):
            control = self._rates[one.label]
            flips = effect.rate > control + margin and effect.interval[0] > control
            tried.append(
                TriedWord(
                    word=one.candidate.word,
                    lists=one.candidate.lists,
                    label=self.asker.labels[one.label],
                    value=float(one.candidate.values[one.label]),
                    z=self.counts.z(one.candidate.word, self.names[one.label]),
                    texts_with=one.candidate.texts,
                    effect=effect,
                    control=control,
                    chance=one.chance,
                    found=one.stands_out and flips,
                )
            )
        return sorted(tried, key=_evidence)

    def _effects(self, chosen: Sequence[Chosen]) -> list[Effect]:
        """What each word does, those of one class asked together."""
        done: dict[int, Effect] = {}
        for label in sorted({one.label for one in chosen}):
            numbers = [number for number, one in enumerate(chosen) if one.label == label]
            words = [chosen[number].candidate.word for number in numbers]
            found = effects(self.asker, words, self.places[label], label, self.bar)
            done.update(zip(numbers, found, strict=True))
        return [done[number] for number in range(len(chosen))]

    @cached_property
    def _rates(self) -> dict[int, float]:
        """For each class that has texts to try, the share of them that random words flip."""
        rates = {}
        for label, places in enumerate(self.places):
            if places:
                found = effects(self.asker, self.control, places, label, self.bar)
                rates[label] = float(np.mean([effect.rate for effect in found]))
        return rates


def _evidence(one: TriedWord) -> tuple[bool, float, float, float]:
    """Sorts words: findings first, then by how far they stand out, then by what they flip."""
    chance = 1.0 if math.isnan(one.chance) else one.chance
    return not one.found, chance, -one.effect.rate, -one.effect.change
