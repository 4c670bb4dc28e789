"""Explanations as plain data for JSON, and the files that hold them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation.file_checks import (
    data_problems,
    fidelity_from_dict,
    function_from_dict,
    function_to_dict,
    is_whole,
    list_numbers,
    refuse,
    without_nan,
)
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import Unit
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.shapley import compute_shapley

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

# Files that earlier versions wrote, as data of this one.
#
# Their explanations had a second function beside the two scores (a Gaussian process, offsets by
# length, pairs of units) that can no longer be evaluated. What is kept is what they printed: the
# values, the importances and the sink, which are the formula of this version without a bound. A
# note says so.


_NO_WEIGHT = 60  # a difference in importance; exp(-60) is nothing beside 1
_ORDERS = 2000  # behind Shapley values that a file lacks
_CELLS = 2_000_000  # units times orders, at most: a file is loaded in a moment
_CORRECTED = (
    "This file was written by an earlier version: its values, importances and sink predict now, "
    "and its corrections can no longer be evaluated. Explain again for a formula that predicts by "
    "itself."
)
_DROPPED = ("two_scores", "nearest", "repeats", "correction", "interactions")
_GONE = ("length_offsets", "place_level", "growth")  # of functions; empty where they say nothing


def update_data(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a file as this version writes it; damaged data is left for the checks to name."""
    function = data.get("function")
    if isinstance(function, dict):
        kept = {name: part for name, part in function.items() if part or name not in _GONE}
        data = {**data, "function": kept}
    if data.get("version") not in (1, 2):
        return data
    try:
        return _update_format(data)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError):
        return data


def _update_format(data: dict[str, Any]) -> dict[str, Any]:
    now = {**data, "version": 3}
    function = dict(data["function"])
    corrected = any(function.get(name) is not None for name in (*_DROPPED, *_GONE))
    two = function.get("two_scores") or _read_nearest(function.get("nearest"))
    if two is not None:
        function = _as_form(two, function.get("correction"))
    else:
        for name in (*_DROPPED, *_GONE):
            function.pop(name, None)
    now["function"] = function
    if corrected:
        now["notes"] = [*data["notes"], _CORRECTED]
    if data.get("fidelity") is not None:
        now["fidelity"] = [_update_fidelity(column) for column in data["fidelity"]]
    now.pop("interactions", None)
    return now


def _as_form(two: dict[str, Any], correction: dict[str, Any] | None) -> dict[str, Any]:
    """Two scores, with a sink for the share of missing units, as the formula without a bound."""
    values = two["values"]
    units, columns = len(values), len(values[0])
    form = {
        "kind": "bounded",
        "inner_values": values,
        "importances": two["importances"],
        "inner_sink": two["sink_value"],
        "sink_importance": two["sink_importance"] - math.log(units),
        "centre": [0.0] * columns,
        "curvature": [0.0] * columns,
        "shapley": [[0.0] * columns for _ in values],
        "pairs": [],
        "pair_values": [],
        "pair_importances": [],
    }
    if correction:
        return form | {"shapley": correction["shapley"]}
    function = function_from_dict(form)
    assert isinstance(function, BoundedSlalom)
    orders = min(_ORDERS, 1 + _CELLS // units)
    return form | {"shapley": compute_shapley(function.split(), orders).T.tolist()}


def _read_nearest(nearest: dict[str, Any] | None) -> dict[str, Any] | None:
    """The one head that the first version read values and importances from."""
    if nearest is None:
        return None
    (values,), (importances,) = nearest["values"], nearest["importances"]
    sink_value, sink_importance = [0.0] * len(values[0]), min(importances) - _NO_WEIGHT
    if nearest["sink_values"] is not None:
        (sink_value,), (sink_importance,) = nearest["sink_values"], nearest["sink_importances"]
    return {
        "values": values,
        "importances": importances,
        "sink_value": sink_value,
        "sink_importance": sink_importance,
    }


def _update_fidelity(column: dict[str, Any]) -> dict[str, Any]:
    """Fidelity of what is printed, where it was measured, beside a linear fit."""
    shown = column.get("two_scores") or column
    linear = None
    if column.get("linear_local") is not None and column.get("linear_wide") is not None:
        linear = {"few": _plain(column["linear_local"]), "any": _plain(column["linear_wide"])}
    return {"few": _plain(shown["local"]), "any": _plain(shown["wide"]), "linear": linear}


def _plain(agreement: dict[str, Any]) -> dict[str, Any]:
    return {name: number for name, number in agreement.items() if name != "beyond"}


# Explanations as plain data for JSON, and the files that hold them.


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
        errors.append({name: list_numbers(numbers) for name, numbers in by_score.items()})
    measured = []
    for by_score in explanation.column_measured:
        measured.append({name: list_numbers(numbers) for name, numbers in by_score.items()})
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
        "scores": {name: list_numbers(explanation.scores(name)) for name in names},
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
