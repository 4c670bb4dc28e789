"""Streams the rows of text files: CSV, TSV and JSON lines, packed or not."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO, Any

from slalom_xai.app.data.settings import DataSettings
from slalom_xai.errors import InputError, shortened
from slalom_xai.tables.packing import DAMAGE
from slalom_xai.tables.separated import DELIMITERS, LONG_FIELDS, quoting_advice

PACKINGS = (".gz", ".xz", ".bz2")

_SAMPLE = 1 << 20  # characters that decide whether a TSV file knows quotes
_BYTE_ORDER_MARK = "\ufeff"


class Lines:
    """The lines of a file, with their ends; each is decoded by itself, so that none is lost.

    Args:
        path: the file.
        settings: limits.

    Attributes:
        number: of the last line, from 1.
    """

    def __init__(self, path: Path, settings: DataSettings) -> None:
        self.path = path
        self.number = 0
        self._settings = settings
        self._read = 0
        self._in_row = 0
        self._file = _opened(path)

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        room = self._settings.row_bytes - self._in_row
        try:
            raw = self._file.readline(room + 1)
        except DAMAGE as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"cannot read {self.path} after line {self.number}: it is damaged ({reason}); "
                "pack it again, or give it unpacked"
            ) from error
        if not raw:
            raise StopIteration
        if len(raw) > room:
            raise InputError(
                f"the row at line {self.number + 1} of {self.path} is longer than "
                f"{self._settings.row_bytes:,} bytes: check that every quote is closed"
            )
        self.number += 1
        self._in_row += len(raw)
        self._read += len(raw)
        if self._read > self._settings.bytes:
            raise self._settings.too_much(self.path, "more")
        return self._decoded(raw)

    def end_row(self) -> None:
        """Says that the next line begins a row."""
        self._in_row = 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _decoded(self, raw: bytes) -> str:
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"line {self.number} of {self.path} is not UTF-8 text ({error.reason} at byte "
                f"{error.start} of the line): save the file as UTF-8"
            ) from error
        if self.number == 1:
            return line.removeprefix(_BYTE_ORDER_MARK)
        return line


def separated_rows(
    path: Path, kind: str, settings: DataSettings
) -> Generator[tuple[int, list[str]], None, None]:
    """The rows of CSV or TSV with the lines they begin on, the header first.

    Blank lines are passed over, as ``slalom_xai.tables`` does.
    """
    quoting: Any = csv.QUOTE_MINIMAL
    if kind == ".tsv" and not _knows_quotes(path, settings):
        quoting = csv.QUOTE_NONE
    width, begins = 0, 1
    with closing(Lines(path, settings)) as lines, LONG_FIELDS.held():
        reader = csv.reader(lines, delimiter=DELIMITERS[kind], quoting=quoting, strict=True)
        try:
            for row in reader:
                if row and width and len(row) != width:
                    raise InputError(
                        f"line {begins} of {path} has {len(row)} fields, but the first line names "
                        f"{width} columns: {quoting_advice(kind)}"
                    )
                if row:
                    width = len(row)
                    yield begins, row
                lines.end_row()
                begins = lines.number + 1
        except csv.Error as error:
            raise InputError(
                f"cannot read {path} ({error}) in the row that begins on line {begins}; "
                f"{quoting_advice(kind)}"
            ) from error
        if not width:
            raise InputError(f"{path} is empty: give a table with a text in each row")


def json_records(
    path: Path, settings: DataSettings, skip: int = 0
) -> Generator[tuple[int, dict[str, Any]], None, None]:
    """The records of JSON lines with their lines.

    Args:
        path: the file.
        settings: limits.
        skip: so many records are passed over unread.
    """
    with closing(Lines(path, settings)) as lines:
        for line in islice(_filled(lines), skip, None):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"cannot read line {lines.number} of {path}: not JSON ({error}); "
                    "give one record per line"
                ) from error
            if not isinstance(record, dict):
                raise InputError(
                    f"line {lines.number} of {path} is {shortened(line.strip())}: "
                    'give a record like {"text": "a fine film", "label": "good"}'
                )
            yield lines.number, record


def _filled(lines: Lines) -> Iterator[str]:
    for line in lines:
        lines.end_row()
        if line.strip():
            yield line


def _knows_quotes(path: Path, settings: DataSettings) -> bool:
    """Whether quotes in a TSV file are more than characters, judged by its first lines.

    They are if lines make no sense without them, or if they never hold more than one line.
    """
    sample: list[str] = []
    size = 0
    with closing(Lines(path, settings)) as lines:
        for line in lines:
            lines.end_row()
            sample.append(line)
            size += len(line)
            if size > _SAMPLE:
                break
    with LONG_FIELDS.held():
        plain = [row for row in csv.reader(sample, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
        quoted = [row for row in csv.reader(sample, delimiter="\t") if row]
    if any(len(row) != len(plain[0]) for row in plain[1:]):
        return True
    return len(quoted) == len(plain)


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    packing = path.suffix.lower()
    try:
        if packing == ".gz":
            return gzip.open(path, "rb")
        if packing == ".xz":
            return lzma.open(path, "rb")
        if packing == ".bz2":
            return bz2.open(path, "rb")
        return path.open("rb")
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; give a file with a table"
        ) from error
