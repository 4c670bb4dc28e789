"""The texts of a benchmark, with what people marked in them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slalom_xai.data.bench.options import BenchOptions
from slalom_xai.data.tables import Table, read_table
from slalom_xai.errors import InputError

Marks = Sequence[float] | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Item:
    """One text.

    Attributes:
        name: its row in the table, counted from 1, the header left out.
        text: the text itself; an empty one is recorded as a failure by whoever explains it.
        marks: one number for each word, or a list of such from each annotator; None without a
            rationale.
        words: the words the marks belong to; None: the text split at white space.
        label: its class, as the table has it; None where the table has none.
    """

    name: str
    text: str
    marks: Marks | None = None
    words: Sequence[str] | None = None
    label: str | None = None


@dataclass(frozen=True)
class Items:
    """The texts that were drawn.

    Attributes:
        items: in the table's order.
        sha256: fingerprint of the table they are from.
        lines: whether rows are not counted as lines of the file are, as in CSV, where a header
            comes first.
    """

    items: tuple[Item, ...]
    sha256: str
    lines: bool = False


def read_items(path: str | Path, options: BenchOptions) -> Items:
    """Draws texts from a table, in the table's order.

    Raises:
        InputError: a table that cannot be read, or that lacks a named field.
    """
    table = read_table(path)
    table.check_fields(
        {"--text": options.text, "--rationale": options.rationale, "--words": options.words}
    )
    rows = list(range(len(table.rows)))
    if not rows:
        raise InputError(f"{table.path} has no rows: give a table with a text in each row")
    if options.texts is not None and options.texts < len(rows):
        rows = sorted(random.Random(options.seed).sample(rows, options.texts))
    texts = table.cells(options.text)
    rationales = _cells_or_none(table, options.rationale)
    words = _cells_or_none(table, options.words)
    has_labels = options.label in table.fields
    labels = _cells_or_none(table, options.label if has_labels else None)
    items = []
    for row in rows:
        item = _item(table, row, texts[row], rationales[row], words[row])
        items.append(replace(item, label=_as_label(labels[row])))
    lines = any(number != row for row, number in enumerate(table.numbers, start=1))
    return Items(tuple(items), table.sha256, lines)


def _cells_or_none(table: Table, field: str | None) -> list[object]:
    """The cells of a field; None for every row where no field is named."""
    if field is None:
        return [None] * len(table.rows)
    return table.cells(field)


def _item(table: Table, row: int, text: object, rationale: object, words: object) -> Item:
    """One text from the cells of its row."""
    where = f"{table.path}, {table.unit} {table.numbers[row]}"
    word_list = _parse_list(words, f"{where}, the words")
    marks = _parse_list(rationale, f"{where}, the rationale")
    return Item(str(row + 1), _as_text(text), _numbers(marks, where), _as_texts(word_list))


def _as_text(cell: object) -> str:
    """A cell as one text; some tables hold words instead."""
    if cell is None:
        return ""
    if isinstance(cell, (list, tuple)):
        return " ".join(str(word) for word in cell)
    return str(cell)


def _as_label(cell: object) -> str | None:
    """A cell as the name or the number of a class; None where it is empty."""
    if cell is None or cell == "" or cell != cell:  # the last is NaN
        return None
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # numbers with a gap between them are read as floats
    return str(cell)


def _as_texts(words: list[Any] | None) -> list[str] | None:
    if words is None:
        return None
    return [str(word) for word in words]


def _parse_list(cell: Any, what: str) -> list[Any] | None:
    """A cell that holds a list, or the JSON of one.

    Args:
        cell: None where there is none.
        what: what it is called in messages.
    """
    if cell is None:
        return None
    content = cell
    if isinstance(cell, str):
        try:
            content = json.loads(cell)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{what}: {cell[:40]!r} is not a list ({error}); "
                "give a JSON list with one entry for each word"
            ) from error
    if hasattr(content, "tolist"):  # an array of numpy or Arrow
        content = content.tolist()
    if not isinstance(content, (list, tuple)):
        raise InputError(
            f"{what}: a {type(content).__name__} is not a list; give one entry for each word"
        )
    return list(content)


def _numbers(marks: list[Any] | None, where: str) -> Marks | None:
    """Marks as numbers: one for each word, or a list of such from each annotator."""
    if marks is None:
        return None
    try:
        if marks and all(isinstance(one, (Mapping, list, tuple)) for one in marks):
            return [_of_annotator(one) for one in marks]
        return [float(mark) for mark in marks]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{where}, the rationale: {error}; give a number for each word, or a list of such "
            'from each annotator, or "words" and "active" from each, as in Yelp-HAT'
        ) from error


def _of_annotator(given: Mapping[str, Any] | Sequence[Any]) -> list[float]:
    """One annotator's marks: one for each word.

    Args:
        given: the marks; or how many "words" there are, and the indices of the "active" ones.
    """
    if not isinstance(given, Mapping):
        return [float(mark) for mark in given]
    marks = [0.0] * int(given["words"])
    for index in given["active"]:
        if not 0 <= int(index) < len(marks):
            raise ValueError(f"word {index} is marked, and there are {len(marks)} words")
        marks[int(index)] = 1.0
    return marks
