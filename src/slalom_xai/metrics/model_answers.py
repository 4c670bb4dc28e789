"""Asking a model about the text of an explanation, in the units of the explanation.

Metrics compare what an explanation says with what the model answers. They must ask about exactly
the same units, with the same kind of removal and truncation, and see answers on the same scale.
``asker`` checks all of this once, before a metric asks.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explainer import REMOVALS, Explainer, read_for_removal
from slalom_xai.explanation import Explanation
from slalom_xai.methods.evidence import accepts_empty
from slalom_xai.models import Prompt
from slalom_xai.models.outputs import Target
from slalom_xai.models.text import GRANULARITIES, Unit
from slalom_xai.queries import Queries
from slalom_xai.queries.repeats import (
    UnitRows,
    ask_repeats,
    contest_rows,
    copies_to_fill,
    doubled_rows,
    filled_rows,
    has_one_place,
    has_room_for_a_copy,
)
from slalom_xai.slalom.rows import RowPool

Array = NDArray[np.float64]
Masks = NDArray[np.bool_]

# Metrics count their calls and have no budget: each decides by its own number of rows what it
# costs.
_UNBOUNDED = 2**62

# Two answers of one model to one text differ by less than this, relative to 1 + their size,
# whatever the batch and the precision. Answers on another scale differ by more.
_SAME = 0.05


class Ask(Protocol):
    """Anything that answers masks."""

    def __call__(self, masks: Masks, /) -> Array:
        """The model's outputs (m,) for masks (m, n), on the scale of ``explanation.prediction``."""


class Asker:
    """A model's own answers about one text, each distinct row asked once; made by ``asker``.

    Attributes:
        outputs: what the model's numbers mean.
        target: the explained label.
        refusal: why the model took no repeated units; empty where it took them, or nobody asked.
    """

    def __init__(self, queries: Queries, target: Target) -> None:
        self.outputs = queries.model.outputs
        self.target = target
        self.refusal = ""
        self._queries = queries

    def __call__(self, masks: Masks, /) -> Array:
        """The explained output (m,) for masks (m, n)."""
        return self.columns(masks)[:, self.target.column] * self.target.sign

    def columns(self, masks: Masks) -> Array:
        """All columns of the outputs, (m, C), for masks (m, n)."""
        columns: Array = self._queries.ask(np.asarray(masks, dtype=bool), "check").cpu().numpy()
        return columns

    @property
    def codes(self) -> NDArray[np.int64]:
        """(n,), equal where two units read the same."""
        return self._queries.prompt.codes

    def empty(self) -> float | None:
        """The explained output where nothing is kept; None for a model that takes no empty text."""
        if not accepts_empty(self._queries):
            return None
        return float(self(np.zeros((1, len(self.codes)), dtype=bool))[0])

    def filled(self) -> Array | None:
        """The explained output for the text filled with each unit, (n,); None where refused."""
        copies = copies_to_fill(self._queries)
        return self._query_repeats(filled_rows(np.arange(len(copies)), copies))

    def contests(self, pairs: NDArray[np.int64]) -> Array | None:
        """The explained output for texts filled half with one unit, half with another.

        Args:
            pairs: (m, 2), the units. Each is asked in both orders, and the mean is taken.

        Returns:
            (m,); None where the model refuses repeats.
        """
        both = np.concatenate([pairs, pairs[:, ::-1]])
        answers = self._query_repeats(contest_rows(both, copies_to_fill(self._queries)))
        if answers is None:
            return None
        return np.asarray(answers.reshape(2, len(pairs)).mean(axis=0))

    def doubled(self) -> Array | None:
        """The explained output for the text with one more copy of each unit, (n,).

        None where the model refuses repeats or reads no longer text, or a unit has several places.
        """
        if not has_one_place(self._queries.prompt):
            self.refusal = "a unit stands in several places"
            return None
        if not has_room_for_a_copy(self._queries):
            self.refusal = "the model reads no text that is longer by a copy"
            return None
        return self._query_repeats(doubled_rows(len(self.codes)))

    def _query_repeats(self, rows: UnitRows) -> Array | None:
        """The explained output (m,) for sequences of units (m, w); None where refused."""
        answers, refusal = ask_repeats(self._queries, rows, "check")
        if answers is None:
            self.refusal = refusal
            return None
        return np.asarray(answers[:, self.target.column].cpu().numpy() * self.target.sign)

    @property
    def calls(self) -> int:
        """Distinct rows asked so far."""
        return self._queries.calls

    def pool(self) -> RowPool:
        """Hands out rows that the model can tell apart."""
        return RowPool(self._queries.prompt.interchangeable, self._queries.prompt.keys)


def asker(explainer: Explainer, explanation: Explanation, *, same_scale: bool = True) -> Asker:
    """Asks an explainer's model about the text of an explanation.

    It asks about the explanation's units, with its kind of removal.

    Args:
        explainer: holds the model; its method does not matter.
        explanation: made by it, or elsewhere and brought over with the same units.
        same_scale: refuse an explanation whose ``prediction`` is not what the model answers. False
            takes one on another scale (probabilities, say): its rankings can be judged, its
            fidelity cannot.

    Raises:
        InputError: the model reads other units, does not have the label, or answers something else
            for the whole text.
    """
    question = _question(explainer, explanation)
    _check_units(explanation.units, question.units)
    queries = Queries(explainer.batches, question, budget=_UNBOUNDED)
    everything = np.ones((1, len(question.units)), dtype=bool)
    full = queries.ask(everything, "check")[0].tolist()
    model = explainer.model
    wanted: str | int = explanation.target
    if explanation.outputs == model.outputs:
        wanted = explanation.target_index
    target = model.outputs.target(wanted, full)
    answer = full[target.column] * target.sign
    if same_scale and abs(answer - explanation.prediction) > _SAME * (1 + abs(answer)):
        raise InputError(
            f"the explanation's prediction is {explanation.prediction:.4g}, "
            f"but {model.name} answers {answer:.4g} for {target.label!r}: "
            "give an explanation of this model on the same scale, "
            "or pass same_scale=False to judge only the ranking"
        )
    return Asker(queries, target)


def _question(explainer: Explainer, explanation: Explanation) -> Prompt:
    """The text of an explanation as the model reads it.

    An explanation made elsewhere may not say how it was made; then the explainer's ways are taken.
    """
    granularity, removal = explanation.granularity, explanation.removal
    if granularity not in GRANULARITIES:
        granularity = explainer.granularity
    if removal not in REMOVALS:
        removal = explainer.removal
    return read_for_removal(
        explainer.model,
        explanation.text,
        explanation.text_pair,
        granularity=granularity,
        removal=removal,
        usual=explainer.method.removal,
        truncation=explainer.truncation or bool(explanation.left_out),
    )


def _check_units(given: tuple[Unit, ...], read: tuple[Unit, ...]) -> None:
    """Refuses units that are not those the model reads."""
    for index, (one, other) in enumerate(zip_longest(given, read)):
        if _span(one) != _span(other):
            raise InputError(
                f"the explanation has {len(given)} units, but the model reads {len(read)}; "
                f"unit {index} is {_named(one)} in the explanation and {_named(other)} in the "
                "model: explain with the same tokenizer, granularity and truncation"
            )


def _span(unit: Unit | None) -> tuple[int, int, int] | None:
    if unit is None:
        return None
    return unit.part, unit.start, unit.end


def _named(unit: Unit | None) -> str:
    if unit is None:
        return "nothing"
    return repr(unit.text)
