"""Reads the texts and labels of a file one by one, so that a file of any size fits into memory.

``slalom_xai.tables`` reads a table at once, which training needs. Here the same formats are read as
a stream: CSV, TSV and JSON lines, packed as .gz, .xz or .bz2 or not, and Parquet. Every row of the
file comes out, also one without a text. The first row that cannot be read ends the stream with an
error that names it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from slalom_xai.app.data.lines import PACKINGS, json_records, separated_rows
from slalom_xai.app.data.parquet import ParquetRows
from slalom_xai.app.data.settings import DATA_SETTINGS, DataSettings
from slalom_xai.errors import InputError, shortened
from slalom_xai.tables.packing import JSON, PARQUET, SEPARATED, kind_of
from slalom_xai.tables.table import listed

DEFAULT_LABEL = "label"  # the column of the labels where none is named

_KINDS = (*SEPARATED, ".jsonl", ".ndjson", PARQUET)
_PEEKED = 100  # records that are read to learn the fields of a JSON file
_READ = 1 << 20  # bytes that are hashed at once
_HASHED_WHOLE = 64 << 20  # bytes; of a larger file, samples are hashed
_SAMPLES = 64  # of a large file
_SAMPLED = 1 << 16  # bytes of each sample


class Record(NamedTuple):
    """A row of a file.

    Attributes:
        text: empty where the file has none.
        label: None where the file has none.
    """

    text: str
    label: str | None


class _Cells(NamedTuple):
    """The two cells of a row as a file has them, and where it begins, as a person counts."""

    text: object
    label: object
    where: str


@dataclass(frozen=True)
class Source:
    """A file that was looked at and can be read.

    Attributes:
        path: the file.
        kind: its ending without that of its packing.
        text_field: the column of the texts.
        label_field: the column of the labels; None where there is none.
        settings: limits.
    """

    path: Path
    kind: str
    text_field: str
    label_field: str | None
    settings: DataSettings

    def records(self, skip: int = 0) -> Generator[Record, None, None]:
        """The rows of the file in order.

        Args:
            skip: so many rows are passed over.

        Raises:
            InputError: a row cannot be read.
        """
        number = skip
        with closing(self._cells(skip)) as cells:
            for row in cells:
                number += 1
                place = f"row {number} of {self.path}{row.where}"
                yield Record(self._text(row.text, place), self._label(row.label, place))

    def fingerprint(self, version: int) -> str:
        """Equal for the same content that is read in the same way.

        Files of up to 64 MB are hashed as a whole. Of larger ones, the size, the time of the last
        change and 64 samples are hashed.

        Args:
            version: of what is made from the file.
        """
        status = self.path.stat()
        how = [version, self.kind, self.text_field, self.label_field, status.st_size]
        digest = hashlib.sha256(json.dumps(how).encode())
        with self.path.open("rb") as file:
            if status.st_size <= _HASHED_WHOLE:
                while part := file.read(_READ):
                    digest.update(part)
            else:
                digest.update(str(status.st_mtime_ns).encode())
                for index in range(_SAMPLES):
                    file.seek((status.st_size - _SAMPLED) * index // (_SAMPLES - 1))
                    digest.update(file.read(_SAMPLED))
        return digest.hexdigest()[:16]

    def _cells(self, skip: int) -> Generator[_Cells, None, None]:
        if self.kind == PARQUET:
            return self._parquet_cells(skip)
        if self.kind in SEPARATED:
            return self._separated_cells(skip)
        return self._json_cells(skip)

    def _parquet_cells(self, skip: int) -> Generator[_Cells, None, None]:
        with ParquetRows(self.path) as rows:
            for text, label in rows.cells(self.text_field, self.label_field, skip):
                yield _Cells(text, label, "")

    def _separated_cells(self, skip: int) -> Generator[_Cells, None, None]:
        rows = separated_rows(self.path, self.kind, self.settings)
        with closing(rows):
            _, header = next(rows)
            fields = _field_names(header)
            text = fields.index(self.text_field)
            label = None if self.label_field is None else fields.index(self.label_field)
            for line, row in islice(rows, skip, None):
                found = None if label is None else row[label]
                yield _Cells(row[text], found, f" (line {line})")

    def _json_cells(self, skip: int) -> Generator[_Cells, None, None]:
        for line, record in json_records(self.path, self.settings, skip):
            label = None if self.label_field is None else record.get(self.label_field)
            yield _Cells(record.get(self.text_field), label, f" (line {line})")

    def _text(self, cell: object, place: str) -> str:
        if _is_absent(cell):
            return ""
        if not isinstance(cell, str):
            raise InputError(
                f"{place} holds the {type(cell).__name__} {shortened(str(cell))} in column "
                f"{self.text_field!r}, not a text: name the column of the texts, or write it as one"
            )
        _check_whole_characters(cell, place)
        return cell

    def _label(self, cell: object, place: str) -> str | None:
        """A label without spaces around it; a whole number without a decimal point."""
        if _is_absent(cell):
            return None
        if isinstance(cell, list | tuple | dict | set | bytes):
            raise InputError(
                f"{place} holds a {type(cell).__name__} in column {self.label_field!r}: "
                "give one label for each row"
            )
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        label = str(cell).strip()
        if len(label) > self.settings.label:
            raise InputError(
                f"{place} has a label of {len(label)} characters in column {self.label_field!r}, "
                f"where at most {self.settings.label} are expected: name the column of the labels"
            )
        _check_whole_characters(label, place)
        return label or None


def open_source(
    path: Path,
    text_field: str = "text",
    label_field: str | None = None,
    settings: DataSettings = DATA_SETTINGS,
) -> Source:
    """Looks at a file: its name, its size, its columns and its first row.

    Args:
        path: the file.
        text_field: the column of the texts.
        label_field: the column of the labels; None takes one that is called "label", if any.
        settings: limits.

    Raises:
        InputError: it cannot be read, or is too large.
    """
    kind = _known_kind(path)
    _check_readable(path)
    _check_size(path, kind, settings)
    fields = _fields(path, kind, settings)
    for field in (text_field, label_field):
        if field is not None and fields.count(field) != 1:
            raise _wrong_field(path, field, fields)
    if label_field is None and fields.count(DEFAULT_LABEL) == 1 and text_field != DEFAULT_LABEL:
        label_field = DEFAULT_LABEL
    source = Source(path, kind, text_field, label_field, settings)
    with closing(source.records()) as records:
        if next(records, None) is None:
            raise InputError(f"{path} has no rows: give a table with a text in each row")
    return source


def _known_kind(path: Path) -> str:
    packing = path.suffix.lower()
    expected = (
        f"give a file that ends in {', '.join(_KINDS)}; all except {PARQUET} may be packed as "
        f"{', '.join(PACKINGS)}"
    )
    try:
        kind = kind_of(path.name, path)
    except InputError as error:
        raise InputError(f"cannot read a data set from {path.name!r}: {expected}") from error
    if kind not in _KINDS or (packing != kind and packing not in PACKINGS):
        raise InputError(
            f"cannot read a data set from {path.name!r}, which can only be read as a whole: "
            f"{expected}"
        )
    return kind


def _check_readable(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: give a file with a table")
        with path.open("rb"):
            pass
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; give a file with a table"
        ) from error


def _check_size(path: Path, kind: str, settings: DataSettings) -> None:
    """Refuses a file that is too large, before any of it is read."""
    size, rows = os.path.getsize(path), 0
    if size == 0:
        raise InputError(f"{path} is empty: give a table with a text in each row")
    if size > settings.bytes:
        raise settings.too_much(path, f"{size / 1e9:.1f} GB")
    if kind == PARQUET:
        with ParquetRows(path) as parquet:
            rows, size = parquet.rows, parquet.unpacked_bytes
    if size > settings.bytes:
        raise settings.too_much(path, f"{size / 1e9:.1f} GB")
    if rows > settings.rows:
        raise settings.too_much(path, f"{rows:,} rows")


def _fields(path: Path, kind: str, settings: DataSettings) -> tuple[str, ...]:
    """The names of the columns."""
    if kind == PARQUET:
        with ParquetRows(path) as rows:
            return rows.fields
    if kind in JSON:
        named: dict[str, None] = {}
        with closing(json_records(path, settings)) as records:
            for _, record in islice(records, _PEEKED):
                named.update(dict.fromkeys(record))
        return tuple(named)
    with closing(separated_rows(path, kind, settings)) as rows_of_cells:
        return _field_names(next(rows_of_cells)[1])


def _field_names(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in header)


def _wrong_field(path: Path, field: str, fields: Sequence[str]) -> InputError:
    if field in fields:
        return InputError(f"{path} has several columns called {field!r}: give each its own name")
    there = listed(fields) if fields else "none at all"
    return InputError(f"{path} has no column {field!r}, only {there}: name one of them")


def _is_absent(cell: object) -> bool:
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None


def _check_whole_characters(text: str, place: str) -> None:
    """Refuses half of a character that JSON writes in two halves."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{place} holds half a character (a lone surrogate): save the table as UTF-8 again"
        ) from error
