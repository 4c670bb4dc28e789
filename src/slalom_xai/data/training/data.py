"""From tables to what a training reads: examples with ordered classes, split into parts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.data.tables import Table, read_table
from slalom_xai.data.tables.examples import Examples, Fields, read_examples
from slalom_xai.data.tables.table import quote_names
from slalom_xai.data.training.options import DEFAULTS, TrainingOptions
from slalom_xai.errors import InputError

# The classes of a training table: their order and their names.


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
            f"{quote_names(keys)}: name each of them"
        )
    if set(given) == set(keys):
        return Classes(given, given)
    if not all(map(_is_whole, keys)):
        raise InputError(
            f"--labels is {','.join(given)}, but the classes of {source} are {quote_names(keys)}: "
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


# From tables to what a training reads: examples with ordered classes, split into parts.


@dataclass(frozen=True)
class Prepared:
    """Everything that is read before a training begins.

    Attributes:
        training: what is learnt from.
        validation: what picks the epoch.
        test: what is scored at the end, or None.
        classes: their classes.
        sources: where they come from, for training.json.
    """

    training: Examples
    validation: Examples
    test: Examples | None
    classes: Classes
    sources: dict[str, Any]


def prepare(table: str | Path, options: TrainingOptions) -> Prepared:
    """Reads, checks and splits the tables of a training.

    Args:
        table: the training table.
        options: settled ones.

    Raises:
        InputError: a table that cannot be read or used.
    """
    source = read_table(table)
    everything = read_examples(source, _fields(options))
    classes = ordered_classes(everything, options.labels, str(source.path))
    sources: dict[str, Any] = {"training": _source(source, everything, classes)}
    if options.validation is None:
        share = options.holdout or DEFAULTS.holdout
        training, validation = split(everything, share, seed=options.seed)
        sources["validation"] = {
            "holdout": share,
            "rows": len(validation),
            "classes": classes.counts(validation),
        }
    else:
        training = everything
        validation, sources["validation"] = _other(options.validation, options, classes)
    test = None
    if options.test is not None:
        test, sources["test"] = _other(options.test, options, classes)
    return Prepared(training, validation, test, classes, sources)


def split(examples: Examples, share: float, *, seed: int) -> tuple[Examples, Examples]:
    """Sets a share of each class aside, at least one row and never all.

    Returns:
        What is left, and what is set aside.

    Raises:
        InputError: a class of one row.
    """
    rng = random.Random(seed)
    rows_by_label: dict[str, list[int]] = {}
    for index, label in enumerate(examples.labels):
        rows_by_label.setdefault(label, []).append(index)
    aside: set[int] = set()
    for label in sorted_labels(rows_by_label):
        rows = rows_by_label[label]
        if len(rows) == 1:
            raise InputError(
                f"class {label!r} has only 1 row, "
                "which cannot be in both the training and the validation part: "
                "add rows, remove this one, or name a table with --validation"
            )
        size = min(len(rows) - 1, max(1, round(share * len(rows))))
        aside.update(rng.sample(rows, size))
    kept = [index for index in range(len(examples)) if index not in aside]
    return examples.chosen(kept), examples.chosen(sorted(aside))


def _fields(options: TrainingOptions) -> Fields:
    return Fields(options.text, options.label, options.pair)


def _other(
    path: str | Path, options: TrainingOptions, classes: Classes
) -> tuple[Examples, dict[str, Any]]:
    """A table beside that of the training, which must have the same classes."""
    table = read_table(path)
    examples = read_examples(table, _fields(options))
    unknown = [label for label in examples.labels if label not in classes.keys]
    if unknown:
        raise InputError(
            f"{len(unknown)} rows of {table.path} have labels that the training table does not "
            f"have, {quote_names(sorted_labels(unknown))}: use its classes, "
            f"{quote_names(classes.keys)}"
        )
    return examples, _source(table, examples, classes)


def _source(table: Table, examples: Examples, classes: Classes) -> dict[str, Any]:
    return {
        "path": str(table.path),
        "sha256": table.sha256,
        "rows": len(examples),
        "classes": classes.counts(examples),
    }
