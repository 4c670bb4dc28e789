"""The SQLite file that holds jobs and results, and its connections."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from slalom_xai import __version__
from slalom_xai.errors import InputError
from slalom_xai.system.files import make_private
from slalom_xai.system.sqlite import Damaged, connect, find_damage, is_damaged, transaction

_WAIT = 30.0  # seconds that a writer waits for another
_FIRST = """
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
# Jobs and results of an earlier version are bound to no model.
_BOUND = """
ALTER TABLE explanations ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE explanations ADD COLUMN predicted TEXT;
ALTER TABLE explanations ADD COLUMN probability REAL;
ALTER TABLE jobs ADD COLUMN bound TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN fingerprint TEXT;
ALTER TABLE jobs ADD COLUMN predicted TEXT;
ALTER TABLE jobs ADD COLUMN probability REAL;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_by_state ON jobs (model, state, bound, id);
CREATE TABLE workers (
    owner TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    bound TEXT NOT NULL,
    fingerprint TEXT,
    seen REAL NOT NULL
) WITHOUT ROWID
"""
CHANGES = (_FIRST, _BOUND)  # each makes the next version of the tables
VERSION = len(CHANGES)
DAMAGED = (
    "the store of this server is damaged: stop the server, and name another file with --store, "
    "or remove the damaged one"
)


class Store:
    """One file for jobs and results.

    Several threads and processes may use it: each thread has a connection of its own.

    Args:
        path: of the file; made where there is none, for its owner only.
        look: whether to look for damage, which reads the whole file.

    Raises:
        InputError: the file cannot be opened, is damaged or no store, or is one of a newer version.
    """

    def __init__(self, path: Path, *, look: bool = True) -> None:
        self.path = path
        self._local = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            make_private(path)
            self._check(look=look)
            with self.transaction() as connection:
                _make_tables(connection)
        except OSError as error:
            raise InputError(
                f"cannot make the store {path}: {error.strerror or error}; "
                "name another with --store"
            ) from error
        except sqlite3.Error as error:
            if is_damaged(error) and error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise self._damaged(str(error)) from error
            raise InputError(
                f"cannot use the store {path}: {error}; name another file with --store, "
                "or make room on its disk"
            ) from error

    def _check(self, *, look: bool) -> None:
        """Refuses a file that is not ours, before anything in it is changed."""
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
            damage = find_damage(connection) if look else None
        if tables and ("explanations",) not in tables:
            raise InputError(
                f"{self.path} is another program's database: name another file with --store"
            )
        if version > VERSION:
            raise InputError(
                f"the store {self.path} has version {version}, but this package reads up to "
                f"version {VERSION}: update slalom-xai, or name another file with --store"
            )
        if damage is not None:
            raise self._damaged(damage)

    def _damaged(self, damage: str) -> InputError:
        return InputError(
            f"the store {self.path} is damaged ({damage}): name another file with --store, or "
            "remove this one and its -wal and -shm, and what was explained is explained anew"
        )

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection, for reading."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = connect(self.path, _WAIT)
            found.row_factory = sqlite3.Row
            self._local.connection = found
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is kept, or nothing."""
        with transaction(self.connection) as connection:
            yield connection

    def changes(self) -> int:
        """A number that is another one after others have written to the file."""
        number: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return number


def _make_tables(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for change in CHANGES[version:]:
        for statement in change.split(";"):
            connection.execute(statement)
    if version != VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")


# Finished explanations in the store, found by what was asked.


SETTINGS = ("method", "granularity", "target", "removal", "budget", "seed")


@dataclass(frozen=True)
class Known:
    """A finished explanation without its contents.

    Attributes:
        key: names the question that it answers.
        model: its name on the server that it was made by.
        fingerprint: of this model; empty where the store was made before it was kept.
        settings: of the explanation, as JSON.
        summary: in one line.
        calls: of the model.
        prediction: the model's own output for the target.
        predicted: the class that the model predicts; None where it chooses none of several.
        probability: of this class.
        fidelity: the share of what deletions do that it predicts; None where that is unknown.
    """

    key: str
    model: str
    fingerprint: str
    settings: str
    summary: str
    calls: int
    prediction: float
    predicted: str | None
    probability: float | None
    fidelity: float | None


@dataclass(frozen=True)
class Result(Known):
    """A finished explanation.

    Attributes:
        file: what ``Explanation.save`` writes.
        view: what the page shows, as JSON.
    """

    file: str
    view: str


_KNOWN = tuple(each.name for each in fields(Known))


def question_key(text: str, text_pair: str | None, fingerprint: str, settings: str) -> str:
    """Names a question: equal for equal texts, weights, settings and versions of this package."""
    asked = json.dumps([text, text_pair, fingerprint, settings, __version__])
    return hashlib.sha256(asked.encode()).hexdigest()[:32]


class Results:
    """The store's explanations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def known(self, key: str) -> Known | None:
        """A result without its contents; None where there is none."""
        row = self._store.connection.execute(
            f"SELECT {', '.join(_KNOWN)} FROM explanations WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else Known(*row)

    def file(self, key: str) -> str | None:
        """What ``Explanation.save`` writes; None for an unknown key."""
        return self._content("file", key)

    def view(self, key: str) -> str | None:
        """What the page shows, as JSON; None for an unknown key."""
        return self._content("view", key)

    def _content(self, column: str, key: str) -> str | None:
        row = self._store.connection.execute(
            f"SELECT {column} FROM explanations WHERE key = ?", (key,)
        ).fetchone()
        return None if row is None else unpack(row[0])

    def count(self) -> int:
        """How many there are."""
        counted = self._store.connection.execute("SELECT count(*) FROM explanations")
        return int(counted.fetchone()[0])


def insert(connection: sqlite3.Connection, result: Result) -> None:
    """Puts a result into the store; one that is there already stays."""
    connection.execute(
        f"INSERT OR IGNORE INTO explanations ({', '.join(_KNOWN)}, created, file, view) "
        f"VALUES ({', '.join('?' * len(_KNOWN))}, ?, ?, ?)",
        (
            *(getattr(result, name) for name in _KNOWN),
            time.time(),
            pack(result.file),
            pack(result.view),
        ),
    )


def pack(content: str) -> bytes:
    """Text as the store keeps it."""
    return zlib.compress(content.encode(), 3)


def unpack(content: bytes) -> str:
    """The inverse of ``pack``."""
    try:
        return zlib.decompress(content).decode()
    except (zlib.error, ValueError, TypeError) as error:
        raise Damaged(DAMAGED) from error


def read_settings(settings: str) -> dict[str, Any]:
    """The settings of a job or a result, as they were asked for."""
    try:
        found = json.loads(settings)
        return {name: found[name] for name in SETTINGS}
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(DAMAGED) from error


def as_json(data: Any) -> str:
    """Short JSON without NaN, equal for equal data."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"), sort_keys=True)
