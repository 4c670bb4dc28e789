"""Files that earlier versions wrote, as data of this one.

Their explanations had a second function beside the two scores (a Gaussian process, offsets by
length, pairs of units) that can no longer be evaluated. What is kept is what they printed: the
values, the importances and the sink, which are the formula of this version without a bound. A
note says so.
"""

from __future__ import annotations

import math
from typing import Any

from slalom_xai.explanation.function_data import function_from_dict
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.shapley import compute_shapley

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
        return _updated(data)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError):
        return data


def _updated(data: dict[str, Any]) -> dict[str, Any]:
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
