"""Keeps what models say about rows, whether that is wrong, and which rows were explained."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slalom_xai.errors import InputError
from slalom_xai.serve.data.file import FOREVER

_NUMBER = re.compile(r"\+?(\d{1,9})(\.0*)?")
_BOOLEANS = {"false": 0, "true": 1}


class Prediction(NamedTuple):
    """What a model says about a row.

    Attributes:
        row: the number of the row.
        label: None where the model cannot read the text.
        probability: of this label; None where the model has none.
        reason: why the text cannot be read, in one line.
    """

    row: int
    label: str | None
    probability: float | None
    reason: str | None = None


def model_number(connection: sqlite3.Connection, fingerprint: str) -> int:
    """The number of a model; a new one gets the next."""
    connection.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
    found = connection.execute("SELECT model FROM models WHERE fingerprint = ?", (fingerprint,))
    return int(found.fetchone()[0])


def keep_predictions(
    connection: sqlite3.Connection,
    model: int,
    predictions: Iterable[Prediction],
    label_names: Sequence[str],
) -> None:
    """Keeps predictions; the first one for a row stays.

    Args:
        connection: in a transaction.
        model: its number.
        predictions: of rows that are there.
        label_names: the model's labels in order.
    """
    seq = _next_change(connection)
    kept = wrong = 0
    for prediction in predictions:
        found = connection.execute("SELECT label FROM rows WHERE row = ?", (prediction.row,))
        row = found.fetchone()
        if row is None:
            raise InputError(f"a prediction for row {prediction.row}, which is not there")
        entry = _entry(model, seq, prediction, row[0], label_names)
        marks = ", ".join("?" * len(entry))
        if connection.execute(
            f"INSERT OR IGNORE INTO predictions VALUES ({marks})", entry
        ).rowcount:
            kept += 1
            wrong += entry[-1] == 0
    connection.execute(
        "UPDATE models SET predicted = predicted + ?, wrong = wrong + ? WHERE model = ?",
        (kept, wrong, model),
    )
    _move_on(connection, model, "predicted_up_to", "predictions")


def keep_explained(
    connection: sqlite3.Connection,
    model: int,
    digest: bytes,
    key: str,
    fidelity: float | None,
) -> None:
    """Keeps which explanation of a text is the last, for all rows with this text."""
    seq = _next_change(connection)
    connection.execute(
        "INSERT OR REPLACE INTO explained VALUES (?, ?, ?, ?)",
        (model, digest, key, _finite(fidelity)),
    )
    rows = "SELECT row FROM rows WHERE digest = ?"
    connection.execute(
        f"UPDATE explained_rows SET until = ? WHERE model = ? AND until = ? AND row IN ({rows})",
        (seq, model, FOREVER, digest),
    )
    _show(connection, seq, "e.model = ? AND r.digest = ?", (model, digest))
    _move_on(connection, model, "explained_up_to", "explained_rows")


def show_explained(connection: sqlite3.Connection, *, after: int) -> None:
    """Gives new rows the explanations that their texts have already.

    Args:
        connection: in a transaction.
        after: the number of the last row that is not new.
    """
    if connection.execute("SELECT 1 FROM explained LIMIT 1").fetchone():
        _show(connection, _next_change(connection), "r.row > ?", (after,))


def _show(
    connection: sqlite3.Connection, seq: int, where: str, values: tuple[int | bytes, ...]
) -> None:
    connection.execute(
        "INSERT INTO explained_rows (model, row, seq, truth, key, fidelity) "
        "SELECT e.model, r.row, ?, r.label, e.key, e.fidelity "
        f"FROM rows AS r CROSS JOIN explained AS e ON e.digest = r.digest WHERE {where}",
        (seq, *values),
    )


def _entry(
    model: int, seq: int, prediction: Prediction, truth: str | None, names: Sequence[str]
) -> tuple[object, ...]:
    """A line of the table ``predictions``.

    ``sure`` and ``doubt`` are there to sort by, for models without probabilities, too.
    """
    probability = _finite(prediction.probability)
    sure = probability or 0.0
    correct = is_correct(truth, prediction.label, names)
    return (
        model,
        prediction.row,
        seq,
        truth,
        prediction.label,
        probability,
        prediction.reason,
        sure,
        -sure,
        None if correct is None else int(correct),
    )


def _next_change(connection: sqlite3.Connection) -> int:
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'seq'")
    return int(connection.execute("SELECT value FROM meta WHERE name = 'seq'").fetchone()[0])


def _move_on(connection: sqlite3.Connection, model: int, mark: str, table: str) -> None:
    """Moves the mark up to which all rows have entries, so that nobody looks there again."""
    start = connection.execute(f"SELECT {mark} FROM models WHERE model = ?", (model,)).fetchone()[0]
    gap = connection.execute(
        "SELECT row FROM rows AS r WHERE row > ? AND NOT EXISTS "
        f"(SELECT 1 FROM {table} AS t WHERE t.model = ? AND t.row = r.row) ORDER BY row LIMIT 1",
        (start, model),
    ).fetchone()
    if gap is None:
        gap = connection.execute("SELECT max(row) + 1 FROM rows").fetchone()
    connection.execute(f"UPDATE models SET {mark} = ? WHERE model = ?", ((gap[0] or 1) - 1, model))


def _finite(number: float | None) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    return float(number)


def is_correct(truth: str | None, prediction: str | None, names: Sequence[str]) -> bool | None:
    """Whether a prediction says what the file says; None where nobody can tell.

    Labels are equal without regard to case and to spaces around them. A number in the file means
    the one label of the model that has this number in its name ("LABEL_1", "2 stars"), or the label
    at this place, counted from 0, where no name has a number. A label that means none of the
    model's is not compared: a file with other classes is not a file full of mistakes.

    Args:
        truth: the label in the file.
        prediction: the model's label.
        names: the model's labels in order; empty where they are not known.
    """
    if truth is None or prediction is None:
        return None
    if _normalise_label(truth) == _normalise_label(prediction):
        return True
    if not names:
        # A number may stand for any name.
        return None if _number(truth) is not None and _number(prediction) is None else False
    meant = _meant(truth, names)
    if meant is None:
        return None
    return _normalise_label(meant) == _normalise_label(prediction)


def _meant(truth: str, names: Sequence[str]) -> str | None:
    """Which of the model's labels a label of the file means."""
    for name in names:
        if _normalise_label(name) == _normalise_label(truth):
            return name
    number = _number(truth)
    if number is None and len(names) == 2:
        number = _BOOLEANS.get(_normalise_label(truth))
    if number is None:
        return None
    numbers = [[int(found) for found in re.findall(r"\d{1,9}", name)] for name in names]
    if any(numbers):
        having = [name for name, found in zip(names, numbers, strict=True) if found == [number]]
        return having[0] if len(having) == 1 else None
    return names[number] if number < len(names) else None


def _normalise_label(label: str) -> str:
    number = _number(label)
    return label.strip().casefold() if number is None else str(number)


def _number(label: str) -> int | None:
    found = _NUMBER.fullmatch(label.strip())
    return None if found is None else int(found[1])
