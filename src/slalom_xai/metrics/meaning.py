"""Does every score mean what it is said to mean? The model is asked afresh.

    value       the model's answer to the text filled with the unit (the paper's methods)
    importance  contests: a text filled half with i and half with j answers
                (w_i v_i + w_j v_j) / (w_i + w_j), w = exp(importance), v = value (likewise)
    removal     the whole text's answer less that to the text without the unit
    alone       the answer to the unit alone
    slope       the answer with one more copy beside it, less the whole text's
    shapley     the Shapley value of the model itself
    doubled     the same answers as for slope, predicted by ``predict``

The values and importances of the main method are those of removals from this text. They make no
claim about filled texts, and what they predict is compared in the other lines.

Nothing is taken from what the explanation measured. R² is that of the score as it stands, not
rescaled. An additive method has one score. It is compared with removals, or with the model's
Shapley values where the method says that it estimates these (``Estimator.estimates``).

Shapes: n units, m rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import factorial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.methods import estimated_by
from slalom_xai.metrics.base import Case, Measured, Metric, Need, Number, register
from slalom_xai.metrics.model_answers import Array, Asker, Masks
from slalom_xai.metrics.perturbation import removals
from slalom_xai.metrics.statistics import spearman
from slalom_xai.slalom.rows import every_mask
from slalom_xai.slalom.trust import TRUST

# Shapley values of a model itself, to compare scores with.
#
# Up to ``EXACT`` units every subset is asked, and the values are exact. In longer texts, units
# are added in random orders, each taken there and back (antithetic). That is exact where units
# interact in pairs at most; otherwise the spread over orders says how large the error is.
#
# Shapes: n units, m rows.


EXACT = 10  # units; 1,023 rows


@dataclass(frozen=True, eq=False)
class SampledShapley:
    """Shapley values with their error.

    Attributes:
        values: (n,).
        error: the mean squared standard error over the variance of the values: the share of
            variance that not even the true values would explain. NaN where all values are equal.
    """

    values: Array
    error: float


def shapley_of_model(
    answers: Callable[[Masks], Array],
    empty: float,
    units: int,
    orders: int,
    rng: np.random.Generator,
) -> SampledShapley:
    """The Shapley values of removing units.

    Args:
        answers: the model's output (m,) for masks (m, n) that keep at least one unit.
        empty: what it answers where nothing is kept.
        units: n.
        orders: random orders, each taken there and back; at least 2.
        rng: draws them.
    """
    if units <= EXACT:
        return SampledShapley(_exact(answers, empty, units), 0.0)
    drawn = np.stack([rng.permutation(units) for _ in range(orders)])
    both = np.concatenate([drawn, drawn[:, ::-1]])  # (2 orders, n)
    added = _added(answers, empty, both).reshape(2, orders, units).mean(axis=0)
    values = added.mean(axis=0)
    variance = float(values.var())
    if variance == 0:
        return SampledShapley(values, np.nan)
    squared_errors = added.var(axis=0, ddof=1) / orders
    return SampledShapley(values, float(squared_errors.mean()) / variance)


def _added(answers: Callable[[Masks], Array], empty: float, orders: Array) -> Array:
    """What each unit adds when its turn comes, (orders, n).

    Args:
        answers: of the model.
        empty: what it answers where nothing is kept.
        orders: (orders, n), units in the order in which they are added.
    """
    count, units = orders.shape
    rank = np.argsort(orders, axis=1)  # (orders, n): when a unit's turn comes
    kept = rank[:, None, :] < np.arange(1, units + 1)[None, :, None]  # (orders, n, n)
    grown = answers(kept.reshape(count * units, units)).reshape(count, units)
    before = np.concatenate([np.full((count, 1), empty), grown[:, :-1]], axis=1)
    return np.asarray(np.take_along_axis(grown - before, rank, axis=1))


def _exact(answers: Callable[[Masks], Array], empty: float, units: int) -> Array:
    """By the definition, over all subsets, (n,)."""
    masks = every_mask(units)  # (m, n), without the empty one
    outputs = np.concatenate([[empty], answers(masks)])
    kept = np.concatenate([np.zeros((1, units), dtype=bool), masks])
    sizes = kept.sum(axis=1)
    with_unit = np.array([_weight(size - 1, units) for size in sizes])
    without = np.array([_weight(size, units) for size in sizes])
    signed = np.where(kept, with_unit[:, None], -without[:, None])
    return np.asarray(outputs @ signed)


def _weight(others: int, units: int) -> float:
    """The share of orders in which exactly these others come before a unit."""
    if not 0 <= others < units:
        return 0.0
    return factorial(others) * factorial(units - 1 - others) / factorial(units)


# Does every score mean what it is said to mean? The model is asked afresh.


# Changes of the output that are smaller have no direction to speak of.
CLEAR = 0.05

# Pairs drawn for each contest: many are drawn twice in a short text, or stand in two texts.
_DRAWS = 40

_COMPARED = {
    "value": "answers to texts filled with each unit",
    "importance": "contests of two units, each filling half of a text",
    "removal": "what leaving out each unit does",
    "alone": "answers to each unit alone",
    "slope": "what one more copy of each unit does",
    "doubled": "what one more copy does, as `predict` predicts it",
    "shapley": "Shapley values of the model",
}


def _numbers() -> dict[str, Number]:
    """What the metric gives: two numbers for each score, and a few on their own."""
    numbers = {
        "rank": Number(
            "higher", -1, 1, "mean of the rank correlations below, of those that there are"
        )
    }
    for name, what in _COMPARED.items():
        numbers[f"{name}_r2"] = Number("higher", -math.inf, 1, f"R² against {what}")
        numbers[f"{name}_rank"] = Number("higher", -1, 1, f"rank correlation with {what}")
    numbers["importance_gain"] = Number(
        None, -math.inf, math.inf, "`importance_r2` less the same with equal importances"
    )
    numbers["doubled_sign"] = Number(
        "higher", 0, 1, f"share of changes above {CLEAR} whose direction `predict` has right"
    )
    numbers["shapley_error"] = Number(
        None, 0, math.inf, "variance of the sampling error over that of the Shapley values"
    )
    return numbers


@register
@dataclass(frozen=True)
class Meaning(Metric):
    """Compares every score with what it is said to be, by asking the model.

    Args:
        contests: pairs of units that fill a text together; each costs two calls, one per order.
        orders: random orders for Shapley values, each taken there and back; each costs two calls
            per unit. Up to ten units every subset is asked instead.
    """

    contests: int = 50
    orders: int = 10

    name: ClassVar[str] = "meaning"
    summary: ClassVar[str] = "every score is what it is said to be, as fresh calls show"
    reference: ClassVar[str] = "this package; Castro et al. (2009), sampled Shapley values"
    gives: ClassVar[Mapping[str, Number]] = _numbers()
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ANSWERS})

    def __post_init__(self) -> None:
        if self.contests < 2 or self.orders < 2:
            raise InputError(
                f"contests is {self.contests} and orders is {self.orders}: give at least 2 of each"
            )

    def measure(self, case: Case) -> Measured:
        """Asks, and compares what there is."""
        if case.ask is None:
            return self.lacks(Need.ANSWERS)
        if not isinstance(case.ask, Asker):
            return self.unavailable("Needs an asker that can repeat units: make it with asker().")
        if case.units < 2:
            return self.unavailable("A text of one unit has nothing to compare.")
        found = _Found(case.ask)
        two_scores = case.explanation.has_importances
        stated = estimated_by(case.explanation.method)
        self._answers_to_deletions(case, found, None if two_scores else stated)
        if case.explanation.surrogate == "slalom":
            self._answers_to_filled_texts(case, found)
        self._answers_to_copies(case, found)
        if two_scores or stated == "shapley":
            self._shapley(case, found)
        ranks = [rank for name, rank in found.values.items() if name.endswith("_rank")]
        known = [rank for rank in ranks if not math.isnan(rank)]
        if known:
            found.values["rank"] = float(np.mean(known))
        values = dict.fromkeys(self.gives, math.nan) | found.values
        return Measured(values, found.reason(values))

    def _answers_to_deletions(self, case: Case, found: _Found, only: str | None) -> None:
        """Single units and single removals.

        Args:
            case: the explanation.
            found: takes the numbers.
            only: what the one score of an additive method is said to be; None for two scores.
        """
        one = np.eye(case.units, dtype=bool)
        assert case.ask is not None
        found.compare("alone", case.explanation.scores("alone"), case.ask(one))
        if only in (None, "removal"):
            found.compare("removal", case.explanation.scores("removal"), removals(case))

    def _answers_to_filled_texts(self, case: Case, found: _Found) -> None:
        """Texts filled with one unit, and contests of two."""
        ask, explanation = found.ask, case.explanation
        filled = ask.filled()
        if filled is not None:
            found.compare("value", explanation.scores("value"), filled)
        pairs = self._pairs(case)
        contests = ask.contests(pairs) if len(pairs) > 1 else None
        if contests is not None:
            found.compare("importance", predicted_contests(explanation, pairs), contests)
            plain = explanation.scores("value")[pairs].mean(axis=1)
            gain = found.values["importance_r2"] - found.r2(plain, contests)
            found.values["importance_gain"] = gain

    def _answers_to_copies(self, case: Case, found: _Found) -> None:
        """One more copy of each unit."""
        explanation = case.explanation
        doubled = found.ask.doubled()
        if doubled is None:
            return
        changes = doubled - found.whole
        if explanation.has_importances:
            found.compare("slope", explanation.scores("slope"), changes)
        rows = np.concatenate([np.zeros((1, case.units)), np.eye(case.units)]) + 1
        predicted = explanation.predict(rows)
        found.compare("doubled", predicted[1:] - predicted[0], changes)
        clear = np.abs(changes) > CLEAR
        if clear.any():
            right = np.sign(predicted[1:] - predicted[0]) == np.sign(changes)
            found.values["doubled_sign"] = float(right[clear].mean())

    def _pairs(self, case: Case) -> NDArray[np.int64]:
        """Random pairs of units that differ and stand in the same text, (m, 2), each pair once."""
        assert isinstance(case.ask, Asker)
        kind = case.ask.codes
        parts = np.array([unit.part for unit in case.explanation.units])
        rng = case.rng(self.name)
        drawn = np.sort(rng.integers(0, case.units, (_DRAWS * self.contests, 2)), axis=1)
        first, second = drawn.T
        fitting = drawn[(kind[first] != kind[second]) & (parts[first] == parts[second])]
        _, places = np.unique(fitting, axis=0, return_index=True)
        pairs: NDArray[np.int64] = fitting[np.sort(places)[: self.contests]]
        return pairs

    def _shapley(self, case: Case, found: _Found) -> None:
        """The Shapley score against that of the model.

        What an empty text is worth is a convention where the model takes none, and the
        explanation's own is taken: it shifts the Shapley values of all units alike.
        """
        empty = found.ask.empty()
        if empty is None:
            empty = case.explanation.base_value
        rng = case.rng(f"{self.name} shapley")
        sampled = shapley_of_model(found.ask, empty, case.units, self.orders, rng)
        found.compare("shapley", case.explanation.scores("shapley"), sampled.values)
        found.values["shapley_error"] = sampled.error


def predicted_contests(explanation: Explanation, pairs: NDArray[np.int64]) -> Array:
    """What values and importances say of texts filled half with one unit, half with another, (m,).

    Args:
        explanation: with importances.
        pairs: (m, 2), the units.
    """
    values = explanation.scores("value")[pairs]
    importances = explanation.scores("importance")[pairs]
    weights = np.exp(importances - importances.max(axis=1, keepdims=True))
    return np.asarray((weights * values).sum(axis=1) / weights.sum(axis=1))


class _Found:
    """The numbers so far.

    Attributes:
        ask: the model's answers.
        whole: to the whole text.
        values: numbers by name.
    """

    def __init__(self, ask: Asker) -> None:
        self.ask = ask
        self.whole = float(ask(np.ones((1, len(ask.codes)), dtype=bool))[0])
        self.values: dict[str, float] = {}
        self._level = abs(self.whole)

    def compare(self, name: str, stated: Array, true: Array) -> None:
        """Adds R² and rank correlation of a score with what it is said to be, (m,) each."""
        self.values[f"{name}_r2"] = self.r2(stated, true)
        self.values[f"{name}_rank"] = math.nan
        if not math.isnan(self.values[f"{name}_r2"]):
            self.values[f"{name}_rank"] = spearman(stated, true)

    def r2(self, stated: Array, true: Array) -> float:
        """The share of the variance that a score has right as it stands; NaN where all are equal.

        Differences within single-precision rounding of the outputs are none.
        """
        level = max(self._level, float(np.abs(true).max()))
        variance = float(true.var())
        if variance <= (TRUST.rounding * level) ** 2:
            return math.nan
        return max(1 - float(((stated - true) ** 2).mean()) / variance, TRUST.lowest_r2)

    def reason(self, values: Mapping[str, float]) -> str:
        """Why there are cells without a number; empty where there are none."""
        if not any(math.isnan(value) for value in values.values()):
            return ""
        if self.ask.refusal:
            return f"Repeats could not be asked: {self.ask.refusal}."
        return "The method has no such score, or nothing changes."
