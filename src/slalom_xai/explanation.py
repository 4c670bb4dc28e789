"""The frozen result: scores, predictions, trust, saving."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from slalom_xai.errors import InputError, one_of, shortened
from slalom_xai.outputs import Outputs, Target
from slalom_xai.saved import fidelity_from_dict, function_from_dict, function_to_dict, listed, without_nan
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.quality import Fidelity
from slalom_xai.surrogates.scores import SCORES, additive_score, slalom_score
from slalom_xai.surrogates.slalom import SlalomSurrogate
from slalom_xai.text import Unit

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "slalom-explanation"
VERSION = 1

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model answered as it did, for one text and one target.

    Explanations come from an ``Explainer`` or from ``Explanation.load``; nothing in one changes.

    Attributes:
        text: the text as given.
        units: the pieces that have scores, in reading order.
        method: the name of the method.
        model: the name of the model.
        granularity: what the units are.
        removal: what leaving out a unit meant.
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
        notes: what the method wants a reader to know, a sentence each.
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanation) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.text, self.method, self.model, self.target_index, self.full))

    def __repr__(self) -> str:
        return f"<Explanation of {shortened(self.text, 40)}: {self.target} {self.prediction:+.3f}, {len(self.units)} units, {self.method}>"

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
        if isinstance(self.function, AdditiveSurrogate) or self.function.sink_values is None or self.function.sink_importances is None:
            return None
        value = float(self.function.sink_values[0, self._target.column])
        return value * self._target.sign, float(self.function.sink_importances[0] + self._log_occurrences().mean())

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
        found = {name: np.array(errors) for name, errors in self.column_errors[self._target.column].items()}
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
        if self.fidelity is not None:
            return self.fidelity.sentence()
        if len({unit.token_ids or unit.text for unit in self.units}) == 1:
            return "The text is one unit, or repeats of one: its value is the model's output, and there is nothing to compare it with."
        return "Not tested: so short a text, or so small a budget, leaves no deletions to test the explanation on."

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
                raise InputError(f"method {self.method!r} has no importances: it is additive; ask for another score or use method='slalom'")
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
            rows = np.asarray(keep.detach().cpu() if isinstance(keep, Tensor) else keep, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"keep has no numbers in rows of equal length ({error}): give an array (rows, {len(self.units)})") from error
        if rows.ndim != 2 or rows.shape[1] != len(self.units):
            raise InputError(f"keep has shape {rows.shape}: expected (rows, {len(self.units)}), one column per unit")
        if not np.isfinite(rows).all() or (rows < 0).any():
            raise InputError("keep has negative or non-finite entries: give 0 to delete, 1 to keep, n to repeat")
        predicted = self.function.predict(torch.as_tensor(rows))[:, self._target.column]
        return predicted.numpy() * self._target.sign

    def for_target(self, target: str | int) -> Explanation:
        """The same explanation for another class, without model calls."""
        return replace(self, target_index=self.outputs.index(target))

    def as_list(self, score: str = "linearized") -> list[tuple[str, float]]:
        """Pairs of unit text and score, in reading order."""
        return [(unit.text, float(number)) for unit, number in zip(self.units, self.scores(score), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """One row per unit: its span, every score and every standard error."""
        import pandas as pd

        columns: dict[str, Any] = {
            "unit": [unit.text for unit in self.units],
            "start": [unit.start for unit in self.units],
            "end": [unit.end for unit in self.units],
        }
        names = SCORES if self.surrogate == "slalom" else ("value", "alone")
        columns |= {name: self.scores(name) for name in names}
        columns |= {f"{name}_se": error for name, error in self.standard_errors.items() if name in names}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data for JSON; NaN becomes None."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "text": self.text,
            "left_out": self.left_out,
            "model": self.model,
            "method": self.method,
            "granularity": self.granularity,
            "removal": self.removal,
            "random_state": self.random_state,
            "outputs": {"kind": self.outputs.kind, "labels": list(self.outputs.labels)},
            "target": self.target_index,
            "full": list(self.full),
            "units": [{"text": u.text, "start": u.start, "end": u.end, "token_ids": list(u.token_ids)} for u in self.units],
            "function": function_to_dict(self.function),
            "standard_errors": [{name: listed(errors) for name, errors in column.items()} for column in self.column_errors],
            "fidelity": None if self.column_fidelity is None else [without_nan(asdict(column)) for column in self.column_fidelity],
            "calls_fit": self.calls_fit,
            "calls_check": self.calls_check,
            "occurrences": list(self.occurrences),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Explanation:
        """The inverse of ``to_dict``."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InputError(f"this is not a saved explanation (no format {FORMAT!r}): give a file written by Explanation.save")
        if data.get("version") != VERSION:
            raise InputError(
                f"the explanation has version {data.get('version')!r}, this package reads version {VERSION}: update slalom-xai, or explain again"
            )
        try:
            return cls(
                text=data["text"],
                units=tuple(Unit(u["text"], u["start"], u["end"], tuple(u["token_ids"])) for u in data["units"]),
                method=data["method"],
                model=data["model"],
                granularity=data["granularity"],
                removal=data["removal"],
                outputs=Outputs(data["outputs"]["kind"], tuple(data["outputs"]["labels"])),
                target_index=data["target"],
                full=tuple(data["full"]),
                function=function_from_dict(data["function"]),
                column_errors=tuple({name: np.array(errors, dtype=float) for name, errors in c.items()} for c in data["standard_errors"]),
                column_fidelity=None if data["fidelity"] is None else tuple(map(fidelity_from_dict, data["fidelity"])),
                calls_fit=data["calls_fit"],
                calls_check=data["calls_check"],
                left_out=data["left_out"],
                random_state=data["random_state"],
                occurrences=tuple(data["occurrences"]),
                notes=tuple(data["notes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the saved explanation is damaged ({type(error).__name__}: {error}): explain again") from error

    def save(self, path: str | Path) -> Path:
        """Writes JSON that ``load`` reads; returns the path."""
        path = Path(path)
        try:
            path.write_text(json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}; give a path in a folder that exists") from error
        return path

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Reads what ``save`` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not JSON ({error}): give a file written by Explanation.save") from error

    def to_html(self, path: str | Path) -> Path:
        """Writes a self-contained page; returns the path."""
        from slalom_xai.reports.html import page

        path = Path(path)
        try:
            path.write_text(page(self), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}; give a path in a folder that exists") from error
        return path

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
