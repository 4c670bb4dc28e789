"""Finished explanations in the store, found by what was asked."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from dataclasses import dataclass, fields
from typing import Any

from slalom_xai import __version__
from slalom_xai.app.store.file import DAMAGED, Store
from slalom_xai.system.transactions import Damaged

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
        return None if row is None else unpacked(row[0])

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
            packed(result.file),
            packed(result.view),
        ),
    )


def packed(content: str) -> bytes:
    """Text as the store keeps it."""
    return zlib.compress(content.encode(), 3)


def unpacked(content: bytes) -> str:
    """The inverse of ``packed``."""
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
