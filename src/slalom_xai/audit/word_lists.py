"""Words that should not decide anything: lists that come along, and those that a user gives.

A word on a list has no meaning for most tasks: function words, numbers, names, everyday things,
terms of identity, and marks of web pages. A user who classifies recipes wants other lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from slalom_xai.errors import InputError

_ENDING = ".txt"


def own_lists() -> dict[str, frozenset[str]]:
    """The lists that come along, by name."""
    folder = files("slalom_xai.audit") / "lists"
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


def checked_lists(given: Sequence[Path], only_these: bool) -> dict[str, frozenset[str]]:
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
