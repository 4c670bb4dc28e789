"""Which words are tried: all that are on a list or often enough in the data, the loudest first.

In a first round, every word is measured by few calls: what the model answers to a text filled with
it (its value), and what it does when it is put into some texts, the same ones for all. How far
harmless words differ there says which words stand out. The words that move the model most go on to
trials on other texts, so that the choice does not flatter their flip rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slalom_xai.data.audit.data import WordCounts
from slalom_xai.data.audit.trials import FEWEST, Place, TextAsker
from slalom_xai.errors import InputError
from slalom_xai.system.progress import Bar

# Words that should not decide anything: lists that come along, and those that a user gives.
#
# A word on a list has no meaning for most tasks: function words, numbers, names, everyday things,
# terms of identity, and marks of web pages. A user who classifies recipes wants other lists.


_ENDING = ".txt"


def own_lists() -> dict[str, frozenset[str]]:
    """The lists that come along, by name."""
    folder = files("slalom_xai.data.audit") / "lists"
    lists = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(_ENDING):
            words = file.read_text(encoding="utf-8").lower().split()
            lists[file.name.removesuffix(_ENDING)] = frozenset(words)
    return lists


def read_list(path: Path) -> frozenset[str]:
    """The words of a file, separated by white space; lines that begin with # are passed over.

    Raises:
        InputError: it cannot be read, or has no words.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: save it as UTF-8") from error
    found = [word for line in lines if not line.startswith("#") for word in line.lower().split()]
    if not found:
        raise InputError(f"{path} has no words: give a file with words in it")
    return frozenset(found)


def read_word_lists(given: Sequence[Path], only_these: bool) -> dict[str, frozenset[str]]:
    """The lists of an audit: those that come along, and files.

    Args:
        given: files of words; each becomes a list with the name of the file.
        only_these: leave the lists out that come along.

    Raises:
        InputError: a file cannot be used, or no list is left.
    """
    if only_these and not given:
        raise InputError("no list of words is left: give --terms a file, too")
    lists = {} if only_these else own_lists()
    for path in given:
        lists[path.stem] = lists.get(path.stem, frozenset()) | read_list(path)
    return lists


def categories(word: str, lists: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The lists that a word is on."""
    return tuple(name for name, words in lists.items() if word in words)


# Which words are tried: all that are on a list or often enough in the data, the loudest first.


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
        changes: (classes,), of the log odds of each class when it is put into texts that the model
            takes for another one, on average.
        harmless: whether it stands for the words that should not matter.
    """

    word: str
    lists: tuple[str, ...]
    texts: int
    values: Array
    changes: Array
    harmless: bool


@dataclass(frozen=True)
class WordToTry:
    """A word of the first round.

    Attributes:
        word: in small letters.
        lists: that it is on.
        harmless: whether it stands for the words that should not matter.
    """

    word: str
    lists: tuple[str, ...]
    harmless: bool


def words_to_try(
    counts: WordCounts,
    lists: Mapping[str, frozenset[str]],
    harmless: frozenset[str],
    least: int,
    most: int,
) -> list[WordToTry]:
    """Words with the lists that they are on.

    Args:
        counts: of the data.
        lists: by name.
        harmless: words that should not matter for most tasks. If the data hold fewer than
            ``FEWEST`` of them, the most frequent words on no list stand for them, too: some of
            these do matter, which makes it harder to stand out.
        least: texts that must hold a word which is on no list.
        most: words that are on no list: the most frequent ones.
    """
    listed = [(word, categories(word, lists)) for word in sorted(counts.holding)]
    others = [word for word, found in listed if not found and word not in harmless]
    others = [word for word in others if counts.count(word) >= least and _has_letter(word)]
    others = sorted(others, key=counts.count, reverse=True)[:most]
    missing = max(0, FEWEST - len(harmless & counts.holding.keys()))
    standing = harmless | set(others[:missing])
    kept = [(word, found) for word, found in listed if found or word in harmless]
    every = [*kept, *((word, ()) for word in others)]
    return [WordToTry(word, found, word in standing) for word, found in every]


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def first_round(
    asker: TextAsker,
    tried: Sequence[WordToTry],
    counts: WordCounts,
    places: Sequence[Place],
    bar: Bar | None,
) -> list[Candidate]:
    """Measures words by few calls each.

    Args:
        asker: asks the model.
        tried: the words.
        counts: of the data.
        places: of some texts, in which every word is put.
        bar: shows how far it is.
    """
    before = asker.log_odds([place.text for place in places])
    texts = []
    for one in tried:
        texts.append(" ".join([one.word] * COPIES))
        texts += [place.with_word(one.word) for place in places]
    odds = asker.log_odds(texts, bar).reshape(len(tried), 1 + len(places), len(asker.labels))
    changes = _towards(odds[:, 1:] - before, before.argmax(axis=1))
    return [
        Candidate(
            one.word,
            one.lists,
            counts.count(one.word),
            odds[index, 0],
            changes[index],
            one.harmless,
        )
        for index, one in enumerate(tried)
    ]


def _towards(changes: Array, predicted: NDArray[np.int64]) -> Array:
    """Mean changes (words, classes) over the texts that the model takes for another class.

    Args:
        changes: (words, texts, classes).
        predicted: (texts,), the class of each text before. If all are of one class, they all count
            for it.
    """
    means: Array = changes.mean(axis=1)
    for label in range(changes.shape[2]):
        other = predicted != label
        if other.any():
            means[:, label] = changes[:, other, label].mean(axis=1)
    return means


def select_loudest(candidates: Sequence[Candidate], label: int, most: int) -> list[Candidate]:
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
