"""SQLite, as every file of the package uses it: connections, transactions, what errors mean.

The files differ in how threads share them, which is left to each: the answer cache has one
connection behind a lock, the server's store one for each thread, and a data set a pool, whose
readers see the file as it was when they began.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNDECODABLE = "Could not decode"  # Python's own error, which has no code


class Damaged(sqlite3.DatabaseError):
    """A file does not hold what was written to it; the message says what to do, for a person."""


def connect(path: Path, wait: float) -> sqlite3.Connection:
    """A connection to a file of ours, whose readers and writer work side by side.

    Args:
        path: of the file.
        wait: seconds that a writer waits for another.
    """
    connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        _keep_a_log(connection, wait)
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A transaction: all of it is kept, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself where a disk is full
            connection.execute("ROLLBACK")
        raise


def has_no_room(error: sqlite3.Error) -> bool:
    """Whether the disk is full, or cannot be written for another reason."""
    return _code(error) & 0xFF in _NO_ROOM and not is_damaged(error)


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether a file has pages or contents that SQLite cannot read."""
    code = _code(error)
    known = code & 0xFF in _DAMAGED or code == sqlite3.SQLITE_IOERR_SHORT_READ
    return known or isinstance(error, Damaged) or str(error).startswith(_UNDECODABLE)


def find_damage(connection: sqlite3.Connection) -> str | None:
    """The first thing that is wrong with the pages of a file, in one line; reads all of them."""
    found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return None if found == "ok" else " ".join(found.split())[:200]


def _keep_a_log(connection: sqlite3.Connection, wait: float) -> None:
    """Switches the log on; two processes may try this at once, and SQLite does not wait here."""
    end = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _code(error: sqlite3.Error) -> int:
    """SQLite's own number of an error; 0 where the error is Python's."""
    return getattr(error, "sqlite_errorcode", 0)
