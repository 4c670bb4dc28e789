"""Reads CSV and TSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.system.switches import Switch
from slalom_xai.tables.table import Cells

# Lets the csv module read texts of any length.
LONG_FIELDS = Switch(csv.field_size_limit, csv.field_size_limit, 2**31 - 1)

SEPARATORS = {".csv": "commas", ".tsv": "tabs"}
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_separated(path: Path, text: str, kind: str) -> Cells:
    """Reads CSV or TSV.

    Many TSV files know no quotes, so one in which quotes make no sense is read without them.

    Args:
        path: the file, for messages.
        text: its content.
        kind: ".csv" or ".tsv".
    """
    if kind == ".csv":
        return _lines(path, text, kind, csv.QUOTE_MINIMAL)
    try:
        plain = _lines(path, text, kind, csv.QUOTE_NONE)
    except InputError:
        return _lines(path, text, kind, csv.QUOTE_MINIMAL)
    try:
        quoted = _lines(path, text, kind, csv.QUOTE_MINIMAL)
    except InputError:
        return plain
    # With fewer rows, a quote has swallowed the lines between two texts.
    if len(quoted.rows) == len(plain.rows):
        return quoted
    return plain


def _lines(path: Path, text: str, kind: str, quoting: Any) -> Cells:
    """The rows of a separated file; blank lines are passed over."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    begins = 1
    with LONG_FIELDS.held():
        reader = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=DELIMITERS[kind],
            quoting=quoting,
            strict=True,
        )
        try:
            for row in reader:
                if row:
                    _check_width(path, row, rows, begins, kind)
                    rows.append(row)
                    numbers.append(begins)
                begins = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"cannot read {path} ({error}) in the row that begins on line {begins}; "
                f"{quoting_advice(kind)}"
            ) from error
    if not rows:
        raise InputError(f"{path} is empty: give a table with a text and a label in each row")
    fields = tuple(name.strip() for name in rows[0])
    return Cells(fields, rows[1:], numbers[1:], "line")


def _check_width(
    path: Path, row: list[str], earlier: list[list[str]], begins: int, kind: str
) -> None:
    """Refuses a row of another width than the first."""
    if earlier and len(row) != len(earlier[0]):
        raise InputError(
            f"line {begins} of {path} has {len(row)} fields, "
            f"but the first line names {len(earlier[0])} columns: {quoting_advice(kind)}"
        )


def quoting_advice(kind: str) -> str:
    """What to do about a row that cannot be read, for a message."""
    return (
        f"put quotes around texts that hold {SEPARATORS[kind]}, quotes or line breaks, "
        "and write a quote inside as two"
    )
