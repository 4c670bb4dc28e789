"""Fidelity: does the explanation predict what deletions do?

With f the model, g the explanation's prediction, x the whole text and x' a row with some units
deleted, the metric compares the predicted change g(x') - g(x) with the true one f(x') - f(x), over
random rows:

    mse = mean of (predicted - true)^2,    r2 = 1 - mse / variance of the true changes

Changes are compared, not outputs, so that an error which all rows share does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Array, Explanation
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, register
from slalom_xai.metrics.model_answers import Asker, asker
from slalom_xai.reports.figures.curves import Curve
from slalom_xai.slalom.rows import LOCAL, uniform_counts
from slalom_xai.slalom.trust import agreement


@dataclass(frozen=True)
class _Fidelity(Metric):
    """Compares ``predict(row) - predict(all)`` with ``f(row) - f(all)`` on random deletions.

    Args:
        rows: how many deletions to ask the model about; more cost calls and make the numbers surer.
    """

    rows: int = 200

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str] = "Leemann et al. (2024), Fig. 6; Yeh et al. (2019), infidelity"
    gives: ClassVar[Mapping[str, Number]] = {
        "mse": Number("lower", 0, math.inf, "mean squared error of the predicted changes"),
        "r2": Number(
            "higher", -math.inf, 1, "share of the variance of the changes that is predicted"
        ),
        "rows": Number(None, 0, math.inf, "how many deletions it was measured on"),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})
    most: ClassVar[int | None]  # units deleted at most; None: all but one

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"rows is {self.rows}: give the number of deletions, at least 1")

    def measure(self, case: Case) -> Measured:
        """Draws distinct rows, none of ``case.seen``, asks, and compares."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        if case.units < 2:
            return self.unavailable("A text of one unit has nothing to delete.")
        rng = case.rng(self.name)
        most = case.units - 1
        if self.most is not None:
            most = min(self.most, most)
        masks = case.pool().draw(self.rows, uniform_counts(1, most, rng), rng)
        if not len(masks):
            return self.unavailable("Every deletion has been seen (seen).")
        everything = np.ones((1, case.units), dtype=bool)
        outputs = case.ask(np.concatenate([everything, masks]))
        true = outputs[1:] - outputs[0]
        predicted = case.explanation.predict(masks) - case.explanation.predict(everything)
        level = float(np.abs(outputs).max())
        agreed = agreement(torch.as_tensor(predicted), torch.as_tensor(true), level)
        reason = ""
        if math.isnan(agreed.r2):
            reason = "No deletion changes the model's output."
        return Measured({"mse": agreed.mse, "r2": agreed.r2, "rows": float(agreed.rows)}, reason)


@register
class FidelityLocal(_Fidelity):
    """Fidelity on 1 to 10 deletions, the number uniform (the paper's Fig. 6)."""

    name: ClassVar[str] = "fidelity-local"
    summary: ClassVar[str] = "predicts what deleting 1 to 10 units does"
    most: ClassVar[int | None] = LOCAL


@register
class FidelityWide(_Fidelity):
    """Fidelity on deletions of 1 to all but one unit, the number uniform."""

    name: ClassVar[str] = "fidelity-wide"
    summary: ClassVar[str] = "predicts what deleting any number of units does"
    most: ClassVar[int | None] = None


# The fidelity curve: how wrong an explanation's predictions are as more of the text is deleted.
#
# For each number k of deleted units, random rows that lack k units are asked. With F the model, f
# the explanation, x the whole text and z a row, the error of the row is
#
#     ((f(z) - f(x)) - (F(z) - F(x))) ** 2
#
# the squared error of the predicted change. Changes are compared, not outputs, so that a constant
# offset of an explanation does not count. ``reports.figures.fidelity_curve`` draws the means.


_Errors = dict[int, list[Array]]  # squared errors by number of deleted units, (rows,) for each text


@dataclass(frozen=True)
class _Answers:
    """What the model said about rows that all lack the same number of units.

    Attributes:
        deleted: how many units they lack.
        masks: (m, n), which units each row keeps.
        changes: (m,), the model's output for each row, less that for the whole text.
    """

    deleted: int
    masks: Array
    changes: Array


def deletion_errors(
    explainer: Explainer,
    explanations: Sequence[Explanation],
    *,
    most: int = LOCAL,
    rows: int = 40,
    random_state: int = 0,
) -> list[Curve]:
    """Asks the model about random deletions, and compares its changes with the predicted ones.

    All explanations of one text are judged on the same deletions. These are drawn afresh, so some
    may have been among the calls that an explanation was fitted to. Explanations of several texts
    by one method make one curve.

    Args:
        explainer: holds the model; its method does not matter.
        explanations: of one or several texts, by one or several methods.
        most: units deleted at most.
        rows: deletions asked for each text and each number of deleted units; fewer where there are
            not as many.
        random_state: draws the deletions.
    """
    if most < 1 or rows < 1:
        raise InputError(f"most is {most} and rows is {rows}: give whole numbers of at least 1")
    if not explanations:
        raise InputError("there is nothing to draw: give at least one explanation")
    by_method: dict[str, _Errors] = {}
    known: dict[tuple[object, ...], list[_Answers]] = {}
    for explanation in explanations:
        key = _question(explanation)
        if key not in known:
            rng = np.random.default_rng(random_state)
            ask = asker(explainer, explanation)
            known[key] = _answers(ask, len(explanation), most, rows, rng)
        _add_errors(by_method.setdefault(explanation.method, {}), explanation, known[key])
    if not any(by_method.values()):
        raise InputError("texts of one unit have nothing to delete: give a longer text")
    return [_curve(method, errors) for method, errors in by_method.items()]


def _question(explanation: Explanation) -> tuple[object, ...]:
    """The same for explanations that can be judged by the same answers."""
    return (
        explanation.text,
        explanation.text_pair,
        explanation.granularity,
        explanation.removal,
        explanation.target_index,
    )


def _answers(
    ask: Asker, units: int, most: int, rows: int, rng: np.random.Generator
) -> list[_Answers]:
    """For each number of deleted units, the rows drawn and how the model's output changed."""
    whole = ask(np.ones((1, units), dtype=bool))[0]
    pool = ask.pool()
    answers = []
    for deleted in range(1, min(most, units - 1) + 1):
        masks = pool.draw(rows, uniform_counts(deleted, deleted, rng), rng)
        if len(masks):
            answers.append(_Answers(deleted, masks.astype(np.float64), ask(masks) - whole))
    return answers


def _add_errors(errors: _Errors, explanation: Explanation, answers: list[_Answers]) -> None:
    """Adds the squared errors of one explanation to those of its method."""
    whole = explanation.predict(np.ones((1, len(explanation))))
    for answer in answers:
        squares = (explanation.predict(answer.masks) - whole - answer.changes) ** 2
        errors.setdefault(answer.deleted, []).append(squares)


def _curve(method: str, errors: _Errors) -> Curve:
    deleted = sorted(errors)
    squares = [np.concatenate(errors[number]) for number in deleted]
    return Curve(
        method,
        deleted=np.array(deleted, dtype=float),
        mse=np.array([each.mean() for each in squares]),
        standard_errors=np.array([_standard_error(each) for each in squares]),
        rows=np.array([len(each) for each in squares], dtype=float),
    )


def _standard_error(numbers: Array) -> float:
    """Of the mean of these numbers, (rows,); NaN for a single one."""
    if len(numbers) < 2:
        return float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(numbers.std(ddof=1) / np.sqrt(len(numbers)))
