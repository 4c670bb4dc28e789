"""SQLite: transactions, and what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


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
    return error.sqlite_errorcode & 0xFF in _NO_ROOM
