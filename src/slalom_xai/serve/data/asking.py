"""Answers one question about rows: which come next, what they show, how many there are."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass
from functools import cached_property

from slalom_xai.serve.data.file import FOREVER, DataSettings, Search
from slalom_xai.serve.data.paging import Place, Question, Snapshot, phases

_UTF8 = 4  # bytes of a character, at most

_SHOWN = f"""
SELECT r.row, substr(CAST(r.text AS BLOB), 1, ?), r.label, p.label, p.probability,
       1 - p.correct, e.fidelity, e.key, r.empty, p.reason
FROM rows AS r
LEFT JOIN predictions AS p ON p.model = ? AND p.row = r.row
LEFT JOIN explained_rows AS e ON e.model = ? AND e.row = r.row AND e.until = {FOREVER}
WHERE r.row IN
"""


@dataclass(frozen=True)
class DataRow:
    """A row as a page shows it.

    Attributes:
        row: its number in the file, from 1.
        text: the beginning of its text.
        label: what the file says; None where it says nothing.
        prediction: the model's label; None where there is none, or none yet.
        probability: of the prediction.
        wrong: whether they differ; None where nobody can tell.
        fidelity: of its last explanation by this model (wide r2).
        key: of that explanation.
        empty: whether the text has no characters but spaces.
        reason: why the model has no prediction.
    """

    row: int
    text: str
    label: str | None
    prediction: str | None
    probability: float | None
    wrong: bool | None
    fidelity: float | None
    key: str | None
    empty: bool
    reason: str | None


@dataclass(frozen=True)
class Page:
    """Some rows of a list.

    Attributes:
        rows: in order.
        next: the cursor of the next page; None after the last row.
        total: rows of the whole list; None where counting them would take long.
    """

    rows: list[DataRow]
    next: str | None
    total: int | None


@dataclass(frozen=True)
class WholeRow:
    """A row with its whole text.

    Attributes:
        row: its number in the file, from 1.
        text: all of it.
        label: what the file says.
    """

    row: int
    text: str
    label: str | None


@dataclass(frozen=True)
class Known:
    """What is known of a model's answers.

    Attributes:
        model: its number; 0, which no model has, if nothing is known of it.
        predicted: rows with predictions.
        wrong: of these, the wrong ones.
        predicted_up_to: all rows up to this one have predictions.
        explained_up_to: all rows up to this one have explanations.
    """

    model: int = 0
    predicted: int = 0
    wrong: int = 0
    predicted_up_to: int = 0
    explained_up_to: int = 0


def known(connection: sqlite3.Connection, fingerprint: str | None) -> Known:
    """What is known of the answers of a model."""
    found = connection.execute(
        "SELECT model, predicted, wrong, predicted_up_to, explained_up_to FROM models "
        "WHERE fingerprint = ?",
        (fingerprint,),
    ).fetchone()
    return Known() if found is None else Known(*found)


def row_count(connection: sqlite3.Connection) -> int:
    """How many rows there are; they have the numbers from 1 on."""
    return int(connection.execute("SELECT coalesce(max(row), 0) FROM rows").fetchone()[0])


class Asking:
    """A question, asked of one state of the file.

    Args:
        connection: in a transaction.
        settings: limits.
        question: which rows, in which order.
        search: what their texts must hold.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        settings: DataSettings,
        question: Question,
        search: Search,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._question = question
        self._search = search
        self._known = known(connection, question.model)

    def places(self, after: Place | None, limit: int) -> list[Place]:
        """The places of the rows that come next.

        Args:
            after: the place of the last row of the page before; None for the first page.
            limit: rows, at most.
        """
        snapshot = self._snapshot() if after is None else after.snapshot
        values = {**self._values(), **asdict(snapshot)}
        found: list[Place] = []
        for number, phase in enumerate(phases(self._question)):
            if len(found) == limit or (after is not None and number < after.phase):
                continue
            keys = () if after is None or number > after.phase else after.keys
            query = phase.query(self._search, few=self._few, after=bool(keys))
            values["limit"] = limit - len(found)
            values.update({f"key{index}": key for index, key in enumerate(keys)})
            for row in self._connection.execute(query, values):
                found.append(Place(number, tuple(row), snapshot))
        return found

    def shown(self, rows: list[int]) -> list[DataRow]:
        """What is shown of rows, in the order given."""
        model = self._known.model
        marks = ", ".join("?" * len(rows))
        values = (_UTF8 * self._settings.excerpt, model, model, *rows)
        shown = {}
        for row, text, *rest in self._connection.execute(f"{_SHOWN} ({marks})", values):
            label, prediction, probability, wrong, fidelity, key, empty, reason = rest
            shown[row] = DataRow(
                row=row,
                # As bytes, because SQLite's texts end at the first character 0; it makes empty
                # ones None.
                text=(text or b"").decode(errors="ignore")[: self._settings.excerpt],
                label=label,
                prediction=prediction,
                probability=probability,
                wrong=None if wrong is None else bool(wrong),
                fidelity=fidelity,
                key=key,
                empty=bool(empty),
                reason=reason,
            )
        return [shown[row] for row in rows]

    def total(self) -> int | None:
        """How many rows there are in all; None where it would take long to count them."""
        question, search = self._question, self._search
        if search:
            if search.parts or question.wrong or question.label is not None:
                return None
            return self._hits if self._hits <= self._settings.counted else None
        if question.wrong:
            return self._wrong_count()
        if question.label is None:
            return row_count(self._connection)
        found = self._connection.execute(
            "SELECT rows FROM labels WHERE label = ?", (question.label,)
        ).fetchone()
        return 0 if found is None else int(found[0])

    def _wrong_count(self) -> int | None:
        if self._question.label is None:
            return self._known.wrong
        most = self._settings.counted
        count = self._count(
            "SELECT 1 FROM predictions WHERE model = :model AND truth = :label AND correct = 0"
        )
        return count if count <= most else None

    @cached_property
    def _hits(self) -> int:
        """Rows with all words, counted up to one more than is allowed."""
        return self._count("SELECT 1 FROM words WHERE words MATCH :words")

    @property
    def _few(self) -> bool:
        return bool(self._search.words) and self._hits <= self._settings.few_hits

    def _count(self, query: str) -> int:
        counting = f"SELECT count(*) FROM ({query} LIMIT {self._settings.counted + 1})"
        return int(self._connection.execute(counting, self._values()).fetchone()[0])

    def _values(self) -> dict[str, object]:
        values: dict[str, object] = {
            "model": self._known.model,
            "label": self._question.label,
            "words": self._search.words,
        }
        values.update({f"part{index}": part for index, part in enumerate(self._search.parts)})
        return values

    def _snapshot(self) -> Snapshot:
        found = self._connection.execute("SELECT value FROM meta WHERE name = 'seq'").fetchone()
        return Snapshot(found[0], self._known.predicted_up_to, self._known.explained_up_to)
