"""Explanations, their surrogates and their fidelity as plain data, for JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.errors import InputError
from slalom_xai.outputs import Outputs
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.quality import Agreement, Fidelity
from slalom_xai.surrogates.slalom import SlalomSurrogate
from slalom_xai.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

FORMAT = "slalom-explanation"
VERSION = 1


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Everything an explanation holds; NaN becomes None."""
    fidelity, units = explanation.column_fidelity, explanation.units
    return {
        "format": FORMAT,
        "version": VERSION,
        "text": explanation.text,
        "text_pair": explanation.text_pair,
        "left_out": explanation.left_out,
        "model": explanation.model,
        "method": explanation.method,
        "granularity": explanation.granularity,
        "removal": explanation.removal,
        "random_state": explanation.random_state,
        "outputs": {"kind": explanation.outputs.kind, "labels": list(explanation.outputs.labels)},
        "target": explanation.target_index,
        "full": list(explanation.full),
        "units": [{"text": u.text, "start": u.start, "end": u.end, "token_ids": list(u.token_ids), "part": u.part} for u in units],
        "function": function_to_dict(explanation.function),
        "standard_errors": [{name: listed(errors) for name, errors in column.items()} for column in explanation.column_errors],
        "fidelity": None if fidelity is None else [without_nan(asdict(column)) for column in fidelity],
        "calls_fit": explanation.calls_fit,
        "calls_check": explanation.calls_check,
        "occurrences": list(explanation.occurrences),
        "notes": list(explanation.notes),
    }


def explanation_fields(data: Any) -> dict[str, Any]:
    """The inverse of ``explanation_to_dict``: what an explanation is made from, by name."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"this is not a saved explanation (no format {FORMAT!r}): give a file written by Explanation.save")
    if data.get("version") != VERSION:
        raise InputError(
            f"the explanation has version {data.get('version')!r}, this package reads version {VERSION}: update slalom-xai, or explain again"
        )
    try:
        return {
            "text": data["text"],
            "text_pair": data.get("text_pair"),  # files written before pairs were explained have none
            "units": tuple(Unit(u["text"], u["start"], u["end"], tuple(u["token_ids"]), u.get("part", 0)) for u in data["units"]),
            "method": data["method"],
            "model": data["model"],
            "granularity": data["granularity"],
            "removal": data["removal"],
            "outputs": Outputs(data["outputs"]["kind"], tuple(data["outputs"]["labels"])),
            "target_index": data["target"],
            "full": tuple(data["full"]),
            "function": function_from_dict(data["function"]),
            "column_errors": tuple({name: np.array(errors, dtype=float) for name, errors in c.items()} for c in data["standard_errors"]),
            "column_fidelity": None if data["fidelity"] is None else tuple(map(fidelity_from_dict, data["fidelity"])),
            "calls_fit": data["calls_fit"],
            "calls_check": data["calls_check"],
            "left_out": data["left_out"],
            "random_state": data["random_state"],
            "occurrences": tuple(data["occurrences"]),
            "notes": tuple(data["notes"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the saved explanation is damaged ({type(error).__name__}: {error}): explain again") from error


def write_file(path: str | Path, content: str) -> Path:
    """Writes UTF-8; returns the path."""
    path = Path(path)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; give a path in a folder that exists") from error
    return path


def read_file(path: str | Path) -> Any:
    """Reads JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON ({error}): give a file written by Explanation.save") from error


def listed(numbers: ArrayLike) -> list[float | None]:
    """Numbers for JSON, which has no NaN."""
    return [None if math.isnan(number) else number for number in np.asarray(numbers, dtype=float).tolist()]


def without_nan(data: Any) -> Any:
    """Nested dictionaries for JSON, which has no NaN."""
    if isinstance(data, dict):
        return {key: without_nan(entry) for key, entry in data.items()}
    return None if isinstance(data, float) and math.isnan(data) else data


def fidelity_from_dict(data: dict[str, dict[str, Any]]) -> Fidelity:
    """The inverse of ``asdict`` with ``without_nan``."""
    return Fidelity(**{name: Agreement(math.nan if a["r2"] is None else a["r2"], a["mse"], a["rows"]) for name, a in data.items()})


def function_to_dict(function: SlalomSurrogate | AdditiveSurrogate) -> dict[str, Any]:
    """A surrogate as nested lists."""
    kind = "slalom" if isinstance(function, SlalomSurrogate) else "linear"
    return {"kind": kind} | {name: None if tensor is None else tensor.tolist() for name, tensor in vars(function).items()}


def function_from_dict(data: dict[str, Any]) -> SlalomSurrogate | AdditiveSurrogate:
    """The inverse of ``function_to_dict``."""
    tensors = {name: None if entry is None else torch.tensor(entry, dtype=torch.float64) for name, entry in data.items() if name != "kind"}
    kind = SlalomSurrogate if data["kind"] == "slalom" else AdditiveSurrogate
    return kind(**tensors)  # type: ignore[arg-type]
