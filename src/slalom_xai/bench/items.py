"""The texts of a benchmark, with what people marked in them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.bench.options import BenchOptions
from slalom_xai.errors import InputError
from slalom_xai.tables import Table, read_table


@dataclass(frozen=True)
class Item:
    """One text.

    Attributes:
        name: its row in the table, counted from 1, the header left out.
        text: the text itself; an empty one is recorded as a failure by whoever explains it.
        marks: one number for each word; None without a rationale.
        words: the words the marks belong to; None: the text split at white space.
    """

    name: str
    text: str
    marks: Sequence[float] | None = None
    words: Sequence[str] | None = None


@dataclass(frozen=True)
class Items:
    """The texts that were drawn.

    Attributes:
        items: in the table's order.
        sha256: fingerprint of the table they are from.
        lines: whether rows are not counted as lines of the file are, as in CSV, where a header comes first.
    """

    items: tuple[Item, ...]
    sha256: str
    lines: bool = False


def read_items(path: str | Path, options: BenchOptions) -> Items:
    """Draws texts from a table, in the table's order.

    Raises:
        InputError: a table that cannot be read, or that lacks a named column.
    """
    table = read_table(path)
    wanted = {"--text": options.text, "--rationale": options.rationale, "--words": options.words}
    for flag, column in wanted.items():
        if column is not None and column not in table.columns:
            there = ", ".join(repr(name) for name in table.columns)
            raise InputError(
                f"{table.path} has no column {column!r}, only {there}: say which to use with {flag} COLUMN"
            )
    places = list(range(len(table.rows)))
    if not places:
        raise InputError(f"{table.path} has no rows: give a table with a text in each row")
    if options.texts is not None and options.texts < len(places):
        places = sorted(random.Random(options.seed).sample(places, options.texts))
    columns = {
        flag: None if column is None else table.column(column) for flag, column in wanted.items()
    }
    lines = any(number != place + 1 for place, number in enumerate(table.numbers))
    return Items(tuple(_item(table, place, columns) for place in places), table.sha256, lines)


def _item(table: Table, place: int, columns: dict[str, list[object] | None]) -> Item:
    cells = {flag: None if column is None else column[place] for flag, column in columns.items()}
    where = f"{table.path}, {table.unit} {table.numbers[place]}"
    words = _listed(cells["--words"], f"{where}, the words")
    text = cells["--text"]
    if isinstance(text, (list, tuple)):  # some tables hold words instead of texts
        text = " ".join(str(word) for word in text)
    marks = _listed(cells["--rationale"], f"{where}, the rationale")
    return Item(
        str(place + 1),
        "" if text is None else str(text),
        _numbers(marks, where),
        None if words is None else [str(w) for w in words],
    )


def _listed(cell: Any, what: str) -> list[Any] | None:
    """A cell that holds a list, or the JSON of one."""
    if cell is None:
        return None
    found = cell
    if isinstance(cell, str):
        try:
            found = json.loads(cell)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{what}: {cell[:40]!r} is not a list ({error}); give a JSON list with one entry for each word"
            ) from error
    if hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, (list, tuple)):
        raise InputError(
            f"{what}: a {type(found).__name__} is not a list; give one entry for each word"
        )
    return list(found)


def _numbers(marks: list[Any] | None, where: str) -> Sequence[float] | None:
    if marks is None:
        return None
    try:
        return [float(mark) for mark in marks]
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}, the rationale: {error}; give a number for each word") from error
