"""Deletion and insertion: does the output follow when units go or come in the order of scores?

Units are ordered by how much they argue for the model's own answer. With two classes, or one logit,
the scores change sign where the output is negative, and so does the output. With more classes the
explained label stays; by default it is the answer. A regression has no answer, and its output is
taken as it is. "importance" has no sign and orders as it is.

With ``x`` the text, ``T_k`` its first k units in that order, ``p`` the probability of the answer
and ``f`` its log odds (the centred log probability, with more than two classes):

    comprehensiveness  mean over bins q of  p(x) - p(x without T_k)
    sufficiency        mean over bins q of  p(x) - p(T_k only)
                       where k = q n rounded up, q = 1, 5, 10, 20, 50 %
    area               the same means over k = 1..n-1, at most ``steps`` of them evenly spaced
    ..._log_odds       the same with f for p

A bin never deletes the whole text, which some models cannot read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.metrics.base import Case, Direction, Measured, Metric, Need, Number, register
from slalom_xai.metrics.model_answers import Array, Masks
from slalom_xai.metrics.statistics import rank_descending

BINS = (1, 5, 10, 20, 50)  # per cent, as in ERASER


def bin_sizes(units: int) -> NDArray[np.int64]:
    """How many units each bin takes: its share rounded up, and at most all but one."""
    rounded_up = [-(-share * units // 100) for share in BINS]
    return np.minimum(np.array(rounded_up, dtype=np.int64), units - 1)


def curve_sizes(units: int, steps: int) -> NDArray[np.int64]:
    """The numbers of units on the curve: 1..units-1, or ``steps`` of them evenly spaced."""
    return np.unique(np.linspace(1, units - 1, min(steps, units - 1)).round().astype(np.int64))


def first_units(order: NDArray[np.int64], sizes: NDArray[np.int64]) -> Masks:
    """Rows (sizes, n) with only the first units of an order, as many as each size says."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    first: Masks = rank[None, :] < sizes[:, None]
    return first


def answer_sign(case: Case, output: float) -> float:
    """Minus one where the model's answer is the other of two classes."""
    if case.outputs.kind in ("binary", "single", "multilabel") and output < 0:
        return -1.0
    return 1.0


def _numbers(name: str, direction: Direction, what: str) -> dict[str, Number]:
    """The four numbers of a curve: over bins and over all of it, in probability and in log odds."""
    endless = (-math.inf, math.inf)
    return {
        name: Number(direction, -1, 1, f"{what}, over the bins 1, 5, 10, 20, 50 %, in probability"),
        f"{name}_log_odds": Number(direction, *endless, f"{what}, over the same bins, in log odds"),
        "area": Number(direction, -1, 1, f"{what}, over the whole curve, in probability"),
        "area_log_odds": Number(direction, *endless, f"{what}, over the whole curve, in log odds"),
    }


@dataclass(frozen=True)
class _Curve(Metric):
    """Drops of the model's answer along the order of the scores.

    Args:
        steps: points on the whole curve at most; each costs a call.
    """

    steps: int = 100

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str] = "DeYoung et al. (2020), ERASER; Samek et al. (2017), AOPC"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})
    inserts: ClassVar[bool]  # keep the first units of the order, instead of deleting them

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps is {self.steps}: give the points of the curve, at least 1")

    def measure(self, case: Case) -> Measured:
        """Asks for the bins and the curve, and averages the drops."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        if case.units < 2:
            return self.unavailable("A text of one unit has nothing to delete.")
        everything = np.ones((1, case.units), dtype=bool)
        sign = answer_sign(case, float(case.ask(everything)[0]))
        scores = case.scores()
        if not case.unsigned:
            scores = scores * sign
        order = rank_descending(scores)
        bins = self._masks(order, bin_sizes(case.units))
        curve = self._masks(order, curve_sizes(case.units, self.steps))
        masks = np.concatenate([everything, bins, curve])
        values = dict.fromkeys(self.gives, math.nan)
        values |= self._drops(case.ask(masks) * sign, "_log_odds")
        probabilities = case.probabilities(masks)
        if probabilities is None:
            reason = "The model's outputs give no probability of the explained label."
            return Measured(values, reason)
        if sign < 0:
            probabilities = 1 - probabilities
        return Measured(values | self._drops(probabilities, ""))

    def _drops(self, numbers: Array, suffix: str) -> dict[str, float]:
        """Mean drops over the bins and over the curve, by the names of their numbers.

        Args:
            numbers: (1 + bins + curve,), of the whole text, then of the rows.
            suffix: of the names.
        """
        drops = numbers[0] - numbers[1:]
        head = next(iter(self.gives))
        return {
            f"{head}{suffix}": float(drops[: len(BINS)].mean()),
            f"area{suffix}": float(drops[len(BINS) :].mean()),
        }

    def _masks(self, order: NDArray[np.int64], sizes: NDArray[np.int64]) -> Masks:
        """Rows (sizes, n) without, or with only, the first units of the order."""
        first = first_units(order, sizes)
        if self.inserts:
            return first
        return ~first


@register
class Deletion(_Curve):
    """What the model's answer loses when the units that argue for it most are deleted.

    Its first number is called comprehensiveness.
    """

    name: ClassVar[str] = "deletion"
    summary: ClassVar[str] = "the answer drops when the highest-scoring units are deleted"
    gives: ClassVar[Mapping[str, Number]] = _numbers(
        "comprehensiveness", "higher", "mean drop without the top units"
    )
    inserts: ClassVar[bool] = False


@register
class Insertion(_Curve):
    """What the model's answer lacks when only the units that argue for it most are kept.

    Its first number is called sufficiency.
    """

    name: ClassVar[str] = "insertion"
    summary: ClassVar[str] = "the answer is reached with only the highest-scoring units"
    gives: ClassVar[Mapping[str, Number]] = _numbers(
        "sufficiency", "lower", "mean drop with only the top units"
    )
    inserts: ClassVar[bool] = True


@register
class RemovalRank(Metric):
    """Rank correlation of the scores with what removing each unit alone really does.

    It takes one call per unit.
    """

    name: ClassVar[str] = "removal-rank"
    summary: ClassVar[str] = "ranks units as their single removals do"
    reference: ClassVar[str] = "Spearman (1904); Zeiler and Fergus (2014), occlusion"
    gives: ClassVar[Mapping[str, Number]] = {
        "spearman": Number("higher", -1, 1, "rank correlation with true single removals")
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})

    def measure(self, case: Case) -> Measured:
        """Removes every unit once.

        Importances have no sign; they are compared with the size of the change.
        """
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        if case.units < 2:
            return self.unavailable("A text of one unit has nothing to rank.")
        changes = removals(case)
        if case.unsigned:
            changes = np.abs(changes)
        return self.rank_correlation(case.scores(), changes, "removals")


def removals(case: Case) -> Array:
    """What each unit's removal takes from the output, ``f(all) - f(all but i)``, (n,)."""
    assert case.ask is not None
    everything = np.ones((1, case.units), dtype=bool)
    outputs = case.ask(np.concatenate([everything, ~np.eye(case.units, dtype=bool)]))
    return np.asarray(outputs[0] - outputs[1:])


# AOPC as the paper's authors compute it: the true label's probability every five units.
#
# With n units ordered by how much they argue for the true label, and p its probability,
#
#     insertion  1 - mean over k = 5, 10, ... below n of  p(the first k units only)
#     deletion   1 - mean over the same k             of  p(the last k units only)
#
# Both are other numbers than the areas of ``insertion`` and ``deletion``: they do not compare
# with the whole text, they follow the true label instead of the model's answer, and what deletion
# leaves is counted from the empty text.


@register
@dataclass(frozen=True)
class Aopc(Metric):
    """What the true label's probability is with only the best units, and with only the worst.

    Args:
        step: units between two points of the curve.
    """

    step: int = 5

    name: ClassVar[str] = "aopc"
    summary: ClassVar[str] = "the true label is reached with the best units, not with the worst"
    reference: ClassVar[str] = "Samek et al. (2017), AOPC, as in Leemann et al. (2024)"
    gives: ClassVar[Mapping[str, Number]] = {
        "insertion": Number("lower", 0, 1, "1 − the label's mean probability with the best units"),
        "deletion": Number("higher", 0, 1, "1 − the label's mean probability with the worst units"),
    }
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})

    def __post_init__(self) -> None:
        if self.step < 1:
            raise InputError(f"step is {self.step}: give the units between two points, at least 1")

    def measure(self, case: Case) -> Measured:
        """Asks for both curves; without a true label, the model's answer stands for it."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        sizes = np.arange(self.step, case.units, self.step)
        if not len(sizes):
            return self.unavailable(f"A text of {self.step} units or fewer has no curve.")
        if case.label is not None and case.label not in case.outputs.labels:
            return self.unavailable(f"The true label {case.label!r} is none of the model's.")
        sign = self._sign(case)
        if sign is None:
            return self.unavailable("The explained label is not the true one.")
        scores = case.scores()
        if not case.unsigned:
            scores = scores * sign
        order = rank_descending(scores)
        best, worst = first_units(order, sizes), ~first_units(order, case.units - sizes)
        probabilities = case.probabilities(np.concatenate([best, worst]))
        if probabilities is None:
            return self.unavailable(
                "The model's outputs give no probability of the explained label."
            )
        if sign < 0:
            probabilities = 1 - probabilities
        inserted, left = np.split(probabilities, 2)
        return Measured(
            {"insertion": float(1 - inserted.mean()), "deletion": float(1 - left.mean())}
        )

    def _sign(self, case: Case) -> float | None:
        """Minus one where the true label is the other of two; None if its scores are not known."""
        assert case.ask is not None
        if case.label is None:
            whole = case.ask(np.ones((1, case.units), dtype=bool))
            return answer_sign(case, float(whole[0]))
        if case.label == case.explanation.target:
            return 1.0
        if case.outputs.kind == "binary" and case.label in case.outputs.labels:
            return -1.0
        return None
