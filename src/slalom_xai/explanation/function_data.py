"""Surrogates and their fidelity as plain data for JSON, which has no NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.quality import Agreement, Fidelity


def listed(numbers: ArrayLike) -> list[float | None]:
    """Numbers (n,) as a list; NaN becomes None."""
    return [without_nan(number) for number in np.asarray(numbers, dtype=float).tolist()]


def without_nan(data: Any) -> Any:
    """Nested dictionaries in which each NaN has become None."""
    if isinstance(data, dict):
        return {key: without_nan(entry) for key, entry in data.items()}
    if isinstance(data, float) and math.isnan(data):
        return None
    return data


def fidelity_from_dict(data: dict[str, dict[str, Any]]) -> Fidelity:
    """The inverse of ``asdict`` with ``without_nan``."""
    agreements: dict[str, Agreement] = {}
    for name, stored in data.items():
        numbers = dict(stored)
        for key, number in stored.items():
            if number is None:
                numbers[key] = math.nan
        agreements[name] = Agreement(**numbers)
    return Fidelity(**agreements)


def function_to_dict(function: SlalomSurrogate | AdditiveSurrogate) -> dict[str, Any]:
    """A surrogate as nested lists."""
    data: dict[str, Any] = {"kind": "linear"}
    if isinstance(function, SlalomSurrogate):
        data["kind"] = "slalom"
    for name, entry in vars(function).items():
        if isinstance(entry, torch.Tensor):
            data[name] = entry.tolist()
        elif entry is None:
            data[name] = None
        else:
            data[name] = function_to_dict(entry)
    return data


def function_from_dict(data: dict[str, Any]) -> SlalomSurrogate | AdditiveSurrogate:
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
    if data["kind"] == "slalom":
        return SlalomSurrogate(**entries)
    return AdditiveSurrogate(**entries)
