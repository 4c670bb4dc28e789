"""Brings the rows of a file into the SQLite file, in batches that are each kept or not.

An interrupted import resumes where it stopped. If another process reads the file, this one waits.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from slalom_xai.data.tables.formats import PARQUET, ParquetRows, check_readable
from slalom_xai.data.tables.streams import (
    TableStream,
    broken_characters,
    is_absent,
    known_kind,
    open_stream,
)
from slalom_xai.errors import InputError, quote_text
from slalom_xai.serve.data.answers import show_explained
from slalom_xai.serve.data.file import DATA_SETTINGS, DataFile, DataSettings
from slalom_xai.system.files import lock

# The texts and labels of a data set's file, one by one.
#
# Every row of the file comes out, also one without a text. The first row that cannot be read ends
# the stream with an error that names it.


DEFAULT_LABEL = "label"  # the column of the labels where none is named

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


@dataclass(frozen=True)
class Source:
    """A file that was looked at and can be read.

    Attributes:
        stream: reads the file.
        text_field: the column of the texts.
        label_field: the column of the labels; None where there is none.
        settings: limits.
    """

    stream: TableStream
    text_field: str
    label_field: str | None
    settings: DataSettings

    @property
    def path(self) -> Path:
        """The file."""
        return self.stream.path

    def records(self, skip: int = 0) -> Generator[Record, None, None]:
        """The rows of the file in order.

        Args:
            skip: so many rows are passed over.

        Raises:
            InputError: a row cannot be read.
        """
        wanted = [self.text_field]
        if self.label_field is not None:
            wanted.append(self.label_field)
        with closing(self.stream.rows(wanted, skip)) as rows:
            for place, cells, problem in rows:
                if problem is not None:
                    raise problem
                label = None
                if self.label_field is not None:
                    label = self._label(cells[1], place)
                yield Record(self._text(cells[0], place), label)

    def fingerprint(self, version: int) -> str:
        """Equal for the same content that is read in the same way.

        Files of up to 64 MB are hashed as a whole. Of larger ones, the size, the time of the last
        change and 64 samples are hashed.

        Args:
            version: of what is made from the file.
        """
        status = self.path.stat()
        how = [version, self.stream.kind, self.text_field, self.label_field, status.st_size]
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

    def _text(self, cell: object, place: str) -> str:
        if is_absent(cell):
            return ""
        if not isinstance(cell, str):
            raise InputError(
                f"{place} holds the {type(cell).__name__} {quote_text(str(cell))} in column "
                f"{self.text_field!r}, not a text: name the column of the texts, or write it as one"
            )
        _check_characters(cell, place)
        return cell

    def _label(self, cell: object, place: str) -> str | None:
        """A label without spaces around it; a whole number without a decimal point."""
        if is_absent(cell):
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
        _check_characters(label, place)
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
    known_kind(path)
    check_readable(path)
    _check_size(path, settings)
    stream = open_stream(path, settings)
    for field in (text_field, label_field):
        if field is not None:
            stream.check_field(field)
    has_label = stream.fields.count(DEFAULT_LABEL) == 1
    if label_field is None and has_label and text_field != DEFAULT_LABEL:
        label_field = DEFAULT_LABEL
    source = Source(stream, text_field, label_field, settings)
    with closing(source.records()) as records:
        if next(records, None) is None:
            raise InputError(f"{path} has no rows: give a table with a text in each row")
    return source


def _check_size(path: Path, settings: DataSettings) -> None:
    """Refuses a file that is too large, before any of it is read."""
    size, rows = os.path.getsize(path), 0
    if size > settings.bytes:
        raise settings.too_much(path, f"{size / 1e9:.1f} GB")
    if known_kind(path) == PARQUET:
        with ParquetRows(path) as parquet:
            rows, size = parquet.rows, parquet.unpacked_bytes
    if size > settings.bytes:
        raise settings.too_much(path, f"{size / 1e9:.1f} GB")
    if rows > settings.rows:
        raise settings.too_much(path, f"{rows:,} rows")


def _check_characters(text: str, place: str) -> None:
    problem = broken_characters(text)
    if problem is not None:
        raise InputError(f"{place} {problem}")


# Brings the rows of a file into the SQLite file, in batches that are each kept or not.


_TURN = 0.2  # seconds between two looks at what another process has read


def load(source: Source, file: DataFile, stop: threading.Event) -> bool:
    """Reads all rows that are not there yet.

    Args:
        source: the file to read.
        file: where its rows are kept.
        stop: ends it after the batch at hand.

    Returns:
        Whether all rows are there; False if it was stopped.

    Raises:
        InputError: a row cannot be read; those before it are kept.
    """
    while not stop.is_set():
        if is_imported(file):
            return True
        with _alone(file.path.with_suffix(".lock")) as is_alone:
            if is_alone:
                try:
                    _read_rows(source, file, stop)
                except InputError as error:
                    _note(file, "message", str(error))
                    raise
                except sqlite3.IntegrityError:
                    is_alone = False  # another process is faster, and there are no locks
                except sqlite3.Error as error:
                    raise InputError(
                        f"cannot keep the rows of {source.path} in {file.path}: {error}; "
                        "make room on this disk, and start again: what was read is kept"
                    ) from error
        stop.wait(0 if is_alone else _TURN)
    return is_imported(file)


def is_imported(file: DataFile) -> bool:
    """Whether all rows are there."""
    with file.reading() as connection:
        found = connection.execute("SELECT value FROM meta WHERE name = 'imported'").fetchone()
    return bool(found[0])


def digest_of(text: str) -> bytes:
    """What stands for a text when rows with the same text are looked up."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _read_rows(source: Source, file: DataFile, stop: threading.Event) -> None:
    with file.reading() as connection:
        there = connection.execute("SELECT coalesce(max(row), 0) FROM rows").fetchone()[0]
    _note(file, "message", "")
    with closing(source.records(there)) as records:
        while not stop.is_set():
            batch: list[Record] = []
            try:
                for record in islice(records, source.settings.batch):
                    batch.append(record)
            finally:  # rows before a damaged one are kept
                there = _keep(source, file, batch, there)
            if len(batch) < source.settings.batch:
                _note(file, "imported", 1)
                return


def _keep(source: Source, file: DataFile, batch: Sequence[Record], there: int) -> int:
    """Keeps rows that follow row ``there``; returns the number of the last."""
    room = source.settings.rows - there
    kept = batch[:room]
    rows = []
    for row, (text, label) in enumerate(kept, start=there + 1):
        rows.append((row, label, not text.strip(), digest_of(text), text))
    with file.transaction() as connection:
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", rows)
        if file.word_index:
            texts = ((row[0], row[-1]) for row in rows)
            connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
        counts = Counter(record.label for record in kept if record.label is not None)
        connection.executemany(
            "INSERT INTO labels VALUES (?, ?) "
            "ON CONFLICT (label) DO UPDATE SET rows = rows + excluded.rows",
            counts.items(),
        )
        show_explained(connection, after=there)
    if len(kept) < len(batch):
        raise source.settings.too_much(source.path, "more rows")
    return there + len(rows)


def _note(file: DataFile, name: str, value: str | int) -> None:
    with file.transaction() as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other process reads this data set; True where the system cannot tell."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield lock(handle) is not False
    finally:
        os.close(handle)
