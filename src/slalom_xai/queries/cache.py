"""A cache on disk: answers of models, kept for later runs, other methods and other processes.

The file holds no texts. An answer lies under a hash of what decides it: the model (its fingerprint)
and the row. Answers are JSON, whose numbers come back exactly as they were.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from slalom_xai.errors import InputError
from slalom_xai.system.files import make_private
from slalom_xai.system.sqlite import transaction

# The SQLite file of a cache: keys and answers, in the order in which they were last used.
#
# The file is in WAL mode, so that readers never wait and writers wait only for each other. With
# ``synchronous=NORMAL`` a transaction that has been committed is in the hands of the system: a
# kill of the process loses nothing. Only a machine that loses its power may lose the last ones,
# and the file stays whole even then.


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
            with self._waiting(0), transaction(self._connection):
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
            with transaction(self._connection):
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
            with transaction(self._connection):
                self._connection.execute(
                    "DELETE FROM answers WHERE number IN "
                    "(SELECT number FROM answers ORDER BY used, number LIMIT ?)",
                    (too_many,),
                )
        self._give_back()

    def clear(self) -> int:
        """Removes all answers; how many there were."""
        with self._lock:
            with transaction(self._connection):
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


# A cache on disk: answers of models, kept for later runs, other methods and other processes.


FILE_NAME = "answers.sqlite"
_KEY_BYTES = 16  # of a hash: two among 10^12 answers are equal with a probability of 10^-15


@dataclass(frozen=True)
class CacheSettings:
    """How large a cache may be, and how patient.

    Attributes:
        most_bytes: the largest size of the file by default. An answer of two numbers takes
            less than 200 bytes, so that this holds five million.
        least_bytes: a smaller size would hold hardly anything.
        wait: seconds that a writer waits for another process.
    """

    most_bytes: int = 1_000_000_000
    least_bytes: int = 100_000
    wait: float = 10.0


CACHING = CacheSettings()


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds.

    Attributes:
        path: of its file.
        answers: how many there are.
        bytes: how large the file is.
        most_bytes: how large it may become.
    """

    path: Path
    answers: int
    bytes: int
    most_bytes: int


class AnswerCache:
    """Answers of models in a folder, shared by everybody who uses the folder.

    Args:
        path: the folder; None: the user's own for caches.
        most_bytes: the file grows no larger than about this. Answers that were not used for longest
            make room.
        wait: seconds to wait for another process that writes.

    Raises:
        InputError: the folder cannot be written, or the file in it is no cache of this version.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        most_bytes: int = CACHING.most_bytes,
        wait: float = CACHING.wait,
    ) -> None:
        if not isinstance(most_bytes, int) or most_bytes < CACHING.least_bytes:
            raise InputError(
                f"most_bytes is {most_bytes!r}: give a whole number of at least "
                f"{CACHING.least_bytes}"
            )
        self.folder = _usual_folder() if path is None else Path(path)
        self._file = CacheFile(self.folder / FILE_NAME, most_bytes, wait)

    def opened_for(self, fingerprint: str) -> KeptAnswers:
        """The answers of one model.

        Args:
            fingerprint: another one for every model that may answer differently. For a function it
                is a name of your own, such as "spam filter, version 3".
        """
        if not isinstance(fingerprint, str) or not fingerprint:
            raise InputError(
                f"the fingerprint of a model is {fingerprint!r}: give a text that names the model "
                "and its version"
            )
        return KeptAnswers(self._file, fingerprint)

    def info(self) -> CacheInfo:
        """Where the cache is, and what it holds."""
        file = self._file
        return CacheInfo(file.path, file.count(), file.used_bytes(), file.most_bytes)

    def clear(self) -> int:
        """Removes all answers; returns how many there were."""
        try:
            return self._file.clear()
        except sqlite3.Error as error:
            raise InputError(
                f"cannot clear the cache {self._file.path}: {error}; try again when no other "
                "process uses it"
            ) from error

    def close(self) -> None:
        """Closes the file; done by itself when nobody uses the cache any more."""
        self._file.close()


class KeptAnswers:
    """The answers of one model in a cache: an ``AnswerStore``, for several threads.

    A cache that cannot be written any more (a full disk, another process that does not let go)
    loses nothing: answers stay in memory, and now and then it is tried again to write all of them.

    Attributes:
        hits: answers that were looked for and found.
        misses: those that were not found.
    """

    def __init__(self, file: CacheFile, fingerprint: str) -> None:
        self.path = file.path
        self.hits = 0
        self.misses = 0
        self._file = file
        self._prefix = json.dumps(fingerprint)
        self._lock = threading.Lock()
        self._unsaved: dict[bytes, str] = {}
        self._next_try = 0  # how many of them there are when writing is tried again
        self._unwritable: str | None = None
        self._unreadable: str | None = None
        try:
            self._use = file.next_use()
        except sqlite3.Error as error:
            raise InputError(
                f"cannot read the cache {file.path}: {error}; delete it, or give another folder"
            ) from error

    def find(self, keys: Sequence[str]) -> dict[str, Any]:
        """What is stored under each of these keys that is there: plain JSON values."""
        hashes = {self._hash(key): key for key in keys}
        with self._lock:
            answers: dict[str, Any] = {}
            try:
                found = self._file.find(list(hashes), self._use) | self._unsaved
                for hashed in hashes.keys() & found.keys():
                    answers[hashes[hashed]] = json.loads(found[hashed])
            except (sqlite3.Error, ValueError) as error:  # damaged; those read before it are good
                self._unreadable = str(error)
            self.hits += len(answers)
            self.misses += len(hashes) - len(answers)
        return answers

    def keep(self, key: str, answer: Any) -> None:
        """Stores one answer; when this returns, a kill of this process no longer loses it."""
        self.keep_all({key: answer})

    def keep_all(self, answers: Mapping[str, Any]) -> None:
        """Stores several answers: after a kill, all of them are there or none."""
        written = {self._hash(key): json.dumps(answer) for key, answer in answers.items()}
        with self._lock:
            self._unsaved.update(written)
            if len(self._unsaved) >= self._next_try:
                self._save(patiently=self._unwritable is None)

    def problems(self) -> tuple[str, ...]:
        """What a reader of a result should know: a sentence for each thing that went wrong."""
        found = []
        with self._lock:
            if self._unsaved:
                self._save(patiently=True)
            if self._unsaved:
                found.append(
                    f"The cache {self.path} could not be written ({self._unwritable}): "
                    f"{len(self._unsaved)} answers are not in it. The result is complete."
                )
            if self._unreadable is not None:
                found.append(
                    f"The cache {self.path} could not be read ({self._unreadable}), and the model "
                    "was asked instead. The result is complete."
                )
        return tuple(found)

    def _save(self, *, patiently: bool) -> None:
        """Writes what is not written yet; where that fails, it stays in memory."""
        try:
            self._file.put(self._unsaved, self._use, patiently=patiently)
        except sqlite3.Error as error:
            self._unwritable, self._next_try = str(error), 2 * len(self._unsaved)
            return
        self._unsaved, self._unwritable, self._next_try = {}, None, 0

    def _hash(self, key: str) -> bytes:
        """Where an answer lies: a hash of the model and the row."""
        named = f"{self._prefix}\n{key}".encode("utf-8", "surrogatepass")
        return blake2b(named, digest_size=_KEY_BYTES).digest()


def _usual_folder() -> Path:
    """The folder that ``SLALOM_CACHE`` names, or the package's among the caches of the user."""
    own = os.environ.get("SLALOM_CACHE")
    return Path(own) if own else user_cache_path("slalom-xai", appauthor=False)
