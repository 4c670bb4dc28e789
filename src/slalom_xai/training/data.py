"""From tables to texts with classes: checked, ordered and split."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, shortened
from slalom_xai.tables import Table, read_table
from slalom_xai.training.options import TrainingOptions

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Examples:
    """Texts and their classes.

    Attributes:
        texts: the texts.
        pairs: the second text of each; None for single texts.
        labels: the class of each, as the table has it; whole numbers without a decimal point.
    """

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def chosen(self, places: Iterable[int]) -> Examples:
        """Some of the examples."""
        chosen = list(places)
        pairs = None if self.pairs is None else tuple(self.pairs[place] for place in chosen)
        return Examples(
            tuple(self.texts[place] for place in chosen),
            pairs,
            tuple(self.labels[place] for place in chosen),
        )


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
        """The place of each example's class."""
        places = {key: place for place, key in enumerate(self.keys)}
        return [places[label] for label in examples.labels]

    def counts(self, examples: Examples) -> dict[str, int]:
        """How many examples each class has, by name."""
        found = Counter(examples.labels)
        return {name: found[key] for key, name in zip(self.keys, self.names, strict=True)}


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
    everything = checked(source, options)
    classes = ordered_classes(everything, options.labels, str(source.path))
    sources: dict[str, Any] = {"training": _source(source, everything, classes)}
    if options.validation is None:
        share = options.holdout or 0.1
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


def _other(
    path: str | Path, options: TrainingOptions, classes: Classes
) -> tuple[Examples, dict[str, Any]]:
    """A table beside that of the training, which must have the same classes."""
    table = read_table(path)
    examples = checked(table, options)
    unknown = [label for label in examples.labels if label not in classes.keys]
    if unknown:
        raise InputError(
            f"{len(unknown)} rows of {table.path} have labels that the training table does not have, {_listed(_sorted(unknown))}: "
            f"use its classes, {_listed(classes.keys)}"
        )
    return examples, _source(table, examples, classes)


def _source(table: Table, examples: Examples, classes: Classes) -> dict[str, Any]:
    return {
        "path": str(table.path),
        "sha256": table.sha256,
        "rows": len(examples),
        "classes": classes.counts(examples),
    }


def checked(table: Table, options: TrainingOptions) -> Examples:
    """The examples of a table, every row of it.

    Raises:
        InputError: a column is missing, or rows have no text or no class.
    """
    _check_columns(table, options)
    if not table.rows:
        raise InputError(
            f"{table.path} has no rows: give a table with a text and a label in each row"
        )
    texts = _texts(table, options.text)
    pairs = None if options.pair is None else _texts(table, options.pair)
    return Examples(texts, pairs, _labels(table, options.label))


def _check_columns(table: Table, options: TrainingOptions) -> None:
    wanted = {"--text": options.text, "--pair": options.pair, "--label": options.label}
    missing = {
        flag: name
        for flag, name in wanted.items()
        if name is not None and name not in table.columns
    }
    if not missing:
        return
    there = _listed(table.columns) if table.columns else "none at all"
    said = f"{table.path} has {' and '.join(f'no column {name!r}' for name in missing.values())}, only {there}"
    if table.separator and len(table.columns) == 1 and re.search(r"[;,|\t]", table.columns[0]):
        raise InputError(
            f"{said}: its columns are not separated by {table.separator}; save it with {table.separator} between them"
        )
    raise InputError(
        f"{said}: say which to use with {' and '.join(f'{flag} COLUMN' for flag in missing)}"
    )


def _texts(table: Table, column: str) -> tuple[str, ...]:
    """The texts of a column, as they are."""
    cells = table.column(column)
    for place, cell in enumerate(cells):
        if not _absent(cell) and not isinstance(cell, str):
            kind = type(cell).__name__
            raise InputError(
                f"column {column!r} of {table.path} should hold texts, but holds the {kind} {shortened(str(cell))} in {table.where([place])}: "
                "name the column of the texts, or write them as texts"
            )
    texts = tuple(cell if isinstance(cell, str) else "" for cell in cells)
    _refuse(
        table,
        texts,
        lambda text: not text.strip(),
        f"empty texts in column {column!r}",
        "fill them in, or leave these rows out",
    )
    _refuse(
        table,
        texts,
        _broken,
        f"texts with half characters (lone surrogates) in column {column!r}",
        "save the table as UTF-8 again",
    )
    if all(_NUMBER.fullmatch(text.strip()) for text in texts):
        raise InputError(
            f"column {column!r} of {table.path} holds numbers only, such as {texts[0]!r}: name the column of the texts"
        )
    return texts


def _labels(table: Table, column: str) -> tuple[str, ...]:
    """The classes of a column: names without spaces around them, or whole numbers."""
    cells = table.column(column)
    for place, cell in enumerate(cells):
        if isinstance(cell, (list, tuple, dict, set)):
            kind = type(cell).__name__
            raise InputError(
                f"column {column!r} of {table.path} holds a {kind} in {table.where([place])}: give one class for each row"
            )
    labels = tuple("" if _absent(cell) else str(cell).strip() for cell in cells)
    _refuse(
        table,
        labels,
        lambda label: not label,
        f"rows without a label in column {column!r}",
        "fill them in, or leave these rows out",
    )
    if not all(_NUMBER.fullmatch(label) for label in labels):
        return labels
    for place, label in enumerate(labels):
        if not float(label).is_integer():
            raise InputError(
                f"column {column!r} of {table.path} holds numbers with fractions, not classes: {table.where([place])} has {label}; "
                "give names or whole numbers"
            )
    return tuple(
        str(int(label) if label.lstrip("+-").isdigit() else int(float(label))) for label in labels
    )


def _refuse(
    table: Table, values: Sequence[str], bad: Callable[[str], bool], what: str, advice: str
) -> None:
    """Rows that cannot be used are an error, not left out: nobody would know."""
    places = [place for place, value in enumerate(values) if bad(value)]
    if places:
        raise InputError(f"{table.path} has {len(places)} {what}, {table.where(places)}: {advice}")


def _absent(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _broken(text: str) -> bool:
    """Whether it holds half of a character that JSON writes in two halves."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def ordered_classes(examples: Examples, names: Sequence[str] | None, source: str) -> Classes:
    """The classes of the training table: names by alphabet, numbers by size, or as ``names`` says.

    Args:
        examples: all of the training table.
        names: names for numbered classes, or the order of named ones.
        source: what the table is called in messages.

    Raises:
        InputError: only one class, or names that are not those of the classes.
    """
    keys = _sorted(examples.labels)
    if len(keys) == 1:
        raise InputError(
            f"all {len(examples)} rows of {source} have the label {keys[0]!r}: give a table with two classes or more"
        )
    if names is None:
        return Classes(keys, keys)
    given = tuple(names)
    if len(set(given)) < len(given) or "" in given:
        raise InputError(f"--labels is {','.join(given)}: give each class its own name")
    if len(given) != len(keys):
        raise InputError(
            f"--labels has {len(given)} names, but {source} has {len(keys)} classes, {_listed(keys)}: name each of them"
        )
    if set(given) == set(keys):
        return Classes(given, given)
    if not all(map(_whole, keys)):
        raise InputError(
            f"--labels is {','.join(given)}, but the classes of {source} are {_listed(keys)}: give these names, in any order"
        )
    return Classes(keys, given)


def split(examples: Examples, share: float, *, seed: int) -> tuple[Examples, Examples]:
    """Sets a share of each class aside, at least one row and never all; returns what is left and what is set aside.

    Raises:
        InputError: a class of one row.
    """
    rng = random.Random(seed)
    rows: dict[str, list[int]] = {}
    for place, label in enumerate(examples.labels):
        rows.setdefault(label, []).append(place)
    aside: set[int] = set()
    for label in _sorted(rows):
        places = rows[label]
        if len(places) == 1:
            raise InputError(
                f"class {label!r} has only 1 row, which cannot be in both the training and the validation part: add rows, remove this one, "
                "or name a table with --validation"
            )
        aside.update(rng.sample(places, min(len(places) - 1, max(1, round(share * len(places))))))
    kept = [place for place in range(len(examples)) if place not in aside]
    return examples.chosen(kept), examples.chosen(sorted(aside))


def _sorted(labels: Iterable[str]) -> tuple[str, ...]:
    """Each label once: by size where all are whole numbers, else by alphabet."""
    distinct = set(labels)
    return tuple(sorted(distinct, key=int) if all(map(_whole, distinct)) else sorted(distinct))


def _whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shortened(name, 40) for name in names[:12]) + (
        ", ..." if len(names) > 12 else ""
    )
