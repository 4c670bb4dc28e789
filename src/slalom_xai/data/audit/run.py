"""The audit itself: reads the data, asks the model, and puts together what was found."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slalom_xai.data.audit.data import AuditData, AuditFields, class_of, read_data
from slalom_xai.data.audit.findings import (
    TRIALS,
    Chosen,
    Trials,
    TrialSettings,
    TriedWord,
    standing_out,
)
from slalom_xai.data.audit.groups import GROUPS, GroupSettings, GroupTrials, Subgroups
from slalom_xai.data.audit.slices import columns
from slalom_xai.data.audit.trials import (
    FEWEST,
    Array,
    Effect,
    Place,
    TextAsker,
    random_places,
    removed,
)
from slalom_xai.data.audit.words import (
    Candidate,
    first_round,
    own_lists,
    select_loudest,
    words_to_try,
)
from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.models.text import words
from slalom_xai.options import ExplainOptions
from slalom_xai.system.progress import Bar, progress_bar

# How much an audit asks.


@dataclass(frozen=True)
class AuditSettings:
    """How much is asked.

    Attributes:
        texts: that are drawn from the table.
        screened: texts in which every word of the lists is put in the first round; a third of all
            texts at most.
        glanced: of these, texts in which the other words are put.
        tried: words of either kind for each class that are tested: those on lists, and others.
        trial_texts: in which these are put.
        least: texts that must hold a word which is on no list.
        most: words on no list in the first round.
        attacked: texts that are attacked.
        explained: texts that are explained.
        trials: how words are tested.
        groups: how much is asked about groups of texts.
        seed: of all chances.
    """

    texts: int = 1000
    screened: int = 24
    glanced: int = 4
    tried: int = 40
    trial_texts: int = 100
    least: int = 5
    most: int = 2000
    attacked: int = 20
    explained: int = 20
    trials: TrialSettings = TRIALS
    groups: GroupSettings = GROUPS
    seed: int = 0


SETTINGS = AuditSettings()


# Whether a few words turn texts round: greedy attacks, beside the same with random words.
#
# Each step puts in the one word, before the text, into its middle or behind it, that lowers the
# log odds of the predicted class most. The control has as many random words to choose from.


STEPS = 4  # words that are put in, at most


@dataclass(frozen=True)
class Attack:
    """What became of a text.

    Attributes:
        row: of the table.
        added: the words that were put in, in order.
        path: log odds of the first predicted class, before and after each word.
        turned: whether the model changed its mind.
    """

    row: int
    added: tuple[str, ...]
    path: tuple[float, ...]
    turned: bool


def attack(
    asker: TextAsker, row: int, text: str, tried: Sequence[str], bar: Bar | None = None
) -> Attack:
    """Puts in one word after the other until the model changes its mind.

    Args:
        asker: asks the model.
        row: of the text.
        text: itself.
        tried: the words to choose from.
        bar: shows how far it is.
    """
    odds = asker.log_odds([text], bar)[0]
    label = int(odds.argmax())
    path = [float(odds[label])]
    added: list[str] = []
    turned = False
    while len(added) < STEPS and not turned and tried:
        edits = [(word, place.with_word(word)) for word in tried for place in _places(text)]
        found = asker.log_odds([edited for _, edited in edits], bar)
        best = int(found[:, label].argmin())
        word, text = edits[best]
        added.append(word)
        path.append(float(found[best, label]))
        turned = int(found[best].argmax()) != label
    return Attack(row, tuple(added), tuple(path), turned)


def _places(text: str) -> list[Place]:
    """Before a text, in its middle and behind it."""
    starts = [unit.start for unit in words(text)] or [0]
    return [Place(text, at) for at in dict.fromkeys((0, starts[len(starts) // 2], len(text)))]


# The audit itself: reads the data, asks the model, and puts together what was found.


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
        places: for each class, where words were put; nowhere where there are too few texts.
        untested: how many texts there are for each class that has too few of them.
        screened: words of the lists with what the first round says of them.
        removals: for each finding, what happens when it is taken out of the texts that hold it.
        attacks: with the words that were found, and with random ones.
        subgroups: what words do in each group of texts.
        explanations: of some texts.
        unexplained: texts that should have been explained and could not.
        calls: to the model, those of the explanations included.
    """

    data: AuditData
    labels: tuple[str, ...]
    odds: Array
    truth: tuple[int, ...]
    findings: list[TriedWord]
    strongest: list[TriedWord]
    places: list[list[Place]]
    untested: dict[str, int]
    screened: list[Candidate]
    removals: dict[str, Effect]
    attacks: dict[str, list[Attack]]
    subgroups: Subgroups
    explanations: list[Explanation]
    unexplained: int
    calls: int


def run_audit(
    path: Path,
    options: ExplainOptions | Explainer,
    fields: AuditFields,
    lists: Mapping[str, frozenset[str]],
    settings: AuditSettings = SETTINGS,
    show_progress: bool | None = None,
) -> Audit:
    """Audits a classifier on a table.

    Args:
        path: of the table.
        options: the model, by name, or an explainer that holds it.
        fields: which columns hold what.
        lists: words that should not matter, by the name of their list.
        settings: how much is asked.
        show_progress: None shows it in a terminal alone.

    Raises:
        SlalomError: the table, an option or the model cannot be used.
    """
    rng = np.random.default_rng(settings.seed)
    data = read_data(path, fields, settings.texts, rng)
    explainer = options if isinstance(options, Explainer) else options.load_for_table()
    asker = TextAsker(explainer)
    with progress_bar(show_progress) as bar:
        return _Auditor(data, explainer, asker, fields.groups, lists, settings, rng, bar).audit()


class _Auditor:
    """One audit under way."""

    def __init__(
        self,
        data: AuditData,
        explainer: Explainer,
        asker: TextAsker,
        groups: Sequence[str],
        lists: Mapping[str, frozenset[str]],
        settings: AuditSettings,
        rng: np.random.Generator,
        bar: Bar | None,
    ) -> None:
        self._data, self._explainer, self._asker = data, explainer, asker
        self._lists, self._settings, self._rng, self._bar = lists, settings, rng, bar
        self._texts: list[str] = [one.text for one in data.sample]
        self._columns = columns(data.sample, groups)
        self._odds = asker.log_odds(self._texts, bar)

    def audit(self) -> Audit:
        first = self._first_texts()
        candidates = self._candidates(random_places([self._texts[one] for one in first], self._rng))
        listed = [one for one in candidates if one.lists]
        others = [one for one in candidates if not one.lists]
        harmless = [one for one in candidates if one.harmless]
        free = {name: self._others(label, first) for label, name in enumerate(self._asker.labels)}
        least = self._settings.trials.least
        places = [self._places(texts) if len(texts) >= least else [] for texts in free.values()]
        control = self._control(harmless)
        trials = Trials(self._asker, places, control, self._data.counts, self._names(), self._bar)
        findings = self._findings(listed, candidates, trials)
        strongest = self._strongest(others, trials)
        found = [one for one in findings if one.found]
        explanations = self._explanations()
        return Audit(
            data=self._data,
            labels=self._asker.labels,
            odds=self._odds,
            truth=tuple(class_of(one.label, self._asker.labels) for one in self._data.sample),
            findings=findings,
            strongest=strongest,
            places=places,
            untested={name: len(texts) for name, texts in free.items() if len(texts) < least},
            screened=listed,
            removals={
                one.word: removed(self._asker, one.word, self._texts, self._odds, self._bar)
                for one in found
            },
            attacks=self._attacks(found, harmless),
            subgroups=self._subgroups(findings, control, first),
            explanations=explanations,
            unexplained=min(len(self._texts), self._settings.explained) - len(explanations),
            calls=self._asker.calls + sum(one.calls for one in explanations),
        )

    def _first_texts(self) -> list[int]:
        """Texts of the first round: of each predicted class in turn."""
        by_class: dict[int, list[int]] = {}
        for index, odds in enumerate(self._odds):
            by_class.setdefault(int(odds.argmax()), []).append(index)
        turns = itertools.zip_longest(*by_class.values())
        ordered = [index for turn in turns for index in turn if index is not None]
        return ordered[: min(self._settings.screened, max(1, len(ordered) // 3))]

    def _candidates(self, places: Sequence[Place]) -> list[Candidate]:
        """All words with what a first round says: those of lists, and others in fewer texts."""
        settings, counts = self._settings, self._data.counts
        own = frozenset().union(*own_lists().values())
        tried = words_to_try(counts, self._lists, own, settings.least, settings.most)
        if not any(one.lists for one in tried):
            raise InputError(
                f"{self._data.path} holds no word of the lists: give lists of words that it holds"
            )
        well = [one for one in tried if one.lists or one.harmless]
        if sum(one.harmless for one in well) < FEWEST:
            raise InputError(
                f"{self._data.path} holds too few different words to say how far harmless words "
                f"differ: give more texts, with at least {FEWEST} words in "
                f"{settings.least} texts each"
            )
        others = [one for one in tried if not one.lists and not one.harmless]
        few = places[: settings.glanced]
        return [
            *first_round(self._asker, well, counts, places, self._bar),
            *first_round(self._asker, others, counts, few, self._bar),
        ]

    def _others(self, label: int, first: Collection[int]) -> list[int]:
        """Texts that the model does not take for a class, none of the first round."""
        later = [index for index in range(len(self._texts)) if index not in set(first)]
        return [index for index in later if int(self._odds[index].argmax()) != label]

    def _places(self, others: Sequence[int]) -> list[Place]:
        """Places in such texts."""
        chosen = others[: self._settings.trial_texts]
        return random_places([self._texts[index] for index in chosen], self._rng)

    def _findings(
        self, listed: Sequence[Candidate], every: Sequence[Candidate], trials: Trials
    ) -> list[TriedWord]:
        """Tests the words of the lists that stand out most towards each class."""
        settings = self._settings
        labels = [label for label, places in enumerate(trials.places) if places]
        compared = [one for one in every if one.lists or one.harmless]
        counts, names = self._data.counts, self._names()
        ties = {
            label: np.array([counts.z(one.word, names[label]) for one in compared])
            for label in labels
        }
        tests = standing_out(listed, compared, ties, settings.trials.rate)
        chosen = []
        for label in labels:
            chosen += [one for one in tests if one.label == label][: settings.tried]
        return trials.try_words(chosen, settings.trials.margin)

    def _strongest(self, others: Sequence[Candidate], trials: Trials) -> list[TriedWord]:
        """Puts the loudest of the other words into texts."""
        chosen = []
        for label, places in enumerate(trials.places):
            if places:
                for one in select_loudest(others, label, self._settings.tried):
                    chosen.append(Chosen(label, one))
        return trials.try_words(chosen, self._settings.trials.margin)

    def _subgroups(
        self, findings: Sequence[TriedWord], control: Sequence[str], first: Collection[int]
    ) -> Subgroups:
        """Puts findings, and the words that follow them, into texts of each group."""
        if not self._columns:
            return Subgroups()
        settings = self._settings.groups
        words: dict[int, list[str]] = {}
        for label, name in enumerate(self._asker.labels):
            own = [one for one in findings if one.label == name]
            found = sum(one.found for one in own)
            words[label] = [one.word for one in own[: found + settings.words]]
        free = {label: self._others(label, first) for label in words}
        tested = {word for of_class in words.values() for word in of_class}
        usual = [word for word in control if word not in tested]
        trials = GroupTrials(
            self._asker,
            self._texts,
            self._columns,
            usual[: settings.control],
            settings,
            self._settings.trials.rate,
            self._rng,
            self._bar,
        )
        return trials.try_words(words, free)

    def _control(self, harmless: Sequence[Candidate]) -> list[str]:
        drawn = self._rng.permutation(len(harmless))[: self._settings.trials.control]
        return [harmless[index].word for index in drawn]

    def _names(self) -> list[str]:
        """The model's classes as the table names them."""
        found = {class_of(name, self._asker.labels): name for name in self._data.counts.texts}
        return [found.get(index, name) for index, name in enumerate(self._asker.labels)]

    def _attacks(
        self, found: Sequence[TriedWord], harmless: Sequence[Candidate]
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
            control = self._control(harmless)[: len(tried)]
            attacks["found"].append(attack(self._asker, one.row, one.text, tried, self._bar))
            attacks["control"].append(attack(self._asker, one.row, one.text, control, self._bar))
        return attacks

    def _explanations(self) -> list[Explanation]:
        """Explanations of some texts; those that cannot be explained are left out and counted."""
        texts = self._texts[: self._settings.explained]
        results = [result for _, result in self._explainer.each(texts)]
        return [result for result in results if isinstance(result, Explanation)]
