"""Functions and their fidelity as plain data for JSON, which has no NaN."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.pairs import PairsSurrogate
from slalom_xai.surrogates.process import Process
from slalom_xai.surrogates.scores import OneScore

AnyFunction = BoundedSlalom | SlalomSurrogate | OneScore

# What a file calls each kind of function.
FUNCTION_KINDS: dict[str, Any] = {
    "bounded": BoundedSlalom,
    "slalom": SlalomSurrogate,
    "linear": AdditiveSurrogate,
    "pairs": PairsSurrogate,
    "process": Process,
}
_NAMES = {made_from: kind for kind, made_from in FUNCTION_KINDS.items()}


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


def fidelity_from_dict(data: dict[str, Any]) -> Fidelity:
    """The inverse of ``asdict`` with ``without_nan``."""
    parts: dict[str, Any] = dict(data)
    for name in ("few", "any"):
        parts[name] = _agreement(data[name])
    for name in ("linear", "one_score"):
        if parts.get(name) is not None:
            parts[name] = FewAndAny(**{kind: _agreement(one) for kind, one in data[name].items()})
    return Fidelity(**parts)


def _agreement(stored: dict[str, Any]) -> Agreement:
    numbers = dict(stored)
    for key, number in stored.items():
        if number is None:
            numbers[key] = math.nan
    return Agreement(**numbers)


def function_to_dict(function: AnyFunction) -> dict[str, Any]:
    """A function as nested lists."""
    data: dict[str, Any] = {"kind": kind_of(function)}
    for part in fields(function):
        entry = getattr(function, part.name)
        data[part.name] = None if entry is None else entry.tolist()
    return data


def function_from_dict(data: dict[str, Any]) -> AnyFunction:
    """The inverse of ``function_to_dict``."""
    entries: dict[str, Any] = {}
    for name, entry in data.items():
        if name != "kind":
            entries[name] = None if entry is None else torch.tensor(entry, dtype=torch.float64)
    if data["kind"] == "bounded" and not data["pairs"]:
        # An empty list says nothing of its second axis.
        entries["pairs"] = entries["pairs"].reshape(0, 2)
        if not data["pair_values"]:
            entries["pair_values"] = entries["inner_values"][:0]
    function: AnyFunction = FUNCTION_KINDS[data["kind"]](**entries)
    return function
