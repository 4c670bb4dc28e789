"""Words without a task meaning that make the model change its mind: found, and tested anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slalom_xai.audit.asking import TextAsker
from slalom_xai.audit.bias import WordCounts
from slalom_xai.audit.trials import Effect, Place, at_least, effects
from slalom_xai.audit.words import Candidate
from slalom_xai.metrics.intervals import false_discovery
from slalom_xai.progress import Bar


@dataclass(frozen=True)
class TrialSettings:
    """How words are tested.

    Attributes:
        control: random words that are put in beside those that are tested.
        margin: a word must flip more texts than random ones by this share. Without it, words that
            are a little less neutral than others would be found if only enough texts are asked.
        rate: of false discoveries among the findings, on average.
    """

    control: int = 40
    margin: float = 0.02
    rate: float = 0.05


TRIALS = TrialSettings()


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
        chance: the probability of so many flips or more if the word were as the random ones, plus
            the margin.
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

    def tried(
        self, chosen: Sequence[tuple[int, Candidate]], settings: TrialSettings
    ) -> list[TriedWord]:
        """Tests words towards classes, and decides which are findings.

        Args:
            chosen: classes and words.
            settings: how words are tested.

        Returns:
            Findings first, and among equals those that flip most.
        """
        rates = self._rates
        done = self._effects(chosen)
        tests = []
        for (label, _), effect in zip(chosen, done, strict=True):
            expected = min(0.99, rates[label] + settings.margin)
            tests.append((effect, at_least(effect.flips, effect.texts, expected)))
        adjusted = false_discovery(np.array([chance for _, chance in tests]))
        found = [bool(chance <= settings.rate) for chance in adjusted]
        tried = []
        for (label, candidate), (effect, chance), flag in zip(chosen, tests, found, strict=True):
            tried.append(
                TriedWord(
                    word=candidate.word,
                    lists=candidate.lists,
                    label=self.asker.labels[label],
                    value=float(candidate.values[label]),
                    z=self.counts.z(candidate.word, self.names[label]),
                    texts_with=candidate.texts,
                    effect=effect,
                    control=rates[label],
                    chance=chance,
                    found=flag,
                )
            )
        return sorted(tried, key=lambda one: (not one.found, -one.effect.rate, -one.effect.change))

    def _effects(self, chosen: Sequence[tuple[int, Candidate]]) -> list[Effect]:
        """What each word does, those of one class asked together."""
        done: dict[int, Effect] = {}
        for label in {label for label, _ in chosen}:
            numbers = [number for number, one in enumerate(chosen) if one[0] == label]
            words = [chosen[number][1].word for number in numbers]
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
