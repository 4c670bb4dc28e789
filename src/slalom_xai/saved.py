"""Surrogates and fidelity as plain data, for the JSON of an explanation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.quality import Agreement, Fidelity
from slalom_xai.surrogates.slalom import SlalomSurrogate


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
