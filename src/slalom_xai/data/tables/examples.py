"""Texts with their classes, taken from a table and checked row by row.

Training learns from them, and so does the Naive Bayes of a benchmark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slalom_xai.data.tables.table import Table
from slalom_xai.errors import InputError, quote_text

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Fields:
    """Which fields of a table hold what.

    Attributes:
        text: the field of the texts.
        label: the field of the classes.
        pair: the field of the second text of each pair; None for single texts.
    """

    text: str = "text"
    label: str = "label"
    pair: str | None = None


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

    def chosen(self, indices: Iterable[int]) -> Examples:
        """Some of the examples."""
        chosen = list(indices)
        pairs = None
        if self.pairs is not None:
            pairs = tuple(self.pairs[index] for index in chosen)
        return Examples(
            tuple(self.texts[index] for index in chosen),
            pairs,
            tuple(self.labels[index] for index in chosen),
        )


def read_examples(table: Table, fields: Fields) -> Examples:
    """The examples of a table, every row of it.

    Raises:
        InputError: a field is missing, or rows have no text or no class.
    """
    table.check_fields({"--text": fields.text, "--pair": fields.pair, "--label": fields.label})
    if not table.rows:
        raise InputError(
            f"{table.path} has no rows: give a table with a text and a label in each row"
        )
    texts = read_texts(table, fields.text)
    pairs = None
    if fields.pair is not None:
        pairs = read_texts(table, fields.pair)
    return Examples(texts, pairs, _labels(table, fields.label))


def read_texts(table: Table, field: str) -> tuple[str, ...]:
    """The texts of a field, as they are."""
    texts = []
    for index, cell in enumerate(table.cells(field)):
        if _is_absent(cell):
            texts.append("")
        elif isinstance(cell, str):
            texts.append(cell)
        else:
            raise InputError(
                f"column {field!r} of {table.path} should hold texts, but holds the "
                f"{type(cell).__name__} {quote_text(str(cell))} in {table.where([index])}: "
                "name the column of the texts, or write them as texts"
            )
    _refuse(
        table,
        texts,
        lambda text: not text.strip(),
        f"empty texts in column {field!r}",
        "fill them in, or leave these rows out",
    )
    _refuse(
        table,
        texts,
        _is_broken,
        f"texts with half characters (lone surrogates) in column {field!r}",
        "save the table as UTF-8 again",
    )
    if all(_NUMBER.fullmatch(text.strip()) for text in texts):
        raise InputError(
            f"column {field!r} of {table.path} holds numbers only, such as {texts[0]!r}: "
            "name the column of the texts"
        )
    return tuple(texts)


def _labels(table: Table, field: str) -> tuple[str, ...]:
    """The classes of a field: names without spaces around them, or whole numbers."""
    labels = []
    for index, cell in enumerate(table.cells(field)):
        if isinstance(cell, (list, tuple, dict, set)):
            raise InputError(
                f"column {field!r} of {table.path} holds a {type(cell).__name__} in "
                f"{table.where([index])}: give one class for each row"
            )
        if _is_absent(cell):
            labels.append("")
        else:
            labels.append(str(cell).strip())
    _refuse(
        table,
        labels,
        lambda label: not label,
        f"rows without a label in column {field!r}",
        "fill them in, or leave these rows out",
    )
    if not all(_NUMBER.fullmatch(label) for label in labels):
        return tuple(labels)
    for index, label in enumerate(labels):
        if not float(label).is_integer():
            raise InputError(
                f"column {field!r} of {table.path} holds numbers with fractions, not classes: "
                f"{table.where([index])} has {label}; give names or whole numbers"
            )
    return tuple(map(_whole_number, labels))


def _whole_number(label: str) -> str:
    """A whole number without a decimal point, an exponent or a plus."""
    if label.lstrip("+-").isdigit():  # exact for numbers of any length
        return str(int(label))
    return str(int(float(label)))


def _refuse(
    table: Table, cells: Sequence[str], is_bad: Callable[[str], bool], what: str, advice: str
) -> None:
    """Refuses rows that cannot be used: if they were left out, nobody would know."""
    bad = [index for index, cell in enumerate(cells) if is_bad(cell)]
    if bad:
        raise InputError(f"{table.path} has {len(bad)} {what}, {table.where(bad)}: {advice}")


def _is_absent(cell: object) -> bool:
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None


def _is_broken(text: str) -> bool:
    """Whether it holds half of a character that JSON writes in two halves."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
