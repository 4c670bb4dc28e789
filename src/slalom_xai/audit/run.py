"""The audit itself: reads the data, asks the model, and puts together what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slalom_xai.audit.asking import Array, TextAsker
from slalom_xai.audit.attacks import Attack, attack
from slalom_xai.audit.bias import distinct_words
from slalom_xai.audit.data import AuditData, AuditFields, class_of, read_data
from slalom_xai.audit.findings import TRIALS, Trials, TrialSettings, TriedWord
from slalom_xai.audit.trials import Effect, Place, random_places, without_word
from slalom_xai.audit.words import Candidate, first_round, loudest, words_to_try
from slalom_xai.corpus.options import ExplainOptions
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.progress import Bar, progress_bar


@dataclass(frozen=True)
class AuditSettings:
    """How much is asked.

    Attributes:
        texts: that are drawn from the table.
        screened: texts in which every word is put in the first round.
        tried: words of either kind for each class that are tested: those on lists, and others.
        trial_texts: in which these are put.
        least: texts that must hold a word which is on no list.
        most: words on no list in the first round.
        attacked: texts that are attacked.
        explained: texts that are explained.
        trials: how words are tested.
        seed: of all chances.
    """

    texts: int = 1000
    screened: int = 4
    tried: int = 40
    trial_texts: int = 100
    least: int = 5
    most: int = 2000
    attacked: int = 20
    explained: int = 20
    trials: TrialSettings = TRIALS
    seed: int = 0


SETTINGS = AuditSettings()


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        data: the table.
        labels: of the model.
        odds: (texts, classes), what the model answers to the texts of the sample.
        truth: the class of each text of the sample; -1 where it has none.
        findings: words on lists that were tested, findings first.
        strongest: other words that were tested, the strongest first.
        removals: for each finding, what happens when it is taken out of the texts that hold it.
        attacks: with the words that were found, and with random ones.
        explanations: of some texts.
        calls: to the model, those of the explanations included.
    """

    data: AuditData
    labels: tuple[str, ...]
    odds: Array
    truth: tuple[int, ...]
    findings: list[TriedWord]
    strongest: list[TriedWord]
    removals: dict[str, Effect]
    attacks: dict[str, list[Attack]]
    explanations: list[Explanation]
    calls: int


def run_audit(
    path: Path,
    options: ExplainOptions,
    fields: AuditFields,
    lists: Mapping[str, frozenset[str]],
    settings: AuditSettings = SETTINGS,
    show_progress: bool | None = None,
) -> Audit:
    """Audits a classifier on a table.

    Raises:
        SlalomError: the table, an option or the model cannot be used.
    """
    rng = np.random.default_rng(settings.seed)
    data = read_data(path, fields, settings.texts, rng)
    explainer = options.explainer()
    asker = TextAsker(explainer)
    with progress_bar(show_progress) as bar:
        return _Auditor(data, explainer, asker, lists, settings, rng, bar).audit()


class _Auditor:
    """One audit under way."""

    def __init__(
        self,
        data: AuditData,
        explainer: Explainer,
        asker: TextAsker,
        lists: Mapping[str, frozenset[str]],
        settings: AuditSettings,
        rng: np.random.Generator,
        bar: Bar | None,
    ) -> None:
        self._data, self._explainer, self._asker = data, explainer, asker
        self._lists, self._settings, self._rng, self._bar = lists, settings, rng, bar
        self._texts: list[str] = [one.text for one in data.sample]
        self._odds = asker.log_odds(self._texts, bar)

    def audit(self) -> Audit:
        candidates = self._candidates()
        listed = [one for one in candidates if one.lists]
        others = [one for one in candidates if not one.lists]
        places = [self._places(label) for label in range(len(self._asker.labels))]
        control = self._control(listed)
        trials = Trials(self._asker, places, control, self._data.counts, self._names(), self._bar)
        findings = self._tried(listed, trials)
        strongest = self._tried(others, trials)
        found = [one for one in findings if one.found]
        explanations = self._explanations()
        return Audit(
            data=self._data,
            labels=self._asker.labels,
            odds=self._odds,
            truth=tuple(class_of(one.label, self._asker.labels) for one in self._data.sample),
            findings=findings,
            strongest=strongest,
            removals={one.word: self._removed(one.word) for one in found},
            attacks=self._attacks(found, listed),
            explanations=explanations,
            calls=self._asker.calls + sum(one.calls for one in explanations),
        )

    def _candidates(self) -> list[Candidate]:
        settings = self._settings
        tried = words_to_try(self._data.counts, self._lists, settings.least, settings.most)
        if not any(lists for _, lists in tried):
            raise InputError(
                f"{self._data.path} holds no word of the lists: give lists of words that it holds"
            )
        places = random_places(self._texts[: settings.screened], self._rng)
        return first_round(self._asker, tried, self._data.counts, places, self._bar)

    def _places(self, label: int) -> list[Place]:
        """Places in texts that the model does not take for a class, none of the first round."""
        later = range(self._settings.screened, len(self._texts))
        other = [index for index in later if int(self._odds[index].argmax()) != label]
        chosen = [self._texts[index] for index in other[: self._settings.trial_texts]]
        return random_places(chosen, self._rng)

    def _tried(self, candidates: Sequence[Candidate], trials: Trials) -> list[TriedWord]:
        """Tests the loudest of some words, beside random ones of the lists."""
        chosen = []
        for label, places in enumerate(trials.places):
            if places:
                for one in loudest(candidates, label, self._settings.tried):
                    chosen.append((label, one))
        return trials.tried(chosen, self._settings.trials)

    def _control(self, listed: Sequence[Candidate]) -> list[str]:
        drawn = self._rng.permutation(len(listed))[: self._settings.trials.control]
        return [listed[index].word for index in drawn]

    def _names(self) -> list[str]:
        """The model's classes as the table names them."""
        found = {class_of(name, self._asker.labels): name for name in self._data.counts.texts}
        return [found.get(index, name) for index, name in enumerate(self._asker.labels)]

    def _removed(self, word: str) -> Effect:
        """What happens when a word is taken out of the texts that hold it."""
        holding = [
            (text, int(odds.argmax()))
            for text, odds in zip(self._texts, self._odds, strict=True)
            if word in distinct_words(text)
        ]
        without = [without_word(text, word) for text, _ in holding]
        pairs = [(after, label) for after, (_, label) in zip(without, holding, strict=True)]
        left = [(after, label) for after, label in pairs if after.strip()]
        odds = self._asker.log_odds([after for after, _ in left], self._bar)
        labels = [label for _, label in left]
        flips = sum(int(row.argmax()) != label for row, label in zip(odds, labels, strict=True))
        return Effect(word, len(left), flips, math.nan, math.nan)

    def _attacks(
        self, found: Sequence[TriedWord], listed: Sequence[Candidate]
    ) -> dict[str, list[Attack]]:
        """Attacks with words that were found, and with as many random ones.

        A text is attacked with the words that pull to another class than the one predicted.
        """
        attacks: dict[str, list[Attack]] = {"found": [], "control": []}
        for one, odds in zip(self._data.sample, self._odds, strict=True):
            label = self._asker.labels[int(odds.argmax())]
            tried = list(dict.fromkeys(word.word for word in found if word.label != label))
            if not tried or len(attacks["found"]) == self._settings.attacked:
                continue
            control = self._control(listed)[: len(tried)]
            attacks["found"].append(attack(self._asker, one.row, one.text, tried, self._bar))
            attacks["control"].append(attack(self._asker, one.row, one.text, control, self._bar))
        return attacks

    def _explanations(self) -> list[Explanation]:
        """Explanations of some texts; those that cannot be explained are left out and counted."""
        texts = self._texts[: self._settings.explained]
        results = [result for _, result in self._explainer.each(texts)]
        return [result for result in results if isinstance(result, Explanation)]
