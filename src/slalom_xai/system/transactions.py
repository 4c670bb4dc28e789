"""SQLite: transactions, and what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNDECODABLE = "Could not decode"  # Python's own error, which has no code


class Damaged(sqlite3.DatabaseError):
    """A file does not hold what was written to it; the message says what to do, for a person."""


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
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


def _code(error: sqlite3.Error) -> int:
    """SQLite's own number of an error; 0 where the error is Python's."""
    return getattr(error, "sqlite_errorcode", 0)
