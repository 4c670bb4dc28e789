"""The SQLite file that holds jobs and results, and its connections."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.system.files import make_private
from slalom_xai.system.transactions import writing

VERSION = 1

_WAIT = 30.0  # seconds that a writer waits for another
_TABLES = """
CREATE TABLE explanations (
    key TEXT PRIMARY KEY,
    created REAL NOT NULL,
    model TEXT NOT NULL,
    settings TEXT NOT NULL,
    summary TEXT NOT NULL,
    calls INTEGER NOT NULL,
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
    attempts INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    seen REAL,
    preview BLOB
);
CREATE INDEX jobs_by_state ON jobs (model, state, id);
CREATE INDEX jobs_owned ON jobs (owner) WHERE owner IS NOT NULL;
"""


class Store:
    """One file for jobs and results.

    Several threads and processes may use it: each thread has a connection of its own.

    Args:
        path: of the file; made where there is none, for its owner only.

    Raises:
        InputError: the file cannot be opened, is no store, or is one of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            make_private(path)
            self._check()
            with self.writing() as connection:
                _make_tables(connection)
        except OSError as error:
            raise InputError(
                f"cannot make the store {path}: {error.strerror or error}; "
                "name another with --store"
            ) from error
        except sqlite3.Error as error:
            raise InputError(
                f"cannot use the store {path}: {error}; name another file with --store, "
                "or make room on its disk"
            ) from error

    def _check(self) -> None:
        """Refuses a file that is not ours, before anything in it is changed."""
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if tables and ("explanations",) not in tables:
            raise InputError(
                f"{self.path} is another program's database: name another file with --store"
            )
        if version > VERSION:
            raise InputError(
                f"the store {self.path} has version {version}, but this package reads up to "
                f"version {VERSION}: update slalom-xai, or name another file with --store"
            )

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection, for reading."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
            found.row_factory = sqlite3.Row
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = NORMAL")
            self._local.connection = found
        return found

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is kept, or nothing."""
        with writing(self.connection) as connection:
            yield connection

    def changes(self) -> int:
        """A number that is another one after others have written to the file."""
        number: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return number


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
