"""Reads a table row by row, so that one of any size fits into memory.

CSV, TSV and JSON lines, packed as .gz, .xz or .bz2 or not, and Parquet. Every row of the file comes
out: one that cannot be read comes with what is wrong with it. ``read_table`` reads the same rows at
once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from slalom_xai.data.tables.formats import (
    ANY_SIZE,
    JSON,
    NOT_UTF8,
    PACKINGS,
    PARQUET,
    SEPARATED,
    ParquetRows,
    StreamLimits,
    check_readable,
    json_records,
    kind_of,
    separated_rows,
)
from slalom_xai.data.tables.table import quote_names
from slalom_xai.errors import InputError

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
    there = quote_names(fields) if fields else "none at all"
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


# Reads a data set that Hugging Face's ``datasets`` saved to disk; needs pyarrow, not
# ``datasets``.
#
# Such a folder has a file state.json, which lists files in Arrow's streaming format.


STATE = "state.json"
SPLITS = "dataset_dict.json"
_BATCH = 1024  # rows at once


@dataclass(frozen=True)
class ArrowStream:
    """A saved data set that can be read row by row.

    Attributes:
        path: the folder.
        files: its files, in order.
        fields: the names of its columns.
    """

    path: Path
    files: tuple[Path, ...]
    fields: tuple[str, ...]

    def check_field(self, field: str) -> None:
        """Refuses a column that is not there, or that is there twice."""
        check_field(self.path, self.fields, field)

    def rows(self, wanted: Sequence[str]) -> Generator[StreamedRow, None, None]:
        """The rows in order.

        Args:
            wanted: columns that are there.

        Raises:
            InputError: a file is damaged.
        """
        number = 0
        for file in self.files:
            for batch in _batches(file):
                columns = [batch.column(field).to_pylist() for field in wanted]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield StreamedRow(f"row {number} of {self.path}", cells, None)


def open_saved_dataset(folder: Path) -> ArrowStream:
    """Looks at a folder that ``Dataset.save_to_disk`` wrote.

    Raises:
        InputError: it holds several splits, a selection, or nothing that can be read.
    """
    if (folder / SPLITS).is_file():
        splits = ", ".join(sorted(_json(folder / SPLITS).get("splits", [])))
        raise InputError(
            f"{folder} holds several splits ({splits}): give the folder of one, such as "
            f"{folder / 'train'}"
        )
    state = _json(folder / STATE)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InputError(
            f"{folder} holds a selection of rows: call flatten_indices() and save it again"
        )
    files = tuple(folder / str(entry["filename"]) for entry in state.get("_data_files", []))
    if not files:
        raise InputError(f"{folder} has no rows: give a data set with a text in each row")
    with _damage(files[0]):
        fields = tuple(_open_file(files[0]).schema.names)
    return ArrowStream(folder, files, fields)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}): save the data set again") from error
    return content if isinstance(content, dict) else {}


def _batches(file: Path) -> Iterator[Any]:
    with _damage(file):
        reader = _open_file(file)
    while True:
        with _damage(file):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        for start in range(0, batch.num_rows, _BATCH):
            yield batch.slice(start, _BATCH)


def _open_file(file: Path) -> Any:
    try:
        arrow = import_module("pyarrow")
    except ImportError as error:
        raise InputError(
            f"reading {file} needs the package pyarrow: pip install pyarrow"
        ) from error
    return arrow.ipc.open_stream(arrow.memory_map(str(file)))


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file} is damaged ({reason}): save the data set again") from error
