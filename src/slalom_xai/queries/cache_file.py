"""The SQLite file of a cache: keys and answers, in the order in which they were last used.

The file is in WAL mode, so that readers never wait and writers wait only for each other. With
``synchronous=NORMAL`` a transaction that has been committed is in the hands of the system: a kill
of the process loses nothing. Only a machine that loses its power may lose the last ones, and the
file stays whole even then.
"""

from __future__ import annotations

import math
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.system.files import make_private
from slalom_xai.system.transactions import writing

VERSION = 1

_TABLES = """
CREATE TABLE answers (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    answer TEXT NOT NULL,
    used INTEGER NOT NULL
);
CREATE INDEX answers_by_use ON answers (used, number);
"""
_PARAMETERS = 500  # in one statement: every SQLite takes 999
_ROOM = 0.9  # of the bound is kept when answers are removed, so that this happens now and then only
_ADVICE = "delete it, or give another folder for the cache"


class CacheFile:
    """Answers in a file that several threads and processes use at once.

    Args:
        path: of the file; made where there is none, for its owner only.
        most_bytes: the file grows no larger than about this; answers not used for longest go.
        wait: seconds to wait for another process that writes.

    Raises:
        InputError: the file cannot be made or read, or is no cache of this version.
    """

    def __init__(self, path: Path, most_bytes: int, wait: float) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self._wait = wait
        self._lock = threading.RLock()
        self._since_trimmed = 0  # bytes written
        try:
            _make(path)
            self._connection = sqlite3.connect(
                path, timeout=wait, isolation_level=None, check_same_thread=False
            )
        except OSError as error:
            raise InputError(
                f"cannot make the cache {path}: {error.strerror or error}; "
                "give another folder for the cache, or do without one"
            ) from error
        except sqlite3.Error as error:
            raise InputError(f"cannot use the cache {path}: {error}; {_ADVICE}") from error
        self.close = weakref.finalize(self, self._connection.close)
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        """Refuses a file that is not ours, before anything in it is changed."""
        try:
            version = self._one("PRAGMA user_version")
            tables = self._connection.execute("SELECT name FROM sqlite_master").fetchall()
            self._connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as error:
            raise InputError(f"cannot use the cache {self.path}: {error}; {_ADVICE}") from error
        if ("answers",) not in tables:
            raise InputError(f"{self.path} is no cache of answers: {_ADVICE}")
        if version != VERSION:
            raise InputError(
                f"the cache {self.path} has version {version}, but this package reads version "
                f"{VERSION}: {_ADVICE}"
            )

    def find(self, keys: Sequence[bytes], use: int) -> dict[bytes, str]:
        """The answers that are there; ``use`` says from now on when they were last used."""
        found: dict[bytes, str] = {}
        unused: list[bytes] = []
        with self._lock:
            for some in _parts(keys):
                rows = self._connection.execute(
                    f"SELECT key, answer, used FROM answers WHERE key IN ({_marks(some)})", some
                )
                for key, answer, used in rows:
                    found[key] = answer
                    if used < use:
                        unused.append(key)
            if unused:
                self._mark(unused, use)
        return found

    def _mark(self, keys: Sequence[bytes], use: int) -> None:
        """Says that answers were used, if that can be written at once.

        Otherwise they are removed a little sooner than they should be, and nothing else happens.
        """
        try:
            with self._waiting(0), writing(self._connection):
                for some in _parts(keys):
                    self._connection.execute(
                        f"UPDATE answers SET used = ? WHERE key IN ({_marks(some)})", [use, *some]
                    )
        except sqlite3.OperationalError:
            return

    def put(self, answers: Mapping[bytes, str], use: int, *, patiently: bool = True) -> None:
        """Writes all of these answers or none; when this returns, a kill does not lose them.

        Args:
            answers: by key; one that is there is replaced.
            use: larger than in all answers that were used before.
            patiently: wait for a process that writes.

        Raises:
            sqlite3.Error: they cannot be written.
        """
        rows = [(key, answer, use) for key, answer in answers.items()]
        with self._lock, self._waiting(self._wait if patiently else 0):
            with writing(self._connection):
                self._connection.executemany(
                    "INSERT INTO answers (key, answer, used) VALUES (?, ?, ?) ON CONFLICT (key) "
                    "DO UPDATE SET answer = excluded.answer, used = excluded.used",
                    rows,
                )
            self._since_trimmed += sum(len(answer) for answer in answers.values())
            if self._since_trimmed > self.most_bytes // 32:
                self.trim()

    def trim(self) -> None:
        """Removes answers that were not used for longest, while the file is over its bound."""
        self._since_trimmed = 0
        if self.used_bytes() <= self.most_bytes:
            return
        while (used := self.used_bytes()) > _ROOM * self.most_bytes and (count := self.count()):
            too_many = math.ceil(count * (1 - _ROOM * self.most_bytes / used))
            with writing(self._connection):
                self._connection.execute(
                    "DELETE FROM answers WHERE number IN "
                    "(SELECT number FROM answers ORDER BY used, number LIMIT ?)",
                    (too_many,),
                )
        self._give_back()

    def clear(self) -> int:
        """Removes all answers; how many there were."""
        with self._lock:
            with writing(self._connection):
                removed = self._connection.execute("DELETE FROM answers").rowcount
            self._give_back()
        return removed

    def count(self) -> int:
        """How many answers there are."""
        return self._one("SELECT count(*) FROM answers")

    def used_bytes(self) -> int:
        """How large the file is, less what is free in it."""
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return pages * self._one("PRAGMA page_size")

    def next_use(self) -> int:
        """A number larger than those of all answers used so far."""
        return self._one("SELECT coalesce(max(used), 0) + 1 FROM answers")

    def _give_back(self) -> None:
        """Makes the file as small as it can be."""
        self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")

    def _waiting(self, seconds: float) -> _Waiting:
        return _Waiting(self._connection, seconds, self._wait)

    def _one(self, question: str) -> int:
        """The number that a statement gives."""
        with self._lock:
            number: int = self._connection.execute(question).fetchone()[0]
        return number


class _Waiting:
    """While this is open, a statement waits so many seconds for other processes."""

    def __init__(self, connection: sqlite3.Connection, now: float, usually: float) -> None:
        self._connection, self._now, self._usually = connection, now, usually

    def __enter__(self) -> None:
        self._set(self._now)

    def __exit__(self, *_: object) -> None:
        self._set(self._usually)

    def _set(self, seconds: float) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")


def _make(path: Path) -> None:
    """Makes an empty cache, unless there is a file.

    It is made beside its place: another process may make it at the same time. (And a file that is
    there must not be opened and closed here. SQLite would lose its locks on it.)
    """
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    make_private(draft)
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
        _put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _put_in_place(draft: Path, path: Path) -> None:
    """Gives a file its name, unless another process was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except (OSError, NotImplementedError):  # a file system without second names
        if not path.exists():
            os.rename(draft, path)


def _parts(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _PARAMETERS):
        yield keys[start : start + _PARAMETERS]


def _marks(keys: Sequence[bytes]) -> str:
    """A question mark for each of the keys."""
    return ", ".join("?" * len(keys))
