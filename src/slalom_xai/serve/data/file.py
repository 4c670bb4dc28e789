"""The SQLite file of a data set: its tables, its indexes, its connections.

``rows`` is what the source file holds. ``predictions`` and ``explained_rows`` hold what models said
and what was explained, by model. Every entry of these has the number of the change it came with
(``seq``), so that a reader who began earlier can go on as if nothing had changed meanwhile. An
entry counts if ``seq <= seen``, and, for explanations, which newer ones replace, ``seen < until``.

Each order in which rows are paged has an index, with and without a label, for all rows and for the
wrong ones only. Its last columns let SQLite decide by the index alone.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slalom_xai.data.tables.formats import StreamLimits
from slalom_xai.errors import InputError
from slalom_xai.system.files import make_private
from slalom_xai.system.sqlite import Damaged, connect, find_damage, is_damaged, transaction

# What a person typed into the search field, as conditions on texts.
#
# Every word must be in the text, in any case. Several words in quotes must follow each other, and
# a star ends a word of which only the beginning is given: ``"not good" awf*``. Nothing else has a
# meaning, so that no search is a mistake.
#
# Words are looked up in an index. What the index does not see as a word is looked for in the
# texts themselves: signs, emoji, and scripts that write no spaces between words.


_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_MOST_TERMS = 20
# Thai to Myanmar, Khmer, Japanese, Chinese and their extensions: written without spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3040-\u30ff\u31f0-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class Search:
    """What texts must hold.

    Attributes:
        words: an expression for FTS5; empty where the index is not needed.
        parts: strings that the texts must hold, in small letters (``str.casefold``).
    """

    words: str
    parts: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.words or self.parts)


def parse_search(search: str, *, word_index: bool, longest: int) -> Search:
    """Understands a search.

    Args:
        search: what was typed.
        word_index: whether there is an index of words; otherwise all are looked for in the texts.
        longest: characters that a search may have.

    Raises:
        InputError: it is too long.
    """
    if len(search) > longest:
        raise InputError(
            f"the search has {len(search)} characters: give at most {longest}, the rarest words"
        )
    words, parts = [], []
    for quoted, single in _TERM.findall(search.replace("\0", " ")):
        term = (quoted or single).strip()
        bare = term.rstrip("*")
        if word_index and _is_indexed(bare):
            star = "*" if single.endswith("*") else ""
            words.append(f'"{bare}"{star}')
        elif bare or term:
            parts.append((bare or term).casefold())
    if len(words) + len(parts) > _MOST_TERMS:
        raise InputError(f"the search has more than {_MOST_TERMS} words: give the rarest of them")
    return Search(" AND ".join(words), tuple(parts))


def holds(text: str, part: str) -> bool:
    """Whether a text holds a part that is in small letters; SQLite calls it."""
    return part in text.casefold()


def _is_indexed(term: str) -> bool:
    """Whether the index of words sees a term as the words it consists of."""
    if _WITHOUT_SPACES.search(term):
        return False
    return any(unicodedata.category(character)[0] in "LN" for character in term)


# The SQLite file of a data set: its tables, its indexes, its connections.


VERSION = 1
FOREVER = 2**63 - 1  # the ``until`` of an explanation that nothing has replaced

_BUSY_SECONDS = 60.0  # how long a writer waits for another
_CACHE_KB = 8000  # of each connection
_STEPS = 10_000  # of SQLite's machine between two looks at the clock

_TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE rows (
    row INTEGER PRIMARY KEY,
    label TEXT,
    empty INTEGER NOT NULL,
    digest BLOB NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX rows_by_label ON rows (label) WHERE label IS NOT NULL;
CREATE INDEX rows_unlabelled ON rows (label) WHERE label IS NULL;
CREATE INDEX rows_by_text ON rows (digest);
CREATE TABLE labels (label TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    model INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    predicted INTEGER NOT NULL DEFAULT 0,
    wrong INTEGER NOT NULL DEFAULT 0,
    predicted_up_to INTEGER NOT NULL DEFAULT 0,
    explained_up_to INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE predictions (
    model INTEGER NOT NULL,
    row INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    truth TEXT,
    label TEXT,
    probability REAL,
    reason TEXT,
    sure REAL NOT NULL,
    doubt REAL NOT NULL,
    correct INTEGER,
    PRIMARY KEY (model, row)
) WITHOUT ROWID;
CREATE TABLE explained (
    model INTEGER NOT NULL,
    digest BLOB NOT NULL,
    key TEXT NOT NULL,
    fidelity REAL,
    PRIMARY KEY (model, digest)
) WITHOUT ROWID;
CREATE TABLE explained_rows (
    model INTEGER NOT NULL,
    row INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    until INTEGER NOT NULL DEFAULT {FOREVER},
    truth TEXT,
    key TEXT NOT NULL,
    fidelity REAL,
    PRIMARY KEY (model, row, seq)
) WITHOUT ROWID;
CREATE INDEX explained_fidelity ON explained_rows (model, fidelity, row, seq, until, truth)
    WHERE fidelity IS NOT NULL;
CREATE INDEX explained_without ON explained_rows (model, row, seq, until, truth)
    WHERE fidelity IS NULL;
CREATE INDEX predictions_unread ON predictions (model, row, seq, truth) WHERE label IS NULL;
CREATE INDEX predictions_unjudged ON predictions (model, row, seq, truth) WHERE correct IS NULL;
"""
_WORDS = """
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = 'rows', content_rowid = 'row', tokenize = 'unicode61 remove_diacritics 2'
)
"""

# The columns by which predictions are sorted, and which of them take part.
ORDERS = {
    "prediction": (("label",), "label IS NOT NULL"),
    "probability": (("sure",), "label IS NOT NULL"),
    "wrong": (("correct", "doubt"), "correct IS NOT NULL"),
}
WRONG_ORDERS = {
    "row": (),
    "label": ("truth",),
    "prediction": ("label",),
    "probability": ("sure",),
    "wrong": ("doubt",),
}


def index_name(order: str, *, wrong: bool, label: bool) -> str:
    """The index of predictions for an order.

    Args:
        order: a key of ``ORDERS``, or of ``WRONG_ORDERS`` for the wrong ones.
        wrong: for wrong predictions only.
        label: for rows of one label only.
    """
    name = f"predictions_by_{order}"
    if label:
        name += "_of_label"
    if wrong:
        name += "_if_wrong"
    return name


def _prediction_indexes() -> Iterator[str]:
    for label in (False, True):
        first = "model, truth" if label else "model"
        for order, (columns, part) in ORDERS.items():
            yield (
                f"CREATE INDEX {index_name(order, wrong=False, label=label)} ON predictions "
                f"({', '.join((first, *columns, 'row', 'seq'))}) WHERE {part}"
            )
        for order, columns in WRONG_ORDERS.items():
            if label and order == "label":
                continue  # rows of one label are in the order of their numbers
            yield (
                f"CREATE INDEX {index_name(order, wrong=True, label=label)} ON predictions "
                f"({', '.join((first, *columns, 'row', 'seq'))}) WHERE correct = 0"
            )


class DataFile:
    """The SQLite file of a data set, and connections to it.

    A connection is used by one thread at a time. Readers never wait; writers wait for each other.

    Args:
        path: of the file; made if it is not there.
        word_index: whether to make an index of the words in a new file.

    Raises:
        InputError: the file cannot be made, or is damaged.
    """

    def __init__(self, path: Path, *, word_index: bool) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._closed = False
        with self._problems():
            make_private(path)
        with self._problems(), self.transaction() as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                _create(connection, word_index=word_index)
            names = connection.execute("SELECT name FROM sqlite_master WHERE name = 'words'")
            self.word_index = names.fetchone() is not None
            secret = connection.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()
            self.secret = bytes(secret[0])

    @contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """A connection that sees the file as it is now, whatever others write meanwhile.

        Args:
            seconds: after which a query is given up; None: never.

        Raises:
            InputError: a query took longer.
            Damaged: the file cannot be read.
        """
        with self._connection() as connection:
            if seconds is not None:
                end = time.monotonic() + seconds
                connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            try:
                connection.execute("BEGIN")
                yield connection
            except sqlite3.DatabaseError as error:
                if is_damaged(error):
                    raise self._damaged() from error
                if "interrupted" not in str(error):
                    raise
                raise InputError(
                    f"this took more than {seconds:g} seconds and was given up: "
                    "search for other words, or sort by row"
                ) from error
            finally:
                connection.set_progress_handler(None, 0)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept together when the block ends, or not at all."""
        with self._write_lock, self._connection() as connection, transaction(connection):
            yield connection

    def check(self) -> None:
        """Reads all pages.

        Raises:
            Damaged: some of them are not what was written.
        """
        with self.reading() as connection:
            if find_damage(connection) is not None:
                raise self._damaged()

    def _damaged(self) -> Damaged:
        return Damaged(
            f"the rows of the data set are damaged: stop the server, remove {self.path.name} "
            "beside its store, and start it again; the table is then read anew"
        )

    def close(self) -> None:
        """Closes all connections; those in use are closed when they are given back."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        finally:
            with self._lock:
                keep = not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, _BUSY_SECONDS)
        try:
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
            connection.create_function("holds", 2, holds, deterministic=True)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _problems(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            self.close()
            raise InputError(
                f"cannot use {self.path}: {error}; remove this file, or make room on its disk, "
                "and the data set is read anew"
            ) from error


def _create(connection: sqlite3.Connection, *, word_index: bool) -> None:
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    for statement in _prediction_indexes():
        connection.execute(statement)
    if word_index:
        try:
            connection.execute(_WORDS)
        except sqlite3.OperationalError as error:
            if "no such module" not in str(error):  # this SQLite has no FTS5
                raise
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        [("secret", secrets.token_bytes(32)), ("seq", 0), ("imported", 0), ("message", "")],
    )
    connection.execute(f"PRAGMA user_version = {VERSION}")


# What a data set may be, and how it is kept.


@dataclass(frozen=True)
class DataSettings(StreamLimits):
    """Limits of a data set, and sizes of the work on it.

    Attributes:
        bytes: of a file, and of what is read from it. A larger file is refused before anything is
            read; one that is packed so well that its size does not show is stopped there.
        rows: of a file. A Parquet file with more is refused before anything is read; others do not
            say how many they have, and are stopped there.
        row_bytes: of one row of a text file. A longer one is damaged: a quote was not closed.
        label: characters of a label. A longer one is a text: the wrong column was named.
        batch: rows that are read and kept at once.
        excerpt: characters of a text that a page of rows shows.
        page: rows of a page, at most.
        search: characters of a search, at most.
        few_hits: if a search finds so many rows or fewer, they are sorted; if it finds more, the
            sorted rows are gone through until the page is full. Both take milliseconds here.
        counted: rows of a search that are counted, at most.
        seconds: for a page; a search that takes longer is given up.
        word_index: whether words are indexed, where this SQLite can. Without it, the file has about
            half the size, and a search reads all texts.
    """

    bytes: int = 4 << 30
    rows: int = 5_000_000
    row_bytes: int = 16 << 20
    label: int = 200
    batch: int = 500
    excerpt: int = 300
    page: int = 200
    search: int = 500
    few_hits: int = 5_000
    counted: int = 10_000
    seconds: float = 20.0
    word_index: bool = True

    def too_much(self, path: Path, what: str) -> InputError:
        """The error for a file that is too large.

        Args:
            path: the file.
            what: it has.
        """
        return InputError(
            f"{path} has {what}, but a data set may have up to {self.rows:,} rows and "
            f"{self.bytes / 1e9:.1f} GB: give a part of it"
        )


DATA_SETTINGS = DataSettings()
