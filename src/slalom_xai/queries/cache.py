"""A cache on disk: answers of models, kept for later runs, other methods and other processes.

The file holds no texts. An answer lies under a hash of what decides it: the model (its fingerprint)
and the row. Answers are JSON, whose numbers come back exactly as they were.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from slalom_xai.errors import InputError
from slalom_xai.queries.cache_file import CacheFile

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
