"""What goes into a data set and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
