"""The frozen result: scores, predictions, trust, saving."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slalom_xai.errors import InputError, one_of, shortened
from slalom_xai.explanation import exchange
from slalom_xai.explanation.saving import (
    check_loaded,
    explanation_fields,
    explanation_to_dict,
    read_json,
)
from slalom_xai.outputs import Outputs, Target
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.quality import Fidelity
from slalom_xai.surrogates.scores import SCORES, additive_score, slalom_score
from slalom_xai.system.files import write_file
from slalom_xai.text import ALL_UNKNOWN, Unit

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model answered as it did, for one text and one target.

    Explanations come from an ``Explainer``, from ``Explanation.load`` or from another library; nothing in one changes.

    Attributes:
        text: the text as given.
        units: the pieces that have scores, in reading order.
        method: the name of the method.
        model: the name of the model.
        granularity: what the units are.
        removal: what leaving out a unit meant; "unknown" for scores made elsewhere.
        outputs: what the model's numbers mean.
        target_index: which of ``outputs.labels`` is explained.
        full: the model's own outputs on the whole text, one per explained column.
        function: the surrogate that predicts what deletions do, for all columns.
        column_errors: standard errors per column, by score name.
        column_fidelity: fidelity per column; None where no calls were left to check.
        calls_fit: model calls used to fit and to choose.
        calls_check: model calls used only to report.
        left_out: the end of the text that truncation cut off.
        random_state: the seed.
        occurrences: how often each unit stands in the text, where that is more than once (granularity "type"); the
            importances inside ``function`` are those of all occurrences together.
        notes: what a reader should know, a sentence each.
        passes: rows put through the model from within (gradients, attention), beside ``calls``.
        text_pair: the second text of a pair; its units have ``part`` 1.
    """

    text: str
    units: tuple[Unit, ...]
    method: str
    model: str
    granularity: str
    removal: str
    outputs: Outputs
    target_index: int
    full: tuple[float, ...]
    function: SlalomSurrogate | AdditiveSurrogate
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanation) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.text, self.method, self.model, self.target_index, self.full))

    def __repr__(self) -> str:
        told = f"{self.target} {self.prediction:+.3f}, {len(self.units)} units, {self.method}"
        return f"<Explanation of {shortened(self.text, 40)}: {' '.join(told.split())}>"

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
        """Which kind of function predicts: "slalom" or "linear"."""
        return "slalom" if isinstance(self.function, SlalomSurrogate) else "linear"

    @property
    def values(self) -> Array:
        """Where each unit pulls the output, (n,)."""
        return self.scores("value")

    @property
    def importances(self) -> Array | None:
        """How loudly each unit speaks, (n,), summing to 0; None for additive methods."""
        return self.scores("importance") if self.surrogate == "slalom" else None

    @property
    def sink(self) -> tuple[float, float] | None:
        """Value and importance of what is always there; None without a sink."""
        if isinstance(self.function, AdditiveSurrogate):
            return None
        function = self.function.one_head
        if function.sink_values is None or function.sink_importances is None:
            return None
        value = float(function.sink_values[0, self._target.column])
        return value * self._target.sign, float(
            function.sink_importances[0] + self._log_occurrences().mean()
        )

    @property
    def prediction(self) -> float:
        """The model's own output on the whole text."""
        return self.full[self._target.column] * self._target.sign

    @property
    def base_value(self) -> float:
        """What the surrogate gives for an empty text: the sink's value, or 0 for a SLALOM without one."""
        return self._of_target(self.function.empty())

    @property
    def calls(self) -> int:
        """All model calls this explanation took."""
        return self.calls_fit + self.calls_check

    @property
    def standard_errors(self) -> dict[str, Array]:
        """Standard errors by score name, (n,) each; NaN where the calls cannot tell."""
        found = {
            name: np.array(errors)
            for name, errors in self.column_errors[self._target.column].items()
        }
        if self.surrogate == "slalom" and "linearized" in found:
            found["linearized"] *= np.exp(self._per_occurrence())
        return {name: _frozen(errors) for name, errors in found.items()}

    @property
    def fidelity(self) -> Fidelity | None:
        """Agreement with the model on calls not used to fit or to choose; None where none were left."""
        return None if self.column_fidelity is None else self.column_fidelity[self._target.column]

    @property
    def trust(self) -> str:
        """How far this explanation can be trusted, in one plain sentence."""
        if ALL_UNKNOWN in self.notes:
            return "Do not trust this: every token of the text is unknown to the model, so it cannot tell them apart."
        if self.fidelity is not None:
            return self.fidelity.sentence()
        if not self.calls:
            return "Not tested: these scores were made elsewhere, and no calls to the model came with them."
        if len({unit.token_ids or unit.text for unit in self.units}) == 1:
            return "The text is one unit, or repeats of one: its value is the model's output, and there is nothing to compare it with."
        return "Not tested: the text is too short, or the budget too small, to leave deletions for a test."

    def scores(self, name: str = "linearized") -> Array:
        """One score per unit, (n,).

        Args:
            name: "value", "importance", "alone", "linearized", "slope", "removal" or "shapley".
        """
        if name not in SCORES:
            raise one_of("score", name, SCORES)
        target = self._target
        if isinstance(self.function, AdditiveSurrogate):
            if name == "importance":
                raise InputError(
                    f"method {self.method!r} has no importances: it is additive; ask for another score or use method='slalom'"
                )
            found = additive_score(self.function, name, target.column)
        else:
            found = slalom_score(self.function, name, target.column)
        scores: Array = found.numpy() * (1.0 if name == "importance" else target.sign) + 0.0
        if name == "importance":
            scores = scores + self._per_occurrence()
        elif name == "linearized" and self.surrogate == "slalom":
            scores = scores * np.exp(self._per_occurrence())
        return _frozen(scores)

    def predict(self, keep: ArrayLike) -> Array:
        """The explanation's prediction for edited texts, without asking the model.

        Args:
            keep: (m, n_units); True or False keeps or deletes, whole numbers repeat, fractions remove softly (Eq. 5).

        Returns:
            (m,), on the scale of ``prediction``.
        """
        try:
            rows = np.asarray(
                keep.detach().cpu() if isinstance(keep, Tensor) else keep, dtype=np.float64
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"keep has entries that are not numbers, or rows of unequal length ({error}): give an array (rows, {len(self.units)})"
            ) from error
        if rows.ndim != 2 or rows.shape[1] != len(self.units):
            raise InputError(
                f"keep has shape {rows.shape}: expected (rows, {len(self.units)}), one column per unit"
            )
        if not np.isfinite(rows).all() or (rows < 0).any():
            raise InputError(
                "keep has negative or non-finite entries: give 0 to delete, 1 to keep, n to repeat"
            )
        predicted = self.function.predict(torch.as_tensor(rows))[:, self._target.column]
        return predicted.numpy() * self._target.sign

    def for_target(self, target: str | int) -> Explanation:
        """The same explanation for another class, without model calls."""
        return replace(self, target_index=self.outputs.index(target))

    def as_list(self, score: str = "linearized") -> list[tuple[str, float]]:
        """Pairs of unit text and score, in reading order."""
        return [
            (unit.text, float(number))
            for unit, number in zip(self.units, self.scores(score), strict=True)
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row per unit: its span, every score and every standard error."""
        import pandas as pd

        columns: dict[str, Any] = {
            "unit": [unit.text for unit in self.units],
            "start": [unit.start for unit in self.units],
            "end": [unit.end for unit in self.units],
        }
        if self.text_pair is not None:
            columns["part"] = [unit.part for unit in self.units]
        names = SCORES if self.surrogate == "slalom" else ("value", "alone")
        columns |= {name: self.scores(name) for name in names}
        columns |= {
            f"{name}_se": error for name, error in self.standard_errors.items() if name in names
        }
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data for JSON; NaN becomes None."""
        return explanation_to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Explanation:
        """The inverse of ``to_dict``."""
        explanation = cls(**explanation_fields(data))
        check_loaded(explanation, data)
        return explanation

    def save(self, path: str | Path) -> Path:
        """Writes JSON that ``load`` reads; returns the path."""
        return write_file(
            path, json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
        )

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Reads what ``save`` wrote."""
        return cls.from_dict(read_json(path))

    def to_shap(self) -> Any:
        """The exact Shapley values as a ``shap.Explanation``, for shap's plots.

        Base value and values add up to ``predict`` for the whole text; ``for_target`` exports another class.
        """
        return exchange.to_shap(self)

    def to_captum(self, score: str = "shapley") -> Any:
        """One score as captum's ``VisualizationDataRecord``, for ``captum.attr.visualization.visualize_text``.

        Args:
            score: any name ``scores`` takes; by default the one that shares out the prediction.
        """
        return exchange.to_captum(self, score)

    @classmethod
    def from_scores(
        cls,
        text: str,
        units: Sequence[str] | Sequence[tuple[int, int]] | Sequence[Unit],
        scores: ArrayLike,
        *,
        prediction: ArrayLike | None = None,
        base_value: ArrayLike | None = None,
        label: str | Sequence[str] = "output",
        method: str = "imported",
        model: str = "",
    ) -> Explanation:
        """An additive explanation from scores made elsewhere; the numbers are used as they are, on whatever scale they have.

        Args:
            text: the text that was explained.
            units: strings, found in the text from left to right, if need be without sub-word markers (##, Ġ, ▁, </w>) and in
                any case; or (start, end) pairs of characters; or units of another explanation. Spans may come in any order.
            scores: (n,), or (n, C) with C labels.
            prediction: the model's own output; by default ``base_value`` and the scores added up.
            base_value: the output without any unit; by default what the prediction leaves, or 0. Where both are given and do
                not add up, both are kept and ``notes`` says so.
            label: what the scores argue for; a list for several columns, of which the largest prediction becomes the target.
            method: how the scores were made.
            model: the name of the model.
        """
        return cls(
            **exchange.from_scores(
                text,
                units,
                scores,
                prediction=prediction,
                base_value=base_value,
                label=label,
                method=method,
                model=model,
            )
        )

    @classmethod
    def from_shap(
        cls, values: Any, text: str | None = None, output: str | int | None = None
    ) -> Explanation:
        """From the ``shap.Explanation`` of one text; without ``text``, its tokens joined. ``output``: the target, by name or index."""
        return cls(**exchange.from_shap(values, text, output))

    @classmethod
    def from_captum(cls, record: Any, text: str | None = None) -> Explanation:
        """From a captum ``VisualizationDataRecord``, an ``LLMAttributionResult`` or a pair (tokens, attributions)."""
        return cls(**exchange.from_captum(record, text))

    @classmethod
    def from_lime(
        cls, explanation: Any, text: str | None = None, label: str | int | None = None
    ) -> Explanation:
        """From an explanation by ``LimeTextExplainer``; ``label``: the class, by name or by lime's number."""
        return cls(**exchange.from_lime(explanation, text, label))

    def to_html(self, path: str | Path) -> Path:
        """Writes the interactive view as one page that needs no network; returns the path.

        ``slalom_xai.reports.html.write_report`` puts several explanations into one page.
        """
        from slalom_xai.reports.html import page

        return write_file(path, page(self))

    def _repr_html_(self) -> str:
        from slalom_xai.reports.html import fragment

        return fragment(self)

    def _log_occurrences(self) -> Array:
        return np.log(np.array(self.occurrences or (1,) * len(self.units), dtype=np.float64))

    def _per_occurrence(self) -> Array:
        """From the importance of all occurrences of a unit to that of one, (n,), summing to 0."""
        logarithms = self._log_occurrences()
        return np.asarray(logarithms.mean() - logarithms)

    def _of_target(self, columns: Tensor) -> float:
        return float(columns[self._target.column]) * self._target.sign


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array
