"""Surrogates and their fidelity as plain data for JSON, which has no NaN."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.correction import Correction
from slalom_xai.surrogates.formula import SlalomSurrogate, TwoScores
from slalom_xai.surrogates.interactions import Interactions
from slalom_xai.surrogates.pairs import PairsSurrogate
from slalom_xai.surrogates.process import Process
from slalom_xai.surrogates.quality import Agreement, FewAndMany, Fidelity
from slalom_xai.surrogates.scores import OneScore

AnyFunction = SlalomSurrogate | OneScore | TwoScores | Correction | Interactions

# What a file calls each kind of function.
FUNCTION_KINDS: dict[str, Any] = {
    "slalom": SlalomSurrogate,
    "linear": AdditiveSurrogate,
    "pairs": PairsSurrogate,
    "process": Process,
    "two scores": TwoScores,
    "correction": Correction,
    "interactions": Interactions,
}
_NAMES = {made_from: kind for kind, made_from in FUNCTION_KINDS.items()}
_NO_WEIGHT = 60  # a difference in importance; exp(-60) is nothing beside 1


def kind_of(function: AnyFunction) -> str:
    """What a file calls a function."""
    return _NAMES[type(function)]


def listed(numbers: ArrayLike) -> list[float | None]:
    """Numbers (n,) as a list; what is not finite becomes None."""
    found: list[float | None] = []
    for number in np.asarray(numbers, dtype=float).tolist():
        found.append(number if math.isfinite(number) else None)
    return found


def without_nan(data: Any) -> Any:
    """Nested dictionaries in which each NaN has become None."""
    if isinstance(data, dict):
        return {key: without_nan(entry) for key, entry in data.items()}
    if isinstance(data, float) and math.isnan(data):
        return None
    return data


def fidelity_from_dict(data: dict[str, dict[str, Any] | None]) -> Fidelity:
    """The inverse of ``asdict`` with ``without_nan``."""
    parts: dict[str, Any] = {}
    for name, stored in data.items():
        if stored is None:
            parts[name] = None
        elif name == "two_scores":
            both = {part: _agreement(numbers) for part, numbers in stored.items()}
            parts[name] = FewAndMany(**both)
        else:
            parts[name] = _agreement(stored)
    return Fidelity(**parts)


def _agreement(stored: dict[str, Any]) -> Agreement:
    numbers = dict(stored)
    for key, number in stored.items():
        if number is None:
            numbers[key] = math.nan
    return Agreement(**numbers)


def function_to_dict(function: AnyFunction) -> dict[str, Any]:
    """A surrogate as nested lists."""
    data: dict[str, Any] = {"kind": kind_of(function)}
    for part in fields(function):
        name, entry = part.name, getattr(function, part.name)
        if isinstance(entry, torch.Tensor):
            data[name] = entry.tolist()
        elif entry is None:
            data[name] = None
        else:
            data[name] = function_to_dict(entry)
    return data


def function_from_dict(data: dict[str, Any]) -> AnyFunction:
    """The inverse of ``function_to_dict``."""
    entries: dict[str, Any] = {}
    for name, entry in data.items():
        if name == "kind":
            continue
        if entry is None:
            entries[name] = None
        elif isinstance(entry, dict):
            entries[name] = function_from_dict(entry)
        else:
            entries[name] = torch.tensor(entry, dtype=torch.float64)
    function: AnyFunction = FUNCTION_KINDS[data["kind"]](**entries)
    return function


def updated(function: dict[str, Any]) -> dict[str, Any]:
    """A function as files have it now, from one that an earlier version wrote.

    Earlier versions read values and importances of several heads from the SLALOM with one head that
    was nearest to them, and their processes did not know places.
    """
    now = _with_places(function)
    correction = now.get("correction")
    if isinstance(correction, dict) and isinstance(correction.get("process"), dict):
        now["correction"] = {**correction, "process": _with_places(correction["process"])}
    nearest = now.pop("nearest", None)
    if nearest is None:
        return now
    try:
        return {**now, "two_scores": _as_two_scores(nearest)}
    except (KeyError, IndexError, TypeError, ValueError):
        return function  # damaged: what it should be is said where all fields are checked


def _with_places(function: dict[str, Any]) -> dict[str, Any]:
    """A copy of a function; a process that did not know places has them at a level of 0."""
    if function.get("kind") != _NAMES[Process]:
        return dict(function)
    return {"place_level": 0.0, **function}


def _as_two_scores(nearest: dict[str, Any]) -> dict[str, Any]:
    """A SLALOM with one head as an earlier version wrote it, as the data of ``TwoScores``."""
    (values,), (importances,) = nearest["values"], nearest["importances"]
    sink_value, sink_importance = [0.0] * len(values[0]), min(importances) - _NO_WEIGHT
    if nearest["sink_values"] is not None:
        (sink_value,), (sink_importance,) = nearest["sink_values"], nearest["sink_importances"]
    return {
        "kind": _NAMES[TwoScores],
        "values": values,
        "importances": importances,
        "sink_value": sink_value,
        "sink_importance": sink_importance,
    }
