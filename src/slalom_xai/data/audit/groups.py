"""What words do in each group of texts: real calls, group by group, beside random words.

Every word is put into texts of every group of a column, which the model does not take for the class
that is tried. A group whose texts any word moves far is no news about this word, so that groups are
compared by what it does beyond random words in the same place of the same text. Whether a group
differs from the other texts of its column is tested by permutations, at a false
discovery rate over all words and groups.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from slalom_xai.data.audit.trials import TextAsker, put_in, random_places, wilson
from slalom_xai.system.progress import Bar

# Whether groups of texts differ: tests that need no law of the numbers, and intervals.
#
# What a word does to texts is anything but normally distributed: most texts hardly move, and a
# few jump. Welch's test then finds differences between groups that were drawn by lot.
# Permutations do not: under the hypothesis that groups have nothing to do with a number, every
# way of giving out the same numbers to the groups is as likely as the one that was seen.


Array = NDArray[np.float64]

FEWEST_DRAWS, MOST_DRAWS = 2_000, 200_000
_CELLS = 2_000_000  # numbers that are permuted at once, which bounds the memory
_ROUNDING = 1e-9  # equal sums should not differ by how they were added up
_LEAST = 0.01  # of the log odds: less is what rounding does, and no effect


def draws_for(tests: int, rate: float) -> int:
    """How many permutations allow one of so many tests to stand by itself."""
    wanted = 2 * tests / max(rate, 1e-6)
    return int(min(MOST_DRAWS, max(FEWEST_DRAWS, wanted)))


def permuted(
    numbers: Array, codes: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> Array:
    """The chance (words, groups) of a mean as far from that of all texts, were groups by lot.

    By hand: all groups share the draws, and sums are products of matrices, which is several times
    faster than a ``scipy.stats.permutation_test`` for each group.

    Args:
        numbers: (words, texts), what each word does to each text.
        codes: (texts,), the group of each text, from 0.
        draws: permutations.
        rng: of these.
    """
    groups = int(codes.max()) + 1
    sizes = np.bincount(codes, minlength=groups)
    expected = sizes * numbers.mean(axis=1, keepdims=True)
    seen = np.abs(_sums(numbers, codes[None], groups)[0] - expected)
    as_far = np.zeros_like(seen)
    at_once = max(1, _CELLS // len(codes))
    for start in range(0, draws, at_once):
        tiled = np.tile(codes, (min(at_once, draws - start), 1))
        away = np.abs(_sums(numbers, rng.permuted(tiled, axis=1), groups) - expected)
        as_far += (away >= seen * (1 - _ROUNDING)).sum(axis=0)
    return np.where(seen <= _LEAST * sizes, 1.0, (1 + as_far) / (draws + 1))


def _sums(numbers: Array, codes: NDArray[np.int64], groups: int) -> Array:
    """Sums (draws, words, groups) over the texts of each group; codes (draws, texts)."""
    by_group = [(codes == group).astype(np.float64) @ numbers.T for group in range(groups)]
    return np.stack(by_group, axis=2)


def mean_interval(numbers: Array) -> tuple[float, float, float]:
    """The mean of numbers, and the ends of its 95% interval; NaN with fewer than two."""
    from scipy import stats

    mean = float(numbers.mean()) if len(numbers) else math.nan
    if len(numbers) < 2:
        return mean, math.nan, math.nan
    away = float(stats.t.ppf(0.975, len(numbers) - 1) * stats.sem(numbers))
    return mean, mean - away, mean + away


def difference_interval(own: Array, others: Array) -> tuple[float, float, float]:
    """The difference of two means with the ends of its 95% interval (Welch's).

    By hand, as ``scipy.stats.ttest_ind`` warns where a group is constant, which is common here.
    """
    from scipy import stats

    difference = float(own.mean() - others.mean())
    parts = [float(one.var(ddof=1)) / len(one) for one in (own, others)]
    if sum(parts) == 0:
        return difference, difference, difference
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(one) - 1) for part, one in zip(parts, (own, others), strict=True)
    )
    away = float(stats.t.ppf(0.975, freedom)) * math.sqrt(sum(parts))
    return difference, difference - away, difference + away


# What words do in each group of texts: real calls, group by group, beside random words.


RANDOM = "(random words)"  # stands for all of them together


@dataclass(frozen=True)
class GroupSettings:
    """How much is asked about groups.

    Attributes:
        words: of the lists towards each class, besides findings: those that stand out most.
        texts: of each group for each class, at most.
        least: texts that a group must have; smaller ones are named and not compared.
        control: random words that are put in beside them.
    """

    words: int = 5
    texts: int = 60
    least: int = 20
    control: int = 20


GROUPS = GroupSettings()


@dataclass(frozen=True)
class GroupEffect:
    """What a word did to the texts of one group.

    Attributes:
        word: that was put in; ``RANDOM`` for the mean of random words.
        label: the class towards which it was tried.
        by: the column of the group.
        group: its name.
        texts: how many.
        rate: the share of them that the model then took for the class, and the ends of its 95%
            interval.
        control: the share that random words flipped.
        change: of the log odds, on average, and the ends of its 95% interval.
        control_change: what random words do.
        beyond: how much further the word moves these texts than the other texts of the column,
            beyond random words, and the ends of the 95% interval; NaN with nothing to compare. For
            random words themselves nothing is taken off.
        p: the chance of such a difference if groups were drawn by lot.
        q: the same, adjusted for all words and groups.
        differs: whether it is a difference, at the rate of false discoveries.
    """

    word: str
    label: str
    by: str
    group: str
    texts: int
    rate: tuple[float, float, float]
    control: float
    change: tuple[float, float, float]
    control_change: float
    beyond: tuple[float, float, float]
    p: float
    q: float = math.nan
    differs: bool = False


@dataclass
class Subgroups:
    """What an audit says about words in groups.

    Attributes:
        effects: of each word in each group.
        small: groups with too few texts: column, group, class, and how many there are.
        places: for each class and column, the texts of the sample and where words were put.
    """

    effects: list[GroupEffect] = field(default_factory=list)
    small: list[tuple[str, str, str, int]] = field(default_factory=list)
    places: dict[str, dict[str, list[tuple[int, int]]]] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupTrials:
    """Puts words into the texts of groups.

    Attributes:
        asker: asks the model.
        texts: of the sample.
        columns: for each column of groups, the group of each text.
        control: random words.
        settings: how much is asked.
        rate: of false discoveries.
        rng: of places and permutations.
        bar: shows how far it is.
    """

    asker: TextAsker
    texts: Sequence[str]
    columns: Mapping[str, Sequence[str]]
    control: Sequence[str]
    settings: GroupSettings
    rate: float
    rng: np.random.Generator
    bar: Bar | None

    def try_words(
        self, words: Mapping[int, Sequence[str]], free: Mapping[int, Sequence[int]]
    ) -> Subgroups:
        """What words do in each group.

        Args:
            words: for each class, those that are tried towards it.
            free: for each class, the texts that may be used: the model takes them for another one.
        """
        found = Subgroups()
        asked = []
        for label, tried in words.items():
            chosen = {by: self._choose_texts(by, label, free[label], found) for by in self.columns}
            chosen = {by: indices for by, indices in chosen.items() if indices}
            if tried and chosen:
                asked.append((label, tried, chosen))
        tests = sum(
            (1 + len(tried)) * len({self.columns[by][index] for index in indices})
            for _, tried, chosen in asked
            for by, indices in chosen.items()
        )
        for label, tried, chosen in asked:
            self._ask(label, tried, chosen, draws_for(tests, self.rate), found)
        found.effects = _adjust_chances(found.effects, self.rate)
        return found

    def _choose_texts(
        self, by: str, label: int, free: Sequence[int], found: Subgroups
    ) -> list[int]:
        """Texts of all groups of a column that are large enough; notes those that are not."""
        groups = self.columns[by]
        sizes = Counter(groups[index] for index in free)
        left = dict.fromkeys(sorted(sizes), self.settings.texts)
        for group in sorted(set(groups)):
            if sizes[group] < self.settings.least:
                left[group] = 0
                found.small.append((by, group, self.asker.labels[label], sizes[group]))
        chosen = []
        for index in free:
            if left[groups[index]]:
                left[groups[index]] -= 1
                chosen.append(index)
        return chosen

    def _ask(
        self,
        label: int,
        tried: Sequence[str],
        chosen: Mapping[str, Sequence[int]],
        draws: int,
        found: Subgroups,
    ) -> None:
        """Asks about the words of one class; a text of several columns is asked once."""
        every = sorted({index for indices in chosen.values() for index in indices})
        places = random_places([self.texts[index] for index in every], self.rng)
        name = self.asker.labels[label]
        found.places[name] = {}
        words = [*tried, *self.control]
        changes, flipped = put_in(self.asker, words, places, label, self.bar)
        trial = _Trial(name, tried, changes, flipped.astype(np.float64))
        at = {index: place for place, index in enumerate(every)}
        for by, indices in chosen.items():
            groups = np.array([self.columns[by][index] for index in indices])
            some = trial.at([at[index] for index in indices])
            found.places[name][by] = [(index, places[at[index]].at) for index in indices]
            found.effects += some.effects(by, groups, draws, self.rng)


@dataclass(frozen=True)
class _Trial:
    """Answers to words in texts.

    Attributes:
        label: the class that was tried.
        tried: the words, which the random ones follow in the rows of the arrays.
        changes: (words, texts), of the log odds.
        flipped: (words, texts), 1 where the model changed its mind.
    """

    label: str
    tried: Sequence[str]
    changes: Array
    flipped: Array

    def at(self, texts: Sequence[int]) -> _Trial:
        """Some of the texts."""
        return replace(self, changes=self.changes[:, texts], flipped=self.flipped[:, texts])

    def effects(
        self, by: str, groups: NDArray[np.str_], draws: int, rng: np.random.Generator
    ) -> list[GroupEffect]:
        """Of each word and of random words, in each group (texts,)."""
        count = len(self.tried)
        usual, usual_flips = self.changes[count:].mean(axis=0), self.flipped[count:].mean(axis=0)
        changes = np.vstack([self.changes[:count], usual])
        flips = np.vstack([self.flipped[:count], usual_flips])
        excess = np.vstack([self.changes[:count] - usual, usual])
        names, codes = np.unique(groups, return_inverse=True)
        chances = np.full((count + 1, len(names)), math.nan)
        if len(names) > 1:
            chances = permuted(excess, codes, draws, rng)
        found = []
        for row, word in enumerate([*self.tried, RANDOM]):
            for code, group in enumerate(names):
                own = codes == code
                found.append(
                    GroupEffect(
                        word=word,
                        label=self.label,
                        by=by,
                        group=str(group),
                        texts=int(own.sum()),
                        rate=_rate(flips[row, own], word == RANDOM),
                        control=float(usual_flips[own].mean()),
                        change=mean_interval(changes[row, own]),
                        control_change=float(usual[own].mean()),
                        beyond=_beyond(excess[row], own),
                        p=float(chances[row, code]),
                    )
                )
        return found


def _rate(flips: Array, mean_of_words: bool) -> tuple[float, float, float]:
    """The share of texts that flip with its interval; a mean of words is no count of texts."""
    if mean_of_words:
        mean, low, high = mean_interval(flips)
        return mean, max(0.0, low), min(1.0, high)
    return float(flips.mean()), *wilson(int(flips.sum()), len(flips))


def _beyond(excess: Array, own: NDArray[np.bool_]) -> tuple[float, float, float]:
    if own.all():
        return math.nan, math.nan, math.nan
    return difference_interval(excess[own], excess[~own])


def _adjust_chances(effects: Sequence[GroupEffect], rate: float) -> list[GroupEffect]:
    """The same with adjusted chances, those that differ first."""
    from scipy import stats

    known = [one for one in effects if not math.isnan(one.p)]
    adjusted = stats.false_discovery_control([one.p for one in known])
    tested = [
        replace(one, q=float(q), differs=bool(q <= rate))
        for one, q in zip(known, adjusted, strict=True)
    ]
    rest = [one for one in effects if math.isnan(one.p)]
    return sorted([*tested, *rest], key=lambda one: not one.differs)
