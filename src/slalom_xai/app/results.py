"""Finished explanations in the store, found by what was asked."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from dataclasses import dataclass
from typing import Any

from slalom_xai import __version__
from slalom_xai.app.store import Store


@dataclass(frozen=True)
class Result:
    """A finished explanation.

    Attributes:
        key: names the question that it answers.
        model: its name on this server.
        fingerprint: of the model's weights.
        settings: of the explanation, as JSON.
        prediction: the model's own output for the target.
        fidelity: the share of what deletions do that it predicts; None where that is unknown.
        file: what ``Explanation.save`` writes.
        view: what the page shows, as JSON.
    """

    key: str
    model: str
    fingerprint: str
    settings: str
    prediction: float
    fidelity: float | None
    file: str
    view: str


def question_key(text: str, text_pair: str | None, fingerprint: str, settings: str) -> str:
    """Names a question: equal for equal texts, weights, settings and versions of this package."""
    asked = json.dumps([text, text_pair, fingerprint, settings, __version__])
    return hashlib.sha256(asked.encode()).hexdigest()[:32]


class Results:
    """The store's explanations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, result: Result) -> None:
        """Keeps a result; one that is there already stays."""
        with self._store.writing() as connection:
            insert(connection, result)

    def known(self, key: str) -> sqlite3.Row | None:
        """A result without its contents; None where there is none."""
        columns = "key, model, fingerprint, settings, prediction, fidelity, created"
        row: sqlite3.Row | None = self._store.connection.execute(
            f"SELECT {columns} FROM explanations WHERE key = ?", (key,)
        ).fetchone()
        return row

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
        return None if row is None else unpacked(row[0])

    def count(self) -> int:
        """How many there are."""
        number: int = self._store.connection.execute("SELECT count(*) FROM explanations").fetchone()[
            0
        ]
        return number


def insert(connection: sqlite3.Connection, result: Result) -> None:
    """Puts a result into the store; one that is there already stays."""
    connection.execute(
        "INSERT OR IGNORE INTO explanations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            result.key,
            time.time(),
            result.model,
            result.fingerprint,
            result.settings,
            result.prediction,
            result.fidelity,
            packed(result.file),
            packed(result.view),
        ),
    )


def packed(content: str) -> bytes:
    """Text as the store keeps it."""
    return zlib.compress(content.encode(), 3)


def unpacked(content: bytes) -> str:
    """The inverse of ``packed``."""
    return zlib.decompress(content).decode()


def as_json(data: Any) -> str:
    """Short JSON without NaN, equal for equal data."""
    return json.dumps(data, allow_nan=False, separators=(",", ":"), sort_keys=True)
