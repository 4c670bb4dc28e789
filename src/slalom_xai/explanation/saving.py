"""Explanations, their surrogates and their fidelity as plain data, for JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.errors import InputError, shortened
from slalom_xai.explanation.file_checks import data_problems, is_whole
from slalom_xai.outputs import Outputs
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.quality import Agreement, Fidelity
from slalom_xai.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

FORMAT = "slalom-explanation"
VERSION = 1
_WIDEST = (
    700  # between importances, which are logarithms of weights: beyond, the smaller weight is 0
)


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
        "units": [
            {
                "text": u.text,
                "start": u.start,
                "end": u.end,
                "token_ids": list(u.token_ids),
                "part": u.part,
            }
            for u in units
        ],
        "function": function_to_dict(explanation.function),
        "standard_errors": [
            {name: listed(errors) for name, errors in column.items()}
            for column in explanation.column_errors
        ],
        "fidelity": None
        if fidelity is None
        else [without_nan(asdict(column)) for column in fidelity],
        "calls_fit": explanation.calls_fit,
        "calls_check": explanation.calls_check,
        "passes": explanation.passes,
        "occurrences": list(explanation.occurrences),
        "notes": list(explanation.notes),
    }


def explanation_fields(data: Any) -> dict[str, Any]:
    """The inverse of ``explanation_to_dict``: what an explanation is made from, by name."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(
            f"this is not a saved explanation (no format {FORMAT!r}): give a file written by Explanation.save"
        )
    if data.get("version") != VERSION:
        given = (
            data["version"]
            if is_whole(data.get("version")) and data["version"] < 1000
            else "unknown"
        )
        raise InputError(
            f"the explanation has version {given}, but this package reads version {VERSION}: update slalom-xai, or explain again"
        )
    _refuse(data_problems(data))
    try:
        return {
            "text": data["text"],
            "text_pair": data.get(
                "text_pair"
            ),  # files written before pairs were explained have none
            "units": tuple(
                Unit(u["text"], u["start"], u["end"], tuple(u["token_ids"]), u.get("part", 0))
                for u in data["units"]
            ),
            "method": data["method"],
            "model": data["model"],
            "granularity": data["granularity"],
            "removal": data["removal"],
            "outputs": Outputs(data["outputs"]["kind"], tuple(data["outputs"]["labels"])),
            "target_index": data["target"],
            "full": tuple(data["full"]),
            "function": function_from_dict(data["function"]),
            "column_errors": tuple(
                {name: np.array(errors, dtype=float) for name, errors in c.items()}
                for c in data["standard_errors"]
            ),
            "column_fidelity": None
            if data["fidelity"] is None
            else tuple(map(fidelity_from_dict, data["fidelity"])),
            "calls_fit": data["calls_fit"],
            "calls_check": data["calls_check"],
            "passes": data.get("passes", 0),  # files written before they were counted have none
            "left_out": data["left_out"],
            "random_state": data["random_state"],
            "occurrences": tuple(data["occurrences"]),
            "notes": tuple(data["notes"]),
        }
    except KeyError as error:
        raise InputError(
            f"the saved explanation is damaged (the field {error} is missing): explain again"
        ) from error
    except (TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"the saved explanation is damaged ({type(error).__name__}: {reason}): explain again"
        ) from error


def _refuse(problems: Iterator[str]) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise InputError(f"the saved explanation is damaged ({problem}): explain again")


def check_loaded(explanation: Explanation, data: dict[str, Any]) -> None:
    """Says what is wrong with a file whose fields are there but do not fit each other.

    Args:
        explanation: as made from the fields.
        data: what the file held.

    Raises:
        InputError: a field that no explanation has, of the wrong type or length, or with numbers that are not finite.
    """
    _refuse(_problems(explanation, data))


def _problems(explanation: Explanation, data: dict[str, Any]) -> Iterator[str]:
    """Ordered, so that each check can rely on those before it; types are known to be right."""
    labels, full = explanation.outputs.labels, explanation.full
    if explanation.outputs.kind == "binary" and len(labels) != 2:
        yield f"there are {len(labels)} labels for two classes"
    if len(full) != (1 if explanation.outputs.kind == "binary" else len(labels)):
        yield f"there are {len(full)} outputs for {len(labels)} labels"
    if explanation.target_index >= len(labels):
        yield f"target is {explanation.target_index!r}, with {len(labels)} labels"
    yield from _function_problems(explanation.function, len(explanation.units), len(full))
    lengths = [len(numbers) for column in explanation.column_errors for numbers in column.values()]
    if len(explanation.column_errors) != len(full) or any(
        length != len(explanation.units) for length in lengths
    ):
        yield "standard_errors do not fit the units"
    if explanation.column_fidelity is not None and len(explanation.column_fidelity) != len(full):
        yield "fidelity does not fit the outputs"
    if explanation.occurrences and len(explanation.occurrences) != len(explanation.units):
        yield "occurrences do not fit the units"
    if not all(times > 0 for times in explanation.occurrences):
        yield "occurrences are not whole numbers above 0"
    foreign = sorted(map(str, data.keys() - explanation_to_dict(explanation).keys()))
    if foreign:
        yield f"unknown fields {', '.join(shortened(name, 40) for name in foreign[:5])}"


def _function_problems(
    function: SlalomSurrogate | AdditiveSurrogate, units: int, columns: int, where: str = "function"
) -> Iterator[str]:
    entries = vars(function)
    for name, shape in _shapes(function, units, columns).items():
        found = tuple(entries[name].shape) if isinstance(entries[name], torch.Tensor) else None
        if found != shape:
            yield f"{where}.{name} has shape {found}, but {shape} fits the units and outputs"
        if not bool(torch.isfinite(entries[name]).all()):
            yield f"{where}.{name} has entries that are not finite numbers"
    if isinstance(function, AdditiveSurrogate):
        return
    if (function.sink_values is None) != (function.sink_importances is None):
        yield f"{where} has only one of the two numbers of a sink"
    every = [function.importances] + (
        [] if function.sink_importances is None else [function.sink_importances[:, None]]
    )
    if bool(
        (torch.cat(every, dim=1).amax(dim=1) - torch.cat(every, dim=1).amin(dim=1) > _WIDEST).any()
    ):
        yield f"{where} has importances that differ by more than {_WIDEST}"
    if function.length_offsets is not None and bool(function.length_offsets[[0, -1]].any()):
        yield f"{where}.length_offsets is not 0 for no unit and for all units"
    if entries["nearest"] is not None:
        if not isinstance(entries["nearest"], SlalomSurrogate):
            yield f"{where}.nearest is not a SLALOM"
        yield from _function_problems(entries["nearest"], units, columns, f"{where}.nearest")
        if len(entries["nearest"].values) != 1:
            yield f"{where}.nearest has {len(entries['nearest'].values)} heads, but there should be 1"


def _shapes(
    function: SlalomSurrogate | AdditiveSurrogate, units: int, columns: int
) -> dict[str, tuple[int, ...]]:
    """The shape that each tensor of a surrogate has to have; without those that it may lack and does."""
    if isinstance(function, AdditiveSurrogate):
        return {"unit_scores": (units, columns), "full": (columns,)}
    values: Any = function.values  # from a file: perhaps no list at all
    heads = len(values) if isinstance(values, torch.Tensor) and values.ndim else 1
    optional = {
        "sink_values": (heads, columns),
        "sink_importances": (heads,),
        "length_offsets": (units + 1, columns),
    }
    there = {name: shape for name, shape in optional.items() if getattr(function, name) is not None}
    return {"values": (heads, units, columns), "importances": (heads, units)} | there


def read_json(path: str | Path, written_by: str = "Explanation.save") -> Any:
    """Reads JSON.

    Args:
        path: of the file.
        written_by: what wrote such files, for the message.

    Raises:
        InputError: it cannot be read, or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(
            f"{path} is nested too deep to be read: give a file written by {written_by}"
        ) from error
    except ValueError as error:
        known = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        reason = (
            " ".join(str(error).split())[:200]
            if known
            else "it holds a number of thousands of digits"
        )
        raise InputError(
            f"{path} is not JSON ({reason}): give a file written by {written_by}"
        ) from error


def listed(numbers: ArrayLike) -> list[float | None]:
    """Numbers for JSON, which has no NaN."""
    return [
        None if math.isnan(number) else number
        for number in np.asarray(numbers, dtype=float).tolist()
    ]


def without_nan(data: Any) -> Any:
    """Nested dictionaries for JSON, which has no NaN."""
    if isinstance(data, dict):
        return {key: without_nan(entry) for key, entry in data.items()}
    return None if isinstance(data, float) and math.isnan(data) else data


def fidelity_from_dict(data: dict[str, dict[str, Any]]) -> Fidelity:
    """The inverse of ``asdict`` with ``without_nan``."""
    found = {}
    for name, stored in data.items():
        numbers: dict[str, Any] = {
            key: math.nan if number is None else number for key, number in stored.items()
        }
        found[name] = Agreement(**numbers)
    return Fidelity(**found)


def function_to_dict(function: SlalomSurrogate | AdditiveSurrogate) -> dict[str, Any]:
    """A surrogate as nested lists."""
    kind = "slalom" if isinstance(function, SlalomSurrogate) else "linear"
    found: dict[str, Any] = {"kind": kind}
    for name, entry in vars(function).items():
        found[name] = (
            entry.tolist()
            if isinstance(entry, torch.Tensor)
            else None
            if entry is None
            else function_to_dict(entry)
        )
    return found


def function_from_dict(data: dict[str, Any]) -> SlalomSurrogate | AdditiveSurrogate:
    """The inverse of ``function_to_dict``."""
    entries: dict[str, Any] = {}
    for name, entry in data.items():
        if name != "kind":
            nested = isinstance(entry, dict)
            entries[name] = (
                None
                if entry is None
                else function_from_dict(entry)
                if nested
                else torch.tensor(entry, dtype=torch.float64)
            )
    return SlalomSurrogate(**entries) if data["kind"] == "slalom" else AdditiveSurrogate(**entries)
