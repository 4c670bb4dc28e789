"""Streams the rows of files: CSV, TSV, JSON lines and Parquet, packed or not.

A row that cannot be read comes out as the error that says why, and the rows after it follow.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from slalom_xai.errors import InputError, quote_text
from slalom_xai.system.switches import Switch

# What kind of table a file is, by the ending of its name, and its bytes without their packing.


SEPARATED = (".csv", ".tsv")
JSON = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"

_UNPACK: Mapping[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
PACKINGS = tuple(_UNPACK)
_ZIP = ".zip"

# Everything that the modules above raise for a damaged file.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def open_unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file without its packing.

    Raises:
        InputError: it cannot be opened.
    """
    packing = path.suffix.lower()
    try:
        if packing == _ZIP:
            with zipfile.ZipFile(path) as archive:  # the file inside keeps it open
                return archive.open(_name_in(archive, path))
        unpack = _UNPACK.get(packing)
        return path.open("rb") if unpack is None else unpack(path)
    except InputError:
        raise
    except DAMAGE as error:
        raise unpack_error(path, error) from error


def name_in_zip(path: Path) -> str:
    """The name of the one file in an archive.

    Raises:
        InputError: it cannot be opened, or does not hold one file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return Path(_name_in(archive, path)).name
    except zipfile.BadZipFile as error:
        raise unpack_error(path, error) from error


def unpack_error(path: Path, error: Exception, after: str = "") -> InputError:
    """The error for a file that cannot be unpacked.

    Args:
        path: the file.
        error: what went wrong.
        after: what could be read of it.
    """
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"cannot read {path}{after}: it is damaged or not a {path.suffix[1:]} file ({reason}); "
        "pack it again, or give it unpacked"
    )


def kind_of(name: str, given: Path) -> str:
    """The ending that says what a file holds, without that of its packing.

    Args:
        name: the name of the file, or of the one inside it with the packing's ending.
        given: the path that the user gave, for the message.

    Raises:
        InputError: the ending is not known, or the format has its own packing.
    """
    whole = Path(name.lower())
    kind, packed = whole.suffix, False
    if kind in (*_UNPACK, _ZIP):
        kind, packed = Path(whole.stem).suffix, True
    if kind in (*SEPARATED, *JSON):
        return kind
    if kind == PARQUET and not packed:
        return kind
    raise InputError(
        f"unknown kind of table {given.name!r}: "
        f"give a file that ends in {', '.join((*SEPARATED, *JSON))} or {PARQUET}; "
        f"all except {PARQUET} may be packed as .gz, .xz, .bz2 or .zip"
    )


def _name_in(archive: zipfile.ZipFile, path: Path) -> str:
    """The one file in an archive."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    names = [info.filename for info in infos if not info.filename.startswith("__MACOSX/")]
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files: give a zip file with one table in it")
    return names[0]


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
        self._file = io.TextIOWrapper(
            open_unpacked(path), "utf-8-sig", "surrogateescape", newline=""
        )

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        room = self._limits.row_bytes - self._in_row
        try:
            line = self._file.readline(room + 1)
        except DAMAGE as error:
            raise unpack_error(self.path, error, f" after line {self.number}") from error
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
        for line in islice(_skip_blank_lines(lines), skip, None):
            yield lines.number, _record(path, lines.number, line)


def as_record(value: object, where: str) -> dict[str, Any] | InputError:
    """What JSON has there, or the error if it is no record with named fields."""
    if isinstance(value, dict):
        return value
    return InputError(
        f"{where} is {quote_text(str(value))}: "
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


def _skip_blank_lines(lines: Lines) -> Iterator[str]:
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


# Streams the rows of Parquet files; needs the package pyarrow, which is imported here only.


_BATCH_BYTES = 4 << 20  # about so many are read at once
_BATCH_ROWS = 1024  # at most


class ParquetRows:
    """The rows of a Parquet file.

    Args:
        path: the file.

    Attributes:
        fields: the names of its columns.
        rows: how many it has.
        unpacked_bytes: their size without packing.

    Raises:
        InputError: pyarrow is missing, or the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._arrow = import_module("pyarrow")
            parquet = import_module("pyarrow.parquet")
        except ImportError as error:
            raise InputError(
                f"reading {path} needs the package pyarrow: "
                "pip install pyarrow, or give the table as CSV or JSON lines"
            ) from error
        with self._damage():
            self._file = parquet.ParquetFile(path, pre_buffer=False, memory_map=False)
        metadata = self._file.metadata
        self.rows: int = metadata.num_rows
        self._group_rows = []
        self.unpacked_bytes = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            self._group_rows.append(group.num_rows)
            self.unpacked_bytes += group.total_byte_size
        self.fields = tuple(str(name) for name in self._file.schema_arrow.names)

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def cells(
        self, wanted: Sequence[str] | None = None, skip: int = 0
    ) -> Iterator[tuple[object, ...]]:
        """The cells of some columns, row by row.

        Args:
            wanted: the columns; None: all.
            skip: so many rows are passed over.
        """
        first, skip = self._first_group(skip)
        groups = list(range(first, len(self._group_rows)))
        if not groups:
            return
        batches = self._file.iter_batches(
            self._batch_rows(),
            row_groups=groups,
            columns=None if wanted is None else list(wanted),
            use_threads=False,
        )
        while True:
            with self._damage():
                batch = next(batches, None)
                if batch is None:
                    return
                batch, skip = batch.slice(skip), max(0, skip - batch.num_rows)
                named = batch.columns if wanted is None else map(batch.column, wanted)
                columns = [cells.to_pylist() for cells in named]
            yield from zip(*columns, strict=True)

    def _first_group(self, skip: int) -> tuple[int, int]:
        """The row group to begin with, and how many of its rows to pass over."""
        for index, rows in enumerate(self._group_rows):
            if skip < rows:
                return index, skip
            skip -= rows
        return len(self._group_rows), 0

    def _batch_rows(self) -> int:
        bytes_per_row = max(1, self.unpacked_bytes // max(1, self.rows))
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES // bytes_per_row))

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{self.path} is damaged or not a Parquet file ({reason}): "
                "write it again, or give the table as CSV or JSON lines"
            ) from error
