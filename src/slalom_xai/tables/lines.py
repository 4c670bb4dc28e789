"""Streams the rows of text files: CSV, TSV and JSON lines, packed or not.

A row that cannot be read comes out as the error that says why, and the rows after it follow.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, shortened
from slalom_xai.system.switches import Switch
from slalom_xai.tables.packing import DAMAGE, damaged, opened

# Lets the csv module read texts of any length.
LONG_FIELDS = Switch(csv.field_size_limit, csv.field_size_limit, 2**31 - 1)

SEPARATORS = {".csv": "commas", ".tsv": "tabs"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SAMPLE = 1 << 20  # characters that decide whether a TSV file knows quotes
NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how Python keeps bytes that it cannot decode


@dataclass(frozen=True)
class StreamLimits:
    """What is too much for a text file that is read row by row.

    Attributes:
        row_bytes: of one row. A longer one is damaged: a quote was not closed. Counted are
            characters, most of which have one byte.
        bytes: of all that is read, for files that are packed so well that their size does not show.
        utf8_only: whether bytes that are no UTF-8 are too much as well.
    """

    row_bytes: int = 16 << 20
    bytes: int = 1 << 60
    utf8_only: bool = False

    def too_much(self, path: Path, what: str) -> InputError:
        """The error for a file that is too large.

        Args:
            path: the file.
            what: it has.
        """
        return InputError(f"{path} has {what} than {self.bytes / 1e9:.1f} GB: give a part of it")


ANY_SIZE = StreamLimits()


class Lines:
    """The lines of a file, with their ends.

    Bytes that are no UTF-8 come out as lone surrogates if the limits allow them: a row with some of
    them can still be told from the next.

    Args:
        path: the file.
        limits: what is too much.

    Attributes:
        number: of the last line, from 1.
    """

    def __init__(self, path: Path, limits: StreamLimits) -> None:
        self.path = path
        self.number = 0
        self._limits = limits
        self._read = 0
        self._in_row = 0
        self._file = io.TextIOWrapper(opened(path), "utf-8-sig", "surrogateescape", newline="")

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        room = self._limits.row_bytes - self._in_row
        try:
            line = self._file.readline(room + 1)
        except DAMAGE as error:
            raise damaged(self.path, error, f" after line {self.number}") from error
        if not line:
            raise StopIteration
        if len(line) > room:
            raise InputError(
                f"the row at line {self.number + 1} of {self.path} is longer than "
                f"{self._limits.row_bytes:,} bytes: check that every quote is closed"
            )
        self.number += 1
        self._in_row += len(line)
        self._read += len(line)
        if self._read > self._limits.bytes:
            raise self._limits.too_much(self.path, "more")
        if self._limits.utf8_only and NOT_UTF8.search(line):
            raise InputError(
                f"line {self.number} of {self.path} is not UTF-8 text: save the file as UTF-8"
            )
        return line

    def end_row(self) -> None:
        """Says that the next line begins a row."""
        self._in_row = 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def separated_rows(
    path: Path, kind: str, limits: StreamLimits
) -> Generator[tuple[int, list[str] | InputError], None, None]:
    """The rows of CSV or TSV with the lines they begin on, the header first.

    Blank lines are passed over.

    Raises:
        InputError: the file is empty, damaged or too large, or its header cannot be read.
    """
    quoting: Any = csv.QUOTE_MINIMAL
    if kind == ".tsv" and not _knows_quotes(path, limits):
        quoting = csv.QUOTE_NONE
    width, begins = 0, 1
    with closing(Lines(path, limits)) as lines, LONG_FIELDS.held():
        reader = csv.reader(lines, delimiter=_DELIMITERS[kind], quoting=quoting, strict=True)
        while True:
            row: list[str] | InputError | None
            try:
                row = next(reader, None)
            except csv.Error as error:
                row = InputError(
                    f"cannot read {path} ({error}) in the row that begins on line {begins}; "
                    f"{_quoting_advice(kind)}"
                )
            if row is None:
                break
            if isinstance(row, list) and row and width and len(row) != width:
                row = InputError(
                    f"line {begins} of {path} has {len(row)} fields, but the first line names "
                    f"{width} columns: {_quoting_advice(kind)}"
                )
            if isinstance(row, InputError):
                if not width:
                    raise row
                yield begins, row
            elif row:
                width = len(row)
                yield begins, row
            lines.end_row()
            begins = lines.number + 1
        if not width:
            raise InputError(f"{path} is empty: give a table with a text in each row")


def json_records(
    path: Path, limits: StreamLimits, skip: int = 0
) -> Generator[tuple[int, dict[str, Any] | InputError], None, None]:
    """The records of JSON lines with their lines.

    Args:
        path: the file.
        limits: what is too much.
        skip: so many records are passed over unread.

    Raises:
        InputError: the file is damaged or too large.
    """
    with closing(Lines(path, limits)) as lines:
        for line in islice(_filled(lines), skip, None):
            yield lines.number, _record(path, lines.number, line)


def as_record(value: object, where: str) -> dict[str, Any] | InputError:
    """What JSON has there, or the error if it is no record with named fields."""
    if isinstance(value, dict):
        return value
    return InputError(
        f"{where} is {shortened(str(value))}: "
        'give a record like {"text": "a fine film", "label": "good"}'
    )


def check_readable(path: Path) -> None:
    """Refuses what is no file with something in it."""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a file with a table")
        with path.open("rb") as file:
            if not file.read(1):
                raise InputError(f"{path} is empty: give a table with a text in each row")
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; give a file with a table"
        ) from error


def _quoting_advice(kind: str) -> str:
    """What to do about a row that cannot be read, for a message."""
    return (
        f"put quotes around texts that hold {SEPARATORS[kind]}, quotes or line breaks, "
        "and write a quote inside as two"
    )


def _record(path: Path, number: int, line: str) -> dict[str, Any] | InputError:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return InputError(
            f"cannot read line {number} of {path}: not JSON ({error}); give one record per line"
        )
    return as_record(value, f"line {number} of {path}")


def _filled(lines: Lines) -> Iterator[str]:
    for line in lines:
        lines.end_row()
        if line.strip():
            yield line


def _knows_quotes(path: Path, limits: StreamLimits) -> bool:
    """Whether quotes in a TSV file are more than characters, judged by its first lines.

    They are if lines make no sense without them, or if lines are the same rows with them.
    """
    sample: list[str] = []
    size = 0
    with closing(Lines(path, limits)) as lines:
        for line in lines:
            lines.end_row()
            sample.append(line)
            size += len(line)
            if size > _SAMPLE:
                break
    with LONG_FIELDS.held():
        plain = [row for row in csv.reader(sample, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
        if any(len(row) != len(plain[0]) for row in plain[1:]):
            return True
        try:
            quoted = [row for row in csv.reader(sample, delimiter="\t", strict=True) if row]
        except csv.Error:
            return False
    return len(quoted) == len(plain) and all(len(row) == len(quoted[0]) for row in quoted)
