"""What ``slalom`` asks the model outright, instead of fitting it.

    value     the text filled with the unit: as many copies as the text has units
    removal   the whole text less the text without the unit
    alone     the unit by itself
    slope     the text with one more copy of the unit beside it, less the whole text

Each takes about one call per unit. Values come first, because nothing else can tell them. The
others are asked where they take a small part of the budget; rows without a unit and of a unit alone
serve the fit as well. What is not asked is fitted, and the explanation says so.

``queries.repeats`` says how units are repeated.

Shapes: n units, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import DESIGN, Masks, least_budget
from slalom_xai.models import Prompt
from slalom_xai.queries import Queries
from slalom_xai.queries.repeats import (
    UnitRows,
    ask_repeats,
    copies_to_fill,
    doubled_rows,
    filled_rows,
    has_one_place,
    has_room_for_a_copy,
    wanted_copies,
)
from slalom_xai.surrogates.formula import TwoScores


@dataclass(frozen=True)
class MeasuringSettings:
    """How many calls measuring is worth.

    Attributes:
        values: calls; values are measured where that takes at most one in so many of the budget.
        others: calls; the same for each of the other scores. With a larger share, too few rows are
            left to predict deletions well.
    """

    values: int = 4
    others: int = 12


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
        before = queries.calls
        one = np.eye(units, dtype=bool)
        both = queries.ask(np.concatenate([one, ~one]))
        alone, without = both[:units], both[units:]
        if units > DESIGN.enumerable:
            masks = np.concatenate([one, ~one])
            before = queries.calls  # they serve the fit
        # Otherwise the fit may not have all of them: the test needs rows of every size, too.
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
    copies, wanted = copies_to_fill(queries), wanted_copies(question)
    _, first, of_unit = np.unique(question.codes, return_index=True, return_inverse=True)
    answers = _ask(queries, filled_rows(first, copies[first]), "Value is", notes)
    if answers is None:
        return None
    if bool((copies < wanted).any()):
        notes.append(
            f"Values are answers to texts of at least {int(copies.min())} copies of the unit, not "
            f"{wanted}: the model reads no longer texts."
        )
    return answers[torch.as_tensor(of_unit, device=answers.device)]


def _doubled(queries: Queries, notes: list[str]) -> Tensor | None:
    """The answers to the text with one more copy of each unit, (n, C); None where there are none.

    A type has no one place where a copy could stand.
    """
    if not has_one_place(queries.prompt):
        notes.append("Slope is fitted, not measured: types stand in several places.")
        return None
    if not has_room_for_a_copy(queries):
        notes.append(
            "Slope is fitted, not measured: the model reads no text that is longer by a copy."
        )
        return None
    return _ask(queries, doubled_rows(len(queries.prompt.units)), "Slope is", notes)


def _ask(queries: Queries, rows: UnitRows, what: str, notes: list[str]) -> Tensor | None:
    """Answers to sequences of units, (m, C); None, and a note, where the model refuses repeats."""
    answers, refusal = ask_repeats(queries, rows)
    if answers is None:
        notes.append(f"{what} fitted, not measured: {refusal}")
    return answers


def _too_few(what: str, calls: int) -> str:
    return f"{what} fitted, not measured: {calls} calls are too few for that; raise the budget."
