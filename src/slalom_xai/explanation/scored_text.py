"""A text whose units have scores: the data of a result, and the numbers that are read from it.

The surrogate (``function``) predicts all explained columns at once. What a reader sees belongs to
one target: a column, with a minus sign where the first of two classes is explained. Every number
below is read from that column and gets that sign.

Where a unit stands several times in the text (granularity "type"), the importances inside the
surrogate are those of all its occurrences together. A reader wants that of a single one, which is
smaller by the logarithm of how often it occurs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slalom_xai.errors import InputError, one_of, quote_text
from slalom_xai.explanation.file_checks import kind_of
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values
from slalom_xai.methods.scores import DEFAULT_SCORE, SCORES, OneScore, one_score, slalom_score
from slalom_xai.models.outputs import Outputs, Target
from slalom_xai.models.text import ALL_UNKNOWN, Unit
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.formula import score_units
from slalom_xai.slalom.trust import Fidelity

Array = NDArray[np.float64]

_NOTHING_KNOWN = (
    "Do not trust this: every token of the text is unknown to the model, so it cannot tell them "
    "apart."
)
_MADE_ELSEWHERE = (
    "Not tested: these scores were made elsewhere, and no calls to the model came with them."
)
_ONE_UNIT = (
    "The text is one unit, or repeats of one: its value is the model's output, and there is "
    "nothing to compare it with."
)
_TOO_SHORT = (
    "Not tested: the text has so few perturbed texts that all of them were used to fit the scores."
)
_TOO_FEW_CALLS = (
    "Not tested: the budget left no calls for a test. Allow more calls (a larger budget)."
)
_NOT_WANTED = "Not tested: the method was told to leave the test out (tested=False)."
# What reports call the units of each granularity.
_UNITS = {
    "token": "tokens",
    "type": "tokens",
    "word": "words",
    "phrase": "phrases",
    "sentence": "sentences",
    "passage": "passages",
}


@dataclass(frozen=True)
class Interaction:
    """Two units that are heard together, beside what each of them says.

    Attributes:
        units: their numbers, from 0 on, in reading order.
        texts: their texts.
        value: the output that both together argue for.
        importance: how strongly they are heard together, on the scale of the units' importances.
    """

    units: tuple[int, int]
    texts: tuple[str, str]
    value: float
    importance: float


@dataclass(frozen=True, eq=False)
class ScoredText:
    """What an ``Explanation`` knows about its text; its docstring describes the fields."""

    text: str
    units: tuple[Unit, ...]
    method: str
    model: str
    granularity: str
    removal: str
    outputs: Outputs
    target_index: int
    full: tuple[float, ...]
    function: BoundedSlalom | SlalomSurrogate | OneScore
    column_errors: tuple[Mapping[str, Array], ...]
    column_fidelity: tuple[Fidelity, ...] | None
    calls_fit: int
    calls_check: int
    left_out: str = ""
    random_state: int = 0
    occurrences: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    text_pair: str | None = None
    passes: int = 0
    column_measured: tuple[Mapping[str, Array], ...] = ()
    question: str | None = None
    reply: str | None = None

    def __hash__(self) -> int:
        return hash((self.text, self.method, self.model, self.target_index, self.full))

    def __repr__(self) -> str:
        units = f"{len(self.units)} units"
        if len(self.units) == 1:
            units = "1 unit"
        told = f"{self.target} {self.prediction:+.3f}, {units}, {self.method}"
        return f"<Explanation of {quote_text(self.text, 40)}: {' '.join(told.split())}>"

    def __len__(self) -> int:
        return len(self.units)

    @property
    def _target(self) -> Target:
        return self.outputs.target(self.target_index, self.full)

    @property
    def target(self) -> str:
        """The explained label."""
        return self._target.label

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The token ids of all units in order; empty for models that take strings."""
        return tuple(token for unit in self.units for token in unit.token_ids)

    @property
    def surrogate(self) -> str:
        """Which kind of function predicts: "bounded", "slalom", "linear", "pairs" or "process"."""
        return kind_of(self.function)

    @property
    def has_importances(self) -> bool:
        """Whether units have two scores."""
        return isinstance(self.function, BoundedSlalom | SlalomSurrogate)

    @property
    def values(self) -> Array:
        """The output that each unit argues for, (n,)."""
        return self.scores("value")

    @property
    def importances(self) -> Array | None:
        """How strongly each unit is heard, (n,), summing to 0; None for methods with one score."""
        if not self.has_importances:
            return None
        return self.scores("importance")

    @property
    def sink(self) -> tuple[float, float] | None:
        """Value and importance of what is missing; None for methods without a sink.

        Of the paper's methods, it is what is always there beside the units.
        """
        function = self.function
        if isinstance(function, BoundedSlalom):
            value, importance = function.sink_value, function.sink_importance
        elif isinstance(function, SlalomSurrogate) and function.sink_values is not None:
            assert function.sink_importances is not None
            value, importance = function.sink_values[0], function.sink_importances[0]
        else:
            return None
        return self._of_target(value), float(importance + self._log_occurrences().mean())

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest output of the model; None where the formula has no bounds."""
        function = self.function
        if not isinstance(function, BoundedSlalom):
            return None
        low, high = (self._of_target(end) for end in function.range)
        if not math.isfinite(low) or not math.isfinite(high):
            return None
        return min(low, high), max(low, high)

    @property
    def has_effect(self) -> NDArray[np.bool_]:
        """Which units have an effect beyond its noise, (n,).

        The others have no value to read: their Shapley value is within two standard errors of 0.
        """
        errors = self.standard_errors.get("shapley")
        if not isinstance(self.function, BoundedSlalom) or errors is None:
            return np.ones(len(self.units), dtype=bool)
        rounding = 1e-9 * (1 + abs(self.prediction))  # all that a constant model has
        return np.asarray(~(np.abs(self.scores("shapley")) / 2 < errors + rounding))

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        """The few neighbouring units that are heard together, such as "not good"; often none.

        They are part of the formula, and ``predict`` counts them.
        """
        function = self.function
        if not isinstance(function, BoundedSlalom):
            return ()
        values = function.bound(function.pair_values)
        found = []
        for index, (first, second) in enumerate(function.pairs.long().tolist()):
            value = self._of_target(values[index])
            texts = (self.units[first].text, self.units[second].text)
            importance = float(function.pair_importances[index] + self._log_occurrences().mean())
            found.append(Interaction((first, second), texts, value, importance))
        return tuple(sorted(found, key=lambda one: -one.importance))

    @property
    def prediction(self) -> float:
        """The model's own output on the whole text."""
        return self.full[self._target.column] * self._target.sign

    @property
    def base_value(self) -> float:
        """What the surrogate gives for an empty text.

        That is the sink's value, or 0 for a SLALOM without a sink.
        """
        return self._of_target(self.function.empty())

    @property
    def calls(self) -> int:
        """All model calls this explanation took."""
        return self.calls_fit + self.calls_check

    @property
    def standard_errors(self) -> dict[str, Array]:
        """Standard errors by score name, (n,) each; NaN where the calls cannot tell."""
        by_score: dict[str, Array] = {}
        for name, errors in self.column_errors[self._target.column].items():
            by_score[name] = np.array(errors)
        if self.has_importances and "linearized" in by_score:
            by_score["linearized"] *= np.exp(self._per_occurrence())
        return {name: _freeze(errors) for name, errors in by_score.items()}

    @property
    def fidelity(self) -> Fidelity | None:
        """Agreement with the model on held-out calls; None where no calls were left for that."""
        if self.column_fidelity is None:
            return None
        return self.column_fidelity[self._target.column]

    @property
    def trust(self) -> str:
        """How far this explanation can be trusted, in one plain sentence."""
        if ALL_UNKNOWN in self.notes:
            return _NOTHING_KNOWN
        units = _UNITS.get(self.granularity, "units")
        if self.fidelity is not None:
            return self.fidelity.sentence(units, self._few_points())
        if not self.calls:
            return _MADE_ELSEWHERE
        if len({unit.token_ids or unit.text for unit in self.units}) == 1:
            return _ONE_UNIT
        if any("tested=False" in note for note in self.notes):
            return _NOT_WANTED
        if len(self.units) < 6 and self.calls >= 2 ** len(self.units) - 2:
            return _TOO_SHORT
        return _TOO_FEW_CALLS

    def _few_points(self) -> float | None:
        """By how much removing a few units moves the target's probability, in nine cases of ten."""
        if self.outputs.kind == "regression" or self.fidelity is None:
            return None
        change = self.fidelity.few.largest_change
        if math.isnan(change):
            return None
        odds = self.prediction
        if self.outputs.kind == "multiclass":
            total = sum(math.exp(min(output, 700.0)) for output in self.full)
            share = math.exp(min(self.full[self._target.column], 700.0)) / total
            odds = math.log(max(share, 1e-300)) - math.log(max(1 - share, 1e-300))
        ends = [
            1 / (1 + math.exp(-max(min(odds + step, 700), -700))) for step in (-change, 0, change)
        ]
        return max(abs(end - ends[1]) for end in ends)

    def scores(self, name: str = DEFAULT_SCORE, *, gamma: float = 0.0) -> Array:
        """One score per unit, (n,).

        Args:
            name: "value", "importance", "removal", "alone", "slope", "shapley", "linearized", or
                "filled", where it was asked for.
            gamma: what importances sum to (Sec. 5.2): the paper names 0 and 1. It adds the same
                to each, so that linearized scores change by one factor, and no other score and no
                prediction changes.
        """
        if name not in SCORES:
            raise one_of("score", name, SCORES)
        if not math.isfinite(gamma):
            raise InputError(f"gamma is {gamma!r}: give what importances sum to, such as 0 or 1")
        if name == "filled" and name not in self._measured:
            raise InputError(
                "the text filled with each unit was not sent to the model: explain with "
                "method=Slalom(filled=True)"
            )
        if isinstance(self.function, BoundedSlalom | SlalomSurrogate):
            scores = self._slalom_scores(self.function, name)
            if name == "importance":
                scores = scores + gamma / len(self.units)
            if name == "linearized":
                scores = scores * np.exp(gamma / len(self.units))
            return _freeze(scores)
        if name == "importance":
            raise InputError(
                f"method {self.method!r} has no importances: it gives one score per unit; "
                "take another score or use method='slalom'"
            )
        target = self._target
        scores = one_score(self.function, name, target.column).numpy()
        return _freeze(scores * target.sign + 0.0)  # + 0.0: no negative zeros

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of the scores that differ: most methods have one under most names."""
        if self.has_importances:
            return tuple(name for name in SCORES if name != "filled" or name in self._measured)
        if self.surrogate == "pairs":
            return ("value", "removal", "alone")
        return ("value", "alone")

    def source(self, score: str) -> str:
        """Where a score comes from.

        Args:
            score: any name that ``scores`` takes.

        Returns:
            "measured" where it is the model's own answer, "fitted" where it was estimated from
            answers to other texts.
        """
        if score not in SCORES:
            raise one_of("score", score, SCORES)
        return "measured" if score in self._measured else "fitted"

    @property
    def _measured(self) -> Mapping[str, Array]:
        """The measured scores of the target's column."""
        if not self.column_measured:
            return {}
        return self.column_measured[self._target.column]

    def _slalom_scores(self, function: BoundedSlalom | SlalomSurrogate, name: str) -> Array:
        target = self._target
        if name == "linearized":
            return np.asarray(self.scores("value") * np.exp(self.scores("importance")))
        if name in self._measured:
            return self._measured[name] * target.sign + 0.0  # + 0.0: no negative zeros
        if isinstance(function, BoundedSlalom):
            scores: Array = score_units(function, name, target.column).numpy()
        elif name == "shapley":
            scores = self._shapley_values[:, target.column]
        else:
            scores = slalom_score(function, name, target.column).numpy()
        if name == "importance":  # how strongly a unit is heard is the same for both classes
            return scores + 0.0 + self._per_occurrence()
        return scores * target.sign + 0.0

    @cached_property
    def _shapley_values(self) -> Array:
        """Of all columns, (n, C), for the paper's methods: in a long text they take seconds."""
        assert isinstance(self.function, SlalomSurrogate)
        values: Array = shapley_values(self.function).numpy()
        return values

    def predict(self, keep: ArrayLike) -> Array:
        """The explanation's prediction for edited texts, without the model.

        Args:
            keep: (m, n_units); True or False keeps or deletes, whole numbers repeat, fractions
                remove softly (Eq. 5).

        Returns:
            (m,), on the scale of ``prediction``.
        """
        rows = _check_rows(keep, len(self.units))
        predicted = self.function.predict(torch.as_tensor(rows))[:, self._target.column]
        return predicted.numpy() * self._target.sign

    def _log_occurrences(self) -> Array:
        """The logarithm of how often each unit stands in the text, (n,)."""
        occurrences = self.occurrences or (1,) * len(self.units)
        return np.log(np.array(occurrences, dtype=np.float64))

    def _per_occurrence(self) -> Array:
        """From the importance of all occurrences of a unit to that of one, (n,), summing to 0."""
        logarithms = self._log_occurrences()
        return np.asarray(logarithms.mean() - logarithms)

    def _of_target(self, columns: Tensor) -> float:
        """The target's number among those of all columns, (C,), with its sign."""
        return float(columns[self._target.column]) * self._target.sign


def _check_rows(keep: ArrayLike, units: int) -> Array:
    """What ``predict`` was given as numbers, (m, units)."""
    if isinstance(keep, Tensor):
        keep = keep.detach().cpu()
    try:
        rows = np.asarray(keep, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"keep has entries that are not numbers, or rows of unequal length ({error}): "
            f"give an array (rows, {units})"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != units:
        raise InputError(
            f"keep has shape {rows.shape}: expected (rows, {units}), one column per unit"
        )
    if not np.isfinite(rows).all() or (rows < 0).any():
        raise InputError(
            "keep has negative or non-finite entries: give 0 to delete, 1 to keep, n to repeat"
        )
    return rows


def _freeze(array: Array) -> Array:
    array.setflags(write=False)
    return array
