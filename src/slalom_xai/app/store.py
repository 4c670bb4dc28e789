"""The SQLite file that holds jobs and results, and its connections."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slalom_xai.errors import InputError

VERSION = 1

_TABLES = """
CREATE TABLE explanations (
    key TEXT PRIMARY KEY,
    created REAL NOT NULL,
    model TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    settings TEXT NOT NULL,
    prediction REAL NOT NULL,
    fidelity REAL,
    file BLOB NOT NULL,
    view BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    settings TEXT NOT NULL,
    text TEXT NOT NULL,
    text_pair TEXT,
    state TEXT NOT NULL DEFAULT 'queued',
    created REAL NOT NULL,
    finished REAL,
    calls INTEGER NOT NULL DEFAULT 0,
    expected INTEGER NOT NULL DEFAULT 0,
    round INTEGER NOT NULL DEFAULT 0,
    summary TEXT,
    error TEXT,
    key TEXT,
    prediction REAL,
    cached INTEGER NOT NULL DEFAULT 0,
    cancel INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    seen REAL,
    preview BLOB
);
CREATE INDEX jobs_waiting ON jobs (model, state, id);
CREATE INDEX jobs_owned ON jobs (owner) WHERE owner IS NOT NULL;
"""


class Store:
    """One file for jobs and results.

    Several threads and processes may use it: each thread has a connection of its own.

    Args:
        path: of the file; made where there is none.

    Raises:
        InputError: the file cannot be opened, is no store, or is one of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._prepare()
        except OSError as error:
            raise InputError(
                f"cannot make the store {path}: {error.strerror or error}; name another with --store"
            ) from error
        except sqlite3.Error as error:
            raise InputError(
                f"cannot use the store {path}: {error}; name another file with --store"
            ) from error

    def _prepare(self) -> None:
        with self.writing() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == VERSION:
                return
            if version > VERSION:
                raise InputError(
                    f"the store {self.path} has version {version}, but this package reads up to "
                    f"version {VERSION}: update slalom-xai, or name another file with --store"
                )
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables:
                raise InputError(
                    f"{self.path} is another program's database: name another file with --store"
                )
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection, for reading."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            found.row_factory = sqlite3.Row
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = NORMAL")
            self._local.connection = found
        return found

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is kept, or nothing."""
        connection = self.connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def is_full(error: sqlite3.Error) -> bool:
    """Whether there was no room left on the disk."""
    return "full" in str(error) or "disk I/O" in str(error)
