"""What ``slalom`` asks the model outright, instead of fitting it.

    value     the text filled with the unit: as many copies as the text has units
    removal   the whole text less the text without the unit
    alone     the unit by itself
    slope     the text with one more copy of the unit beside it, less the whole text

Each takes about one call per unit. Values come first, because nothing else can tell them. The
others are asked where they take a small part of the budget; rows without a unit and of a unit alone
serve the fit as well. What is not asked is fitted, and the explanation says so.

A word or a sentence is repeated as a whole. If so many copies do not fit into the model, there are
as many as fit. In a pair of texts, the copies stand in the unit's own text and the other is empty,
as it is in rows that keep nothing of it. Copies are never masked, whatever ``removal`` is.

Shapes: n units, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.designs import Masks, count_distinct_rows, least_budget
from slalom_xai.errors import BudgetError, shortened
from slalom_xai.models import Prompt
from slalom_xai.models.base import SaysItsLimit
from slalom_xai.queries import Queries
from slalom_xai.queries.batches import out_of_memory
from slalom_xai.surrogates.formula import TwoScores


@dataclass(frozen=True)
class MeasuringSettings:
    """How many calls measuring is worth.

    Attributes:
        values: calls; values are measured where that takes at most one in so many of the budget.
        others: calls; the same for each of the other scores. With a larger share, too few rows are
            left to predict deletions well.
        fitted_from: distinct rows per unit from which rows that are measured are always fitted as
            well. In shorter texts, rows to test by would run out.
    """

    values: int = 4
    others: int = 12
    fitted_from: int = 8


MEASURING = MeasuringSettings()


@dataclass(frozen=True)
class Measured:
    """Answers of the model, one per unit.

    Attributes:
        filled: (n, C), to the text filled with the unit; None where it was not asked, as below.
        alone: (n, C), to the unit alone.
        without: (n, C), to the text without the unit.
        doubled: (n, C), to the text with one more copy.
        masks: (m, n), rows among them that serve the fit.
        beside: calls that serve no fit.
        notes: what was not measured, and why.
    """

    filled: Tensor | None
    alone: Tensor | None
    without: Tensor | None
    doubled: Tensor | None
    masks: Masks
    beside: int
    notes: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, units: int) -> Measured:
        """Nothing was asked."""
        return cls(None, None, None, None, np.zeros((0, units), dtype=bool), 0)

    def scores(self, full: Tensor) -> dict[str, Tensor]:
        """The measured scores, (n, C) each, by name.

        Args:
            full: (C,), the answer to the whole text.
        """
        found = {"value": self.filled, "alone": self.alone}
        if self.without is not None:
            found["removal"] = full - self.without
        if self.doubled is not None:
            found["slope"] = self.doubled - full
        return {name: scores for name, scores in found.items() if scores is not None}


def measure_units(queries: Queries, calls: int, parameters: int) -> Measured:
    """Asks what the budget allows.

    Args:
        queries: asks the model.
        calls: that the explanation may take in all.
        parameters: what a fit must determine with the rest of them.
    """
    question = queries.prompt
    plan = _Plan(question, calls, parameters)
    notes: list[str] = []
    filled = doubled = alone = without = None
    before = queries.calls
    if plan.affords(question.distinct, MEASURING.values):
        filled = _filled(queries, notes)
    else:
        notes.append(_too_few("Value is", calls))
    units = len(question.units)
    beside = queries.calls - before
    masks = np.zeros((0, units), dtype=bool)
    every = plan.affords(3 * units, MEASURING.others / 3)
    if not every:
        notes.append(_too_few("Alone, removal and slope are", calls))
    elif units > 1:
        one = np.eye(units, dtype=bool)
        both = queries.ask(np.concatenate([one, ~one]))
        alone, without = both[:units], both[units:]
        if plan.rows >= MEASURING.fitted_from * units:
            masks = np.concatenate([one, ~one])
        before = queries.calls
        doubled = _doubled(queries, notes)
        beside += queries.calls - before
    return Measured(filled, alone, without, doubled, masks, beside, tuple(notes))


def missed_of_copies(two: TwoScores, doubled: Tensor, full: Tensor) -> Tensor:
    """What two scores miss of one more copy of each unit (``SlalomSurrogate.repeats``), (n, C).

    Args:
        two: the two scores.
        doubled: (n, C), the answers.
        full: (C,), the answer to the whole text.
    """
    units = two.units
    one_more = 1 + torch.eye(units, dtype=full.dtype, device=full.device)
    missed = doubled - two.predict(one_more)
    whole = full - two.predict(torch.ones_like(one_more[:1]))
    return missed * units / (units - 1) - whole


def measured_error(name: str, queries: Queries, column: int, units: int) -> Tensor:
    """The standard error of a measured score of one column, (n,): the model's own noise.

    A change is the difference of two answers, and that to the whole text is a mean of several.
    """
    if queries.noise is None:
        return torch.zeros(units, dtype=torch.float64)
    variance = queries.noise[column]
    if name in ("removal", "slope") and queries.whole_variance is not None:
        variance = variance + queries.whole_variance[column]
    return variance.sqrt().cpu().repeat(units)


class _Plan:
    """What a budget affords beside the fit.

    Args:
        question: the text.
        calls: in all.
        parameters: what the fit must determine.
    """

    def __init__(self, question: Prompt, calls: int, parameters: int) -> None:
        self.rows = count_distinct_rows(question.interchangeable)
        self._calls = calls
        self._left = calls - least_budget(question.interchangeable, parameters)

    def affords(self, rows: int, one_in: float) -> bool:
        """Whether so many rows leave enough to fit; they are then taken from what is left."""
        if rows * one_in > self._calls or rows > self._left:
            return False
        self._left -= rows
        return True


def _filled(queries: Queries, notes: list[str]) -> Tensor | None:
    """The answers to the text filled with each unit, (n, C); None where the model refuses."""
    question = queries.prompt
    copies = _copies(queries)
    _, first, of_unit = np.unique(question.codes, return_index=True, return_inverse=True)
    longest = int(copies[first].max())
    rows = np.repeat(first[:, None], longest, axis=1)
    rows[np.arange(longest) >= copies[first, None]] = -1
    answers = _ask(queries, rows, "Value is", notes)
    if answers is None:
        return None
    if bool((copies < _wanted(question)).any()):
        fewest = int(copies.min())
        notes.append(
            f"Values are answers to texts of at least {fewest} copies of the unit, not "
            f"{_wanted(question)}: the model reads no longer texts."
        )
    return answers[torch.as_tensor(of_unit, device=answers.device)]


def _doubled(queries: Queries, notes: list[str]) -> Tensor | None:
    """The answers to the text with one more copy of each unit, (n, C); None where there are none.

    A type has no one place where a copy could stand.
    """
    question = queries.prompt
    units = len(question.units)
    if bool((question.occurrences > 1).any()):
        return None
    room = _room(queries)
    longest = max(len(pieces) for pieces in question.spelling)
    if room is not None and len(question.owner) + longest > room:
        notes.append(
            "Slope is fitted, not measured: the model reads no text that is longer by a copy."
        )
        return None
    rows = np.stack([np.insert(np.arange(units), unit, unit) for unit in range(units)])
    return _ask(queries, rows, "Slope is", notes)


def _ask(queries: Queries, rows: NDArray[np.int64], what: str, notes: list[str]) -> Tensor | None:
    """Answers to sequences of units, (m, C); None, and a note, where the model refuses repeats."""
    try:
        return queries.ask_rows((queries.prompt.sequences(rows), "fit"))[0]
    except BudgetError:
        raise
    except Exception as error:  # a model may refuse repeats in any way it likes
        if out_of_memory(error):
            raise
        reason = shortened(" ".join(str(error).split()), 200)
        notes.append(f"{what} fitted, not measured: the model refused repeated units: {reason}")
        return None


def _wanted(question: Prompt) -> int:
    """As many copies as the text has units; of a type, as many as it has tokens."""
    return int(question.occurrences.sum())


def _copies(queries: Queries) -> NDArray[np.int64]:
    """How many copies of each unit fill the text, (n,)."""
    question, room = queries.prompt, _room(queries)
    sizes = np.array([len(pieces) for pieces in question.spelling])
    wanted = np.full(len(sizes), _wanted(question))
    if room is None:
        return wanted
    copies: NDArray[np.int64] = np.minimum(wanted, np.maximum(1, room // sizes))
    return copies


def _room(queries: Queries) -> int | None:
    """How many pieces the model reads in one text; None where nothing limits it."""
    model = queries.model
    if not isinstance(model, SaysItsLimit) or model.limit is None:
        return None
    reading = queries.prompt.reading
    special = model.size(reading.shorten(np.ones(len(reading.pieces), dtype=bool)))
    return model.limit - (special - len(reading.pieces))


def _too_few(what: str, calls: int) -> str:
    return f"{what} fitted, not measured: {calls} calls are too few for that; raise the budget."
