"""Brings the rows of a file into the SQLite file, in batches that are each kept or not.

What was interrupted goes on where it ended. If another process reads the same file, this one waits.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from slalom_xai.app.data.answers import show_explained
from slalom_xai.app.data.file import DataFile
from slalom_xai.app.data.source import Record, Source
from slalom_xai.errors import InputError
from slalom_xai.system.files import lock

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
    with file.writing() as connection:
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
    with file.writing() as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether no other process reads this data set; True where the system cannot tell."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield lock(handle) is not False
    finally:
        os.close(handle)
