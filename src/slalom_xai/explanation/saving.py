"""Explanations as plain data for JSON, and the files that hold them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation.file_checks import data_problems, is_whole, refuse
from slalom_xai.explanation.function_data import (
    fidelity_from_dict,
    function_from_dict,
    function_to_dict,
    listed,
    without_nan,
)
from slalom_xai.explanation.old_files import update_data
from slalom_xai.outputs import Outputs
from slalom_xai.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

FORMAT = "slalom-explanation"
VERSION = 3
READABLE = (1, 2, 3)
_REASON = 200  # characters of Python's own words in a message, at most


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Everything an explanation holds; NaN becomes None."""
    fidelity = None
    if explanation.column_fidelity is not None:
        fidelity = [without_nan(asdict(column)) for column in explanation.column_fidelity]
    errors = []
    for by_score in explanation.column_errors:
        errors.append({name: listed(numbers) for name, numbers in by_score.items()})
    measured = []
    for by_score in explanation.column_measured:
        measured.append({name: listed(numbers) for name, numbers in by_score.items()})
    outputs = explanation.outputs
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
        "outputs": {"kind": outputs.kind, "labels": list(outputs.labels)},
        "target": explanation.target_index,
        "full": list(explanation.full),
        "units": [_unit_to_dict(unit) for unit in explanation.units],
        "function": function_to_dict(explanation.function),
        "measured": measured,
        "standard_errors": errors,
        "fidelity": fidelity,
        "calls_fit": explanation.calls_fit,
        "calls_check": explanation.calls_check,
        "passes": explanation.passes,
        "occurrences": list(explanation.occurrences),
        "notes": list(explanation.notes),
        "question": explanation.question,
        "reply": explanation.reply,
    }


def file_content(explanation: Explanation) -> str:
    """What the file of an explanation holds."""
    everything = {**explanation_to_dict(explanation), **scores_to_dict(explanation)}
    return json.dumps(everything, ensure_ascii=False, allow_nan=False) + "\n"


def scores_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Every unit's scores for the target, where each comes from, and pairs: for other programs.

    All of it follows from the rest of the file, so it is not read back.
    """
    names = explanation.score_names
    return {
        "scores": {name: listed(explanation.scores(name)) for name in names},
        "sources": {name: explanation.source(name) for name in names},
        "interactions": [asdict(pair) for pair in explanation.interactions],
    }


def _unit_to_dict(unit: Unit) -> dict[str, Any]:
    return {
        "text": unit.text,
        "start": unit.start,
        "end": unit.end,
        "token_ids": list(unit.token_ids),
        "part": unit.part,
    }


def explanation_fields(data: Any) -> dict[str, Any]:
    """The inverse of ``explanation_to_dict``: what an explanation is made from, by name."""
    _check_format(data)
    data = update_data(data)
    refuse(data_problems(data))
    try:
        return _fields(data)
    except KeyError as error:
        raise InputError(
            f"the saved explanation is damaged (the field {error} is missing): explain again"
        ) from error
    except (TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())[:_REASON]
        raise InputError(
            f"the saved explanation is damaged ({type(error).__name__}: {reason}): explain again"
        ) from error


def _check_format(data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(
            f"this is not a saved explanation (no format {FORMAT!r}): "
            "give a file written by Explanation.save"
        )
    version: Any = data.get("version")
    if is_whole(version) and version in READABLE:
        return
    if not is_whole(version) or version >= 1000:
        version = "unknown"
    raise InputError(
        f"the explanation has version {version}, but this package reads versions up to {VERSION}: "
        "update slalom-xai, or explain again"
    )


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of an explanation; files written before a field was invented lack it."""
    fidelity = None
    if data["fidelity"] is not None:
        fidelity = tuple(map(fidelity_from_dict, data["fidelity"]))
    errors = []
    for by_score in data["standard_errors"]:
        errors.append({name: np.array(numbers, dtype=float) for name, numbers in by_score.items()})
    measured = []
    for by_score in data.get("measured", []):  # invented later
        measured.append(
            {name: np.array(numbers, dtype=float) for name, numbers in by_score.items()}
        )
    return {
        "text": data["text"],
        "text_pair": data.get("text_pair"),  # invented later
        "units": tuple(_unit_from_dict(unit) for unit in data["units"]),
        "method": data["method"],
        "model": data["model"],
        "granularity": data["granularity"],
        "removal": data["removal"],
        "outputs": Outputs(data["outputs"]["kind"], tuple(data["outputs"]["labels"])),
        "target_index": data["target"],
        "full": tuple(data["full"]),
        "function": function_from_dict(data["function"]),
        "column_measured": tuple(measured),
        "column_errors": tuple(errors),
        "column_fidelity": fidelity,
        "calls_fit": data["calls_fit"],
        "calls_check": data["calls_check"],
        "passes": data.get("passes", 0),  # invented later
        "left_out": data["left_out"],
        "random_state": data["random_state"],
        "occurrences": tuple(data["occurrences"]),
        "notes": tuple(data["notes"]),
        "question": data.get("question"),  # invented later
        "reply": data.get("reply"),  # invented later
    }


def _unit_from_dict(data: dict[str, Any]) -> Unit:
    return Unit(
        data["text"],
        data["start"],
        data["end"],
        tuple(data["token_ids"]),
        data.get("part", 0),  # invented later
    )
