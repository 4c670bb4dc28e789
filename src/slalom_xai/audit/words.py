"""Which words are tried: all that are on a list or often enough in the data, the loudest first.

In a first round, every word is measured by few calls: what the model answers to a text filled with
it (its value), and what it does when it is put into a few texts. The words that move the model most
go on to trials on other texts, so that the choice does not flatter the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.audit.asking import TextAsker
from slalom_xai.audit.bias import WordCounts
from slalom_xai.audit.trials import Place
from slalom_xai.audit.word_lists import categories
from slalom_xai.progress import Bar

Array = NDArray[np.float64]

COPIES = 8  # of a word that fills a text


@dataclass(frozen=True)
class Candidate:
    """A word, and what the first round says of it.

    Attributes:
        word: in small letters.
        lists: that it is on; none for words that may well have to do with the task.
        texts: of the data that hold it.
        values: (classes,), the log odds of each class for a text filled with it.
        changes: (classes,), of the log odds when it is put into a text, on average.
    """

    word: str
    lists: tuple[str, ...]
    texts: int
    values: Array
    changes: Array


def words_to_try(
    counts: WordCounts, lists: Mapping[str, frozenset[str]], least: int, most: int
) -> list[tuple[str, tuple[str, ...]]]:
    """Words with the lists that they are on.

    Args:
        counts: of the data.
        lists: by name.
        least: texts that must hold a word which is on no list.
        most: words that are on no list: the most frequent ones.
    """
    listed = [(word, categories(word, lists)) for word in sorted(counts.holding)]
    on_lists = [(word, found) for word, found in listed if found]
    others = [word for word, found in listed if not found and counts.count(word) >= least]
    others = [word for word in others if any(character.isalpha() for character in word)]
    others.sort(key=counts.count, reverse=True)
    return [*on_lists, *((word, ()) for word in others[:most])]


def first_round(
    asker: TextAsker,
    tried: Sequence[tuple[str, tuple[str, ...]]],
    counts: WordCounts,
    places: Sequence[Place],
    bar: Bar | None,
) -> list[Candidate]:
    """Measures words by few calls each.

    Args:
        asker: asks the model.
        tried: the words.
        counts: of the data.
        places: of a few texts, in which every word is put.
        bar: shows how far it is.
    """
    before = asker.log_odds([place.text for place in places])
    texts = []
    for word, _ in tried:
        texts.append(" ".join([word] * COPIES))
        texts += [place.with_word(word) for place in places]
    odds = asker.log_odds(texts, bar).reshape(len(tried), 1 + len(places), -1)
    changes = (odds[:, 1:] - before).mean(axis=1)
    return [
        Candidate(word, lists, counts.count(word), odds[index, 0], changes[index])
        for index, (word, lists) in enumerate(tried)
    ]


def loudest(candidates: Sequence[Candidate], label: int, most: int) -> list[Candidate]:
    """Those that move the model most towards a class, half by value and half when put in."""
    half = -(-most // 2)
    by_value = sorted(candidates, key=lambda one: -one.values[label])[:half]
    by_change = sorted(candidates, key=lambda one: -one.changes[label])
    chosen = {one.word: one for one in by_value}
    for one in by_change:
        if len(chosen) == most:
            break
        chosen.setdefault(one.word, one)
    return list(chosen.values())
