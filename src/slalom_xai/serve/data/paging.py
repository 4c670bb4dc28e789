"""Which rows come next, in any order, without counting those before.

A page begins after the last row of the one before it (keyset paging), so that the thousandth page
costs as much as the first. Rows in one order come in up to three phases: those with a value to sort
by, those for which the model gave none, and those that it has not seen yet. The last two are in the
order of the file.

A cursor holds the phase, the values of the last row, and the number of the last change that the
first page knew. Predictions and explanations that came later count as not there, so that no row
moves from one side of the cursor to the other. The cursor is signed, together with the question it
belongs to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import astuple, dataclass

from slalom_xai.errors import InputError, one_of
from slalom_xai.serve.data.file import ORDERS, WRONG_ORDERS, Search, index_name

SORTS = ("row", "label", "prediction", "probability", "wrong", "fidelity")
OF_A_MODEL = SORTS[2:]

_SIGNATURE = 16  # bytes
_LONGEST_CURSOR = 8192  # characters

_PREDICTED = "EXISTS (SELECT 1 FROM predictions AS p WHERE p.model = :model AND p.row = t.row"
_EXPLAINED = "EXISTS (SELECT 1 FROM explained_rows AS e WHERE e.model = :model AND e.row = t.row"


@dataclass(frozen=True)
class Question:
    """Which rows are asked for, and in which order.

    Attributes:
        model: the fingerprint of a model; None where none is chosen.
        sort: one of ``SORTS``.
        descending: the other way round; rows without a value stay at the end.
        search: as it was typed.
        label: only rows with this label in the file; None for all.
        wrong: only rows that the model gets wrong.
    """

    model: str | None = None
    sort: str = "row"
    descending: bool = False
    search: str = ""
    label: str | None = None
    wrong: bool = False

    def check(self) -> None:
        """Refuses a question that cannot be answered.

        Raises:
            InputError: the order is unknown, or needs a model.
        """
        if self.sort not in SORTS:
            raise one_of("sort", self.sort, SORTS)
        if self.model is None and (self.wrong or self.sort in OF_A_MODEL):
            what = "only wrong rows" if self.wrong else f"rows by {self.sort}"
            raise InputError(f"{what} can be shown for a model only: choose a model")


@dataclass(frozen=True)
class Snapshot:
    """What the first of several pages knew.

    Attributes:
        seen: the number of the last change.
        predicted_up_to: all rows up to this one had predictions.
        explained_up_to: all rows up to this one had explanations.
    """

    seen: int
    predicted_up_to: int
    explained_up_to: int


@dataclass(frozen=True)
class Place:
    """Where a page ended.

    Attributes:
        phase: the number of the phase.
        keys: what the last row was sorted by; its number comes last.
        snapshot: what the first page knew.
    """

    phase: int
    keys: tuple[str | float | int, ...]
    snapshot: Snapshot


@dataclass(frozen=True)
class Phase:
    """Some of the rows, in one order, by one index.

    Attributes:
        table: that has the order; it has a column ``row``.
        index: of this table; None for that of its rows.
        keys: the columns to sort by; the last one is ``row``.
        where: conditions on the table, called ``t``.
        descending: the order of all keys.
    """

    table: str
    index: str | None
    keys: tuple[str, ...]
    where: tuple[str, ...]
    descending: bool

    def query(self, search: Search, *, few: bool, after: bool) -> str:
        """A query for the keys of the rows that come next.

        Args:
            search: what the texts must hold.
            few: whether so few rows have the words that they may be sorted.
            after: whether there are keys to begin after, ``:key0`` and so on.
        """
        source = f"{self.table} AS t"
        keys = [f"t.{key}" for key in self.keys]
        where = list(self.where)
        if search.words and (few or self.keys == ("row",)):
            source = f"words CROSS JOIN {source} ON t.row = words.rowid"
            keys[-1] = "words.rowid"  # the index of words is in this order
            where.insert(0, "words MATCH :words")
        else:
            if self.index is not None:
                source += f" INDEXED BY {self.index}"
            if search.words:
                where.append("t.row IN (SELECT rowid FROM words WHERE words MATCH :words)")
        for number in range(len(search.parts)):
            where.append(
                "EXISTS (SELECT 1 FROM rows AS r "
                f"WHERE r.row = t.row AND holds(r.text, :part{number}))"
            )
        if after:
            sign = "<" if self.descending else ">"
            values = ", ".join(f":key{number}" for number in range(len(keys)))
            where.append(f"({', '.join(keys)}) {sign} ({values})")
        direction = "DESC" if self.descending else "ASC"
        return (
            f"SELECT {', '.join(keys)} FROM {source} WHERE {' AND '.join(where) or '1'} "
            f"ORDER BY {', '.join(f'{key} {direction}' for key in keys)} LIMIT :limit"
        )


def phases(question: Question) -> list[Phase]:
    """The phases of a question, one after the other."""
    sort = question.sort
    if sort == "label" and question.label is not None:
        sort = "row"  # all have the same
    if question.wrong and sort in WRONG_ORDERS:
        return [_wrong(question, sort)]
    if sort == "fidelity":
        return _by_fidelity(question)
    if sort in ORDERS:
        return _by_prediction(question, sort)
    if sort == "label":
        return [
            Phase(
                "rows",
                "rows_by_label",
                ("label", "row"),
                ("t.label IS NOT NULL",),
                question.descending,
            ),
            Phase("rows", "rows_unlabelled", ("row",), ("t.label IS NULL",), False),
        ]
    return [_rows(question, (), question.descending)]


def _rows(question: Question, where: tuple[str, ...], descending: bool) -> Phase:
    """Rows of the file in their order."""
    if question.label is None:
        return Phase("rows", None, ("row",), where, descending)
    where = ("t.label = :label", *where)
    return Phase("rows", "rows_by_label", ("row",), where, descending)


def _wrong(question: Question, sort: str, *where: str) -> Phase:
    """Rows that the model gets wrong."""
    index = index_name(sort, wrong=True, label=question.label is not None)
    common = _entries(question, "t.correct = 0", *where)
    keys = (*WRONG_ORDERS[sort], "row")
    return Phase("predictions", index, keys, common, question.descending and not where)


def _by_prediction(question: Question, sort: str) -> list[Phase]:
    columns, part = ORDERS[sort]
    index = index_name(sort, wrong=False, label=question.label is not None)
    without = f"t.{columns[0]} IS NULL"
    without_index = "predictions_unjudged"
    if sort != "wrong":
        without, without_index = "t.label IS NULL", "predictions_unread"
    unseen = (f"t.row > :predicted_up_to AND NOT {_PREDICTED} AND p.seq <= :seen)",)
    return [
        Phase(
            "predictions",
            index,
            (*columns, "row"),
            _entries(question, f"t.{part}"),
            question.descending,
        ),
        Phase("predictions", without_index, ("row",), _entries(question, without), False),
        _rows(question, unseen, False),
    ]


def _by_fidelity(question: Question) -> list[Phase]:
    current = ["t.until > :seen"]
    if question.wrong:
        current.append(f"{_PREDICTED} AND p.correct = 0 AND p.seq <= :seen)")
    unseen = f"t.row > :explained_up_to AND NOT {_EXPLAINED} AND e.seq <= :seen)"
    last = _rows(question, (unseen,), False)
    if question.wrong:
        last = _wrong(question, "row", unseen)
    return [
        Phase(
            "explained_rows",
            "explained_fidelity",
            ("fidelity", "row"),
            _entries(question, "t.fidelity IS NOT NULL", *current),
            question.descending,
        ),
        Phase(
            "explained_rows",
            "explained_without",
            ("row",),
            _entries(question, "t.fidelity IS NULL", *current),
            False,
        ),
        last,
    ]


def _entries(question: Question, *where: str) -> tuple[str, ...]:
    """Conditions on what is known of a model."""
    conditions = ("t.model = :model", "t.seq <= :seen", *where)
    if question.label is not None:
        conditions = ("t.truth = :label", *conditions)
    return conditions


def write_cursor(question: Question, place: Place, secret: bytes) -> str:
    """A place as a string that only this data set can have made."""
    content = json.dumps([place.phase, list(place.keys), astuple(place.snapshot)]).encode()
    signed = _signature(question, content, secret) + content
    return base64.urlsafe_b64encode(signed).decode().rstrip("=")


def read_cursor(question: Question, cursor: str, secret: bytes) -> Place:
    """The place that a cursor names.

    Raises:
        InputError: it was changed, or belongs to another question.
    """
    problem = InputError(
        "the cursor is not one of this list: it was changed, or the order, the filters or the data "
        "set are others now; start with the first page"
    )
    if len(cursor) > _LONGEST_CURSOR or not cursor.isascii():
        raise problem
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        signed = base64.b64decode(padded, altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise problem from error
    signature, content = signed[:_SIGNATURE], signed[_SIGNATURE:]
    if not hmac.compare_digest(signature, _signature(question, content, secret)):
        raise problem
    phase, keys, snapshot = json.loads(content)
    return Place(phase, tuple(keys), Snapshot(*snapshot))


def _signature(question: Question, content: bytes, secret: bytes) -> bytes:
    message = json.dumps(astuple(question)).encode() + b"\n" + content
    return hmac.new(secret, message, hashlib.sha256).digest()[:_SIGNATURE]
