"""Rows in which units stand several times: texts filled with one unit or two, and one more copy.

A word or a sentence is repeated as a whole. If so many copies do not fit into the model, there are
as many as fit. In a pair of texts, the copies stand in the unit's own text and the other is empty,
as it is in rows that keep nothing of it. Copies are never masked, whatever ``removal`` is.

Rows are sequences of units, (m, w), as ``Prompt.sequences`` takes them: -1 stands for no unit, at
the end of a row. Shapes: m rows, n units, C columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import BudgetError, ServiceError, quote_text
from slalom_xai.models import Prompt
from slalom_xai.models.base import SaysItsLimit
from slalom_xai.queries.batches import out_of_memory
from slalom_xai.queries.queries import Purpose, Queries

UnitRows = NDArray[np.int64]


def wanted_copies(question: Prompt) -> int:
    """How many copies fill a text: as many as it has units; of a type, as many as it has tokens."""
    return int(question.occurrences.sum())


def copies_to_fill(queries: Queries) -> NDArray[np.int64]:
    """How many copies of each unit fill the text, (n,): those wanted, or as many as fit."""
    question, room = queries.prompt, _room(queries)
    sizes = np.array([len(pieces) for pieces in question.spelling])
    wanted = np.full(len(sizes), wanted_copies(question))
    if room is None:
        return wanted
    copies: NDArray[np.int64] = np.minimum(wanted, np.maximum(1, room // sizes))
    return copies


def filled_rows(units: UnitRows, copies: NDArray[np.int64]) -> UnitRows:
    """Texts filled with one unit each, (m, w).

    Args:
        units: (m,), what fills the texts.
        copies: (m,), how many of them there are.
    """
    longest = int(copies.max())
    rows = np.repeat(units[:, None], longest, axis=1)
    rows[np.arange(longest) >= copies[:, None]] = -1
    return rows


def contest_rows(pairs: UnitRows, copies: NDArray[np.int64]) -> UnitRows:
    """Texts whose first half is filled with one unit and whose second half with another, (m, w).

    Args:
        pairs: (m, 2), the units.
        copies: (n,), as many copies of each unit as fill a text alone.
    """
    half = np.maximum(1, copies[pairs].min(axis=1) // 2)  # (m,)
    place = np.arange(2 * int(half.max()))
    rows = np.where(place < half[:, None], pairs[:, :1], pairs[:, 1:])
    rows[place >= 2 * half[:, None]] = -1
    return rows


def has_one_place(question: Prompt) -> bool:
    """Whether every unit has one place, beside which a copy could stand; a type has several."""
    return not bool((question.occurrences > 1).any())


def has_room_for_a_copy(queries: Queries) -> bool:
    """Whether the model reads the text with one more copy of any unit."""
    room, question = _room(queries), queries.prompt
    longest = max(len(pieces) for pieces in question.spelling)
    return room is None or len(question.owner) + longest <= room


def doubled_rows(units: int) -> UnitRows:
    """The text with one more copy of each unit beside it, (n, n + 1)."""
    return np.stack([np.insert(np.arange(units), unit, unit) for unit in range(units)])


def ask_repeats(
    queries: Queries, rows: UnitRows, purpose: Purpose = "fit"
) -> tuple[Tensor | None, str]:
    """Answers to rows, (m, C), or None and why the model refused them.

    Raises:
        BudgetError: more new rows than the budget leaves.
        ServiceError: the server that runs the model does not answer any more.
    """
    try:
        return queries.ask_rows((queries.prompt.sequences(rows), purpose))[0], ""
    except (BudgetError, ServiceError):  # of which nothing is the repeats' fault
        raise
    except Exception as error:  # a model may refuse repeats in any way it likes
        if out_of_memory(error):
            raise
        reason = quote_text(" ".join(str(error).split()), 200)
        return None, f"the model refused repeated units: {reason}"


def _room(queries: Queries) -> int | None:
    """How many pieces the model reads in one text; None where nothing limits it."""
    model = queries.model
    if not isinstance(model, SaysItsLimit) or model.limit is None:
        return None
    reading = queries.prompt.reading
    special = model.size(reading.shorten(np.ones(len(reading.pieces), dtype=bool)))
    return model.limit - (special - len(reading.pieces))
