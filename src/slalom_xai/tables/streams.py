"""Reads a table row by row, so that one of any size fits into memory.

CSV, TSV and JSON lines, packed as .gz, .xz or .bz2 or not, and Parquet. Every row of the file comes
out: one that cannot be read comes with what is wrong with it. ``read_table`` reads the same rows at
once.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from slalom_xai.errors import InputError
from slalom_xai.tables.lines import (
    ANY_SIZE,
    NOT_UTF8,
    StreamLimits,
    check_readable,
    json_records,
    separated_rows,
)
from slalom_xai.tables.packing import JSON, PACKINGS, PARQUET, SEPARATED, kind_of
from slalom_xai.tables.parquet_rows import ParquetRows
from slalom_xai.tables.table import listed

_KINDS = (*SEPARATED, ".jsonl", ".ndjson", PARQUET)
_PEEKED = 100  # records that are read to learn the fields of a JSON file


class StreamedRow(NamedTuple):
    """A row of a file.

    Attributes:
        place: where it is, as a person counts.
        cells: of the fields that were asked for; empty where the row cannot be read.
        problem: why it cannot be read; None where it can.
    """

    place: str
    cells: tuple[object, ...]
    problem: InputError | None


@dataclass(frozen=True)
class TableStream:
    """A file that was looked at and can be read row by row.

    Attributes:
        path: the file.
        kind: its ending without that of its packing.
        fields: the names of its columns.
        limits: what is too much.
    """

    path: Path
    kind: str
    fields: tuple[str, ...]
    limits: StreamLimits = ANY_SIZE

    def check_field(self, field: str) -> None:
        """Refuses a column that is not there, or that is there twice."""
        check_field(self.path, self.fields, field)

    def rows(self, wanted: Sequence[str], skip: int = 0) -> Generator[StreamedRow, None, None]:
        """The rows of the file in order.

        Args:
            wanted: columns that are there.
            skip: so many rows are passed over.

        Raises:
            InputError: the file is damaged or too large.
        """
        if self.kind == PARQUET:
            return self._parquet_rows(wanted, skip)
        if self.kind in SEPARATED:
            return self._separated_rows(wanted, skip)
        return self._json_rows(wanted, skip)

    def _parquet_rows(self, wanted: Sequence[str], skip: int) -> Generator[StreamedRow, None, None]:
        with ParquetRows(self.path) as rows:
            for number, cells in enumerate(rows.cells(wanted, skip), start=skip + 1):
                yield StreamedRow(f"row {number} of {self.path}", cells, None)

    def _separated_rows(
        self, wanted: Sequence[str], skip: int
    ) -> Generator[StreamedRow, None, None]:
        indices = [self.fields.index(field) for field in wanted]
        with closing(separated_rows(self.path, self.kind, self.limits)) as rows:
            for number, (line, row) in enumerate(islice(rows, skip + 1, None), start=skip + 1):
                place = f"row {number} of {self.path} (line {line})"
                if isinstance(row, InputError):
                    yield StreamedRow(place, (), row)
                else:
                    yield StreamedRow(place, tuple(row[index] for index in indices), None)

    def _json_rows(self, wanted: Sequence[str], skip: int) -> Generator[StreamedRow, None, None]:
        with closing(json_records(self.path, self.limits, skip)) as records:
            for number, (line, record) in enumerate(records, start=skip + 1):
                place = f"row {number} of {self.path} (line {line})"
                if isinstance(record, InputError):
                    yield StreamedRow(place, (), record)
                else:
                    yield StreamedRow(place, tuple(map(record.get, wanted)), None)


def open_stream(path: Path, limits: StreamLimits = ANY_SIZE) -> TableStream:
    """Looks at a file: its name and its columns.

    Raises:
        InputError: it cannot be read row by row.
    """
    kind = known_kind(path)
    check_readable(path)
    return TableStream(path, kind, _fields(path, kind, limits), limits)


def known_kind(path: Path) -> str:
    """The ending of a file without that of its packing.

    Raises:
        InputError: such a file cannot be read row by row.
    """
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


def check_field(path: Path, fields: Sequence[str], field: str) -> None:
    """Refuses a column that is not there, or that is there twice.

    Args:
        path: the file, for the message.
        fields: the names of its columns.
        field: the column that is wanted.
    """
    if fields.count(field) == 1:
        return
    if field in fields:
        raise InputError(f"{path} has several columns called {field!r}: give each its own name")
    if any(broken_characters(name) for name in fields):
        raise InputError(f"the columns of {path} have names that are no UTF-8: save it as UTF-8")
    there = listed(fields) if fields else "none at all"
    raise InputError(f"{path} has no column {field!r}, only {there}: name one of them")


def is_absent(cell: object) -> bool:
    """Whether a table has nothing there."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None


def broken_characters(text: str) -> str | None:
    """What is wrong with the characters of a text, and what to do; None if nothing is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        if NOT_UTF8.search(text):
            return "is not UTF-8 text: save the file as UTF-8"
        return "holds half a character (a lone surrogate): save the table as UTF-8 again"
    return None


def _fields(path: Path, kind: str, limits: StreamLimits) -> tuple[str, ...]:
    """The names of the columns."""
    if kind == PARQUET:
        with ParquetRows(path) as rows:
            return rows.fields
    if kind in JSON:
        named: dict[str, None] = {}
        with closing(json_records(path, limits)) as records:
            for _, record in islice(records, _PEEKED):
                if isinstance(record, dict):
                    named.update(dict.fromkeys(record))
        return tuple(named)
    with closing(separated_rows(path, kind, limits)) as rows_of_cells:
        header = next(rows_of_cells)[1]
    assert isinstance(header, list)  # or it would have been raised
    return tuple(name.strip() for name in header)
