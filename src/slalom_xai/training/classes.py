"""The classes of a training table: their order and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slalom_xai.errors import InputError
from slalom_xai.tables.examples import Examples
from slalom_xai.tables.table import listed


@dataclass(frozen=True)
class Classes:
    """The classes in the order of the logits.

    Attributes:
        keys: as the table has them.
        names: as they are called in results.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]

    def indices(self, examples: Examples) -> list[int]:
        """The index of each example's class."""
        indices = {key: index for index, key in enumerate(self.keys)}
        return [indices[label] for label in examples.labels]

    def counts(self, examples: Examples) -> dict[str, int]:
        """How many examples each class has, by name."""
        counts = Counter(examples.labels)
        return {name: counts[key] for key, name in zip(self.keys, self.names, strict=True)}


def ordered_classes(examples: Examples, names: Sequence[str] | None, source: str) -> Classes:
    """The classes of the training table: names by alphabet, numbers by size, or as ``names`` says.

    Args:
        examples: all of the training table.
        names: names for numbered classes, or the order of named ones.
        source: what the table is called in messages.

    Raises:
        InputError: only one class, or names that are not those of the classes.
    """
    keys = sorted_labels(examples.labels)
    if len(keys) == 1:
        raise InputError(
            f"all {len(examples)} rows of {source} have the label {keys[0]!r}: "
            "give a table with two classes or more"
        )
    if names is None:
        return Classes(keys, keys)
    given = tuple(names)
    if len(set(given)) < len(given) or "" in given:
        raise InputError(f"--labels is {','.join(given)}: give each class its own name")
    if len(given) != len(keys):
        raise InputError(
            f"--labels has {len(given)} names, but {source} has {len(keys)} classes, "
            f"{listed(keys)}: name each of them"
        )
    if set(given) == set(keys):
        return Classes(given, given)
    if not all(map(_is_whole, keys)):
        raise InputError(
            f"--labels is {','.join(given)}, but the classes of {source} are {listed(keys)}: "
            "give these names, in any order"
        )
    return Classes(keys, given)


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: by size where all are whole numbers, else by alphabet."""
    distinct = set(labels)
    if all(map(_is_whole, distinct)):
        return tuple(sorted(distinct, key=int))
    return tuple(sorted(distinct))


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()
