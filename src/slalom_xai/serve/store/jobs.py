"""Jobs in the store: what waits, who works on what, and what became of it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from slalom_xai.serve.store.file import (
    Known,
    Result,
    Store,
    insert,
    pack,
    read_settings,
    unpack,
)

ENDED = ("done", "failed", "cancelled")
_PLAIN = (
    *("id", "state", "model", "created", "finished", "calls", "expected", "round"),
    *("summary", "error", "key", "prediction", "predicted", "probability", "fingerprint"),
    *("text", "text_pair"),
)
_COLUMNS = ", ".join((*_PLAIN, "cached", "settings", "bound"))
_QUEUED = "model = ? AND state = 'queued' AND bound = ?"
_SHOWN = 200  # characters of a text in a list
_LEFT = "its worker ended {attempts} times while explaining this text: try a shorter text"
_OTHER = (
    "the model of this name is another one than when this was asked (other weights, another "
    "folder, precision or labels), and nobody has that one any more: ask again"
)
_FORGOTTEN = 7 * 86_400.0  # seconds after which a worker without a sign is no longer listed


class QueueFull(Exception):
    """As many jobs wait for a model as may."""


@dataclass(frozen=True)
class Bound:
    """Which model a job is for: names are given anew at every start, and by every server.

    Attributes:
        model: its name.
        bound: what it is loaded from, and how.
        fingerprint: of its weights; None where they are not loaded yet.
    """

    model: str
    bound: str
    fingerprint: str | None = None


@dataclass(frozen=True)
class Task:
    """A job as a worker sees it."""

    id: int
    text: str
    text_pair: str | None
    settings: str


class Jobs:
    """The store's jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self, model: Bound, text: str, text_pair: str | None, settings: str, *, most: int
    ) -> int:
        """Puts a job into the queue of a model; returns its id.

        Raises:
            QueueFull: ``most`` jobs wait already.
        """
        with self._store.transaction() as connection:
            if _count_waiting(connection, model.model, model.bound) >= most:
                raise QueueFull
            return _insert_job(connection, model, text, text_pair, settings)

    def add_answered(
        self, model: Bound, text: str, text_pair: str | None, settings: str, result: Known
    ) -> int:
        """A job that is done from the beginning, because the store knows the answer."""
        with self._store.transaction() as connection:
            job = _insert_job(connection, model, text, text_pair, settings)
            _finish(connection, job, result, cached=True)
        return job

    def find(self, job: int) -> dict[str, Any] | None:
        """A job for the page, with its whole text."""
        row = self._store.connection.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job,)
        ).fetchone()
        return None if row is None else self._shown(row)

    def recent(self, limit: int, before: int | None) -> list[dict[str, Any]]:
        """Jobs, the newest first, with shortened texts.

        Args:
            limit: how many at most.
            before: only jobs with smaller ids.
        """
        if before is None:
            before = 2**62
        rows = self._store.connection.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE id < ? ORDER BY id DESC LIMIT ?", (before, limit)
        )
        return [_shorten_texts(self._shown(row)) for row in rows]

    def _shown(self, row: sqlite3.Row) -> dict[str, Any]:
        ahead = None
        if row["state"] == "queued":
            ahead = self._store.connection.execute(
                f"SELECT count(*) FROM jobs WHERE {_QUEUED} AND id < ?",
                (row["model"], row["bound"], row["id"]),
            ).fetchone()[0]
        shown = {name: row[name] for name in _PLAIN} | read_settings(row["settings"])
        return shown | {"ahead": ahead, "cached": bool(row["cached"])}

    def preview(self, job: int) -> str | None:
        """The page's data of the last preliminary result."""
        row = self._store.connection.execute(
            "SELECT preview FROM jobs WHERE id = ?", (job,)
        ).fetchone()
        return None if row is None or row[0] is None else unpack(row[0])

    def cancel(self, job: int) -> None:
        """Ends a job that waits or is under way; its worker sees it at the next step."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'cancelled', finished = ?, owner = NULL, preview = NULL "
                "WHERE id = ? AND state IN ('queued', 'running')",
                (time.time(), job),
            )

    def counts(self) -> dict[tuple[str, str], int]:
        """How many jobs there are, by the name of their model and by state."""
        rows = self._store.connection.execute(
            "SELECT model, state, count(*) FROM jobs GROUP BY model, state"
        ).fetchall()
        return {(row[0], row[1]): row[2] for row in rows}

    def open_counts(self, model: Bound) -> dict[str, int]:
        """How many jobs wait for a model, and how many are under way, by state."""
        rows = self._store.connection.execute(
            "SELECT state, count(*) FROM jobs WHERE model = ? AND bound = ? "
            "AND state IN ('queued', 'running') GROUP BY state",
            (model.model, model.bound),
        ).fetchall()
        return {row[0]: row[1] for row in rows}

    # What workers do.

    def claim(self, model: Bound, owner: str, most: int) -> list[Task]:
        """Takes the job that waits longest, and others that can be asked in one list with it.

        Only jobs that were asked of this very model are taken. From here on they are bound to its
        weights. A job whose worker died is taken alone, so that it takes no other job down with it.
        """
        own = f"{_QUEUED} AND (fingerprint IS NULL OR fingerprint = ?)"
        of_model = (model.model, model.bound, model.fingerprint)
        with self._store.transaction() as connection:
            first = connection.execute(
                "SELECT id, attempts, settings, text_pair IS NULL FROM jobs "
                f"WHERE {own} ORDER BY id LIMIT 1",
                of_model,
            ).fetchone()
            if first is None:
                return []
            if first["attempts"] > 0:
                most = 1
            rows = connection.execute(
                f"SELECT id, text, text_pair, settings FROM jobs WHERE {own} "
                "AND id >= ? AND attempts = ? AND settings = ? "
                "AND (text_pair IS NULL) = ? ORDER BY id LIMIT ?",
                (*of_model, *first, most),
            ).fetchall()
            tasks = [Task(*row) for row in rows]
            connection.executemany(
                "UPDATE jobs SET state = 'running', owner = ?, seen = ?, attempts = attempts + 1, "
                "fingerprint = ?, calls = 0, expected = 0, round = 0, preview = NULL WHERE id = ?",
                [(owner, time.time(), model.fingerprint, task.id) for task in tasks],
            )
        return tasks

    def still_wanted(self, ids: Sequence[int], owner: str) -> set[int]:
        """Which of a worker's jobs nobody has cancelled or taken away."""
        marks = ",".join("?" * len(ids))
        rows = self._store.connection.execute(
            f"SELECT id FROM jobs WHERE owner = ? AND id IN ({marks})", (owner, *ids)
        ).fetchall()
        return {row[0] for row in rows}

    def seen(self, owner: str) -> None:
        """A worker is alive."""
        with self._store.transaction() as connection:
            connection.execute("UPDATE jobs SET seen = ? WHERE owner = ?", (time.time(), owner))

    def progress(self, ids: Sequence[int], calls: int, expected: int) -> None:
        """How far the work is."""
        with self._store.transaction() as connection:
            connection.executemany(
                "UPDATE jobs SET calls = ?, expected = ? WHERE id = ? AND state = 'running'",
                [(calls, expected, job) for job in ids],
            )

    def show_round(self, job: int, result: Known, view: str) -> None:
        """A preliminary result is there."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET preview = ?, summary = ?, prediction = ?, predicted = ?, "
                "probability = ?, round = round + 1 WHERE id = ? AND state = 'running'",
                (
                    pack(view),
                    result.summary,
                    result.prediction,
                    result.predicted,
                    result.probability,
                    job,
                ),
            )

    def finish(self, job: int, result: Result) -> None:
        """The result and the end of its job, in one step; the result of a cancelled job is kept."""
        with self._store.transaction() as connection:
            insert(connection, result)
            _finish(connection, job, result, cached=False)

    def finish_known(self, job: int, result: Known) -> None:
        """The end of a job whose answer somebody else has found."""
        with self._store.transaction() as connection:
            _finish(connection, job, result, cached=True)

    def fail(self, job: int, error: str) -> None:
        """The end of a job without a result."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE jobs SET state = 'failed', error = ?, finished = ?, owner = NULL, "
                "preview = NULL WHERE id = ? AND state = 'running'",
                (error, time.time(), job),
            )

    def hand_back(self, owner: str, *, most: int, fault: bool = True) -> int:
        """Puts the jobs of a worker that is gone back into the queue; returns how many.

        Args:
            owner: the worker.
            most: attempts after which a job is given up.
            fault: whether the attempt counts; not where the worker was told to stop.
        """
        with self._store.transaction() as connection:
            if not fault:
                connection.execute(
                    "UPDATE jobs SET attempts = attempts - 1 WHERE owner = ?", (owner,)
                )
            return _requeue(connection, "owner = ?", owner, most)

    def hand_back_lost(self, *, before: float, most: int) -> int:
        """Puts jobs back whose workers have given no sign since a time; returns how many."""
        with self._store.transaction() as connection:
            return _requeue(connection, "seen < ?", before, most)

    # Which models there are, on all servers that share the store.

    def sign_on(self, owners: dict[str, Bound]) -> None:
        """Workers, by their names in the store, are there: they load a model, or have loaded it."""
        now = time.time()
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM workers WHERE seen < ?", (now - _FORGOTTEN,))
            connection.executemany(
                "INSERT INTO workers (owner, model, bound, seen) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen",
                [(owner, each.model, each.bound, now) for owner, each in owners.items()],
            )

    def has_loaded(self, owner: str, model: Bound) -> None:
        """A worker knows its weights now, and with them the jobs that waited for them."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE workers SET fingerprint = ? WHERE owner = ?", (model.fingerprint, owner)
            )
            connection.execute(
                f"UPDATE jobs SET fingerprint = ? WHERE {_QUEUED} AND fingerprint IS NULL",
                (model.fingerprint, model.model, model.bound),
            )

    def fail_unmatched(self, names: Collection[str], *, since: float) -> int:
        """Ends jobs for models of these names that no worker has; returns how many.

        Args:
            names: of models; jobs of others may wait for a server that has them.
            since: only workers that gave a sign after this time count.
        """
        marks = ",".join("?" * len(names))
        with self._store.transaction() as connection:
            return connection.execute(
                "UPDATE jobs SET state = 'failed', error = ?, finished = ? "
                f"WHERE state = 'queued' AND model IN ({marks}) AND NOT EXISTS ("
                "SELECT 1 FROM workers AS w WHERE w.model = jobs.model AND w.bound = jobs.bound "
                "AND w.seen >= ? AND (w.fingerprint IS NULL OR jobs.fingerprint IS NULL "
                "OR w.fingerprint = jobs.fingerprint))",
                (_OTHER, time.time(), *names, since),
            ).rowcount


def _insert_job(
    connection: sqlite3.Connection, model: Bound, text: str, text_pair: str | None, settings: str
) -> int:
    cursor = connection.execute(
        "INSERT INTO jobs (model, bound, fingerprint, settings, text, text_pair, created) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (model.model, model.bound, model.fingerprint, settings, text, text_pair, time.time()),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _count_waiting(connection: sqlite3.Connection, model: str, bound: str) -> int:
    counted = connection.execute(f"SELECT count(*) FROM jobs WHERE {_QUEUED}", (model, bound))
    return int(counted.fetchone()[0])


def _finish(connection: sqlite3.Connection, job: int, result: Known, *, cached: bool) -> None:
    connection.execute(
        "UPDATE jobs SET state = 'done', key = ?, prediction = ?, predicted = ?, probability = ?, "
        "summary = ?, calls = ?, expected = ?, cached = ?, finished = ?, owner = NULL, "
        "preview = NULL WHERE id = ? AND state IN ('queued', 'running')",
        (
            result.key,
            result.prediction,
            result.predicted,
            result.probability,
            result.summary,
            result.calls,
            result.calls,
            int(cached),
            time.time(),
            job,
        ),
    )


def _requeue(connection: sqlite3.Connection, which: str, value: str | float, most: int) -> int:
    running = f"state = 'running' AND {which}"
    connection.execute(
        f"UPDATE jobs SET state = 'failed', owner = NULL, finished = ?, error = ? "
        f"WHERE {running} AND attempts >= ?",
        (time.time(), _LEFT.format(attempts=most), value, most),
    )
    return connection.execute(
        f"UPDATE jobs SET state = 'queued', owner = NULL WHERE {running}", (value,)
    ).rowcount


def _shorten_texts(job: dict[str, Any]) -> dict[str, Any]:
    for part in ("text", "text_pair"):
        if job[part] is not None and len(job[part]) > _SHOWN:
            job[part] = job[part][: _SHOWN - 1] + "…"
    return job
