"""Scores made anywhere, with the text and its units, as the fields of an additive explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.explanation.exchange.spans import place_units
from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.models.outputs import Outputs

Array = NDArray[np.float64]
Fields = dict[str, Any]  # what an Explanation is made from, by name

_ROUNDING = 1e-6  # sums that differ by less, relative to the output, are called equal

_PLACELESS = (
    "The scores of {count} input pieces without a place in the text, such as special tokens, "
    "are part of the base value."
)


def from_scores(
    text: str,
    units: Sequence[Any],
    scores: Any,
    *,
    prediction: Any = None,
    base_value: Any = None,
    label: str | Sequence[str] = "output",
    method: str = "imported",
    model: str = "",
    target: int | None = None,
    granularity: str = "token",
    removal: str = "unknown",
    occurrences: Sequence[int] = (),
    notes: tuple[str, ...] = (),
) -> Fields:
    """The fields of an additive explanation.

    ``Explanation.from_scores`` says what the arguments are; the others are fields of their own.
    """
    _check_text(text)
    labels = _labels(label)
    columns = _columns(units, scores, labels)
    with_spans = place_units(text, units)
    order = sorted(range(len(with_spans)), key=lambda index: _span(with_spans[index]))
    columns = columns[order]
    full, sums = _outputs(columns, prediction, base_value, labels)
    outputs = Outputs("regression", labels)
    if occurrences:
        occurrences = [int(occurrences[index]) for index in order]
    return {
        "text": text,
        "units": tuple(with_spans[index] for index in order),
        "method": method,
        "model": model,
        "granularity": granularity,
        "removal": removal,
        "outputs": outputs,
        "target_index": outputs.target(target, full.tolist()).index,
        "full": tuple(full.tolist()),
        "function": AdditiveSurrogate(torch.tensor(columns), torch.tensor(sums)),
        "column_errors": ({},) * len(labels),
        "column_fidelity": None,
        "calls_fit": 0,
        "calls_check": 0,
        "occurrences": tuple(occurrences),
        "notes": (*notes, *_gaps(labels, full, sums)),
    }


def without_place(scores: Array) -> list[str]:
    """A note about pieces that are nowhere in the text, unless their scores are all 0.

    Args:
        scores: of these pieces, (k,) or (k, C).
    """
    if not scores.any():
        return []
    return [_PLACELESS.format(count=len(scores))]


def check_numbers(given: Any, what: str) -> Array:
    """Finite numbers from whatever a library holds them in; a single one as (1,).

    Args:
        given: a tensor, an array, a list or a number.
        what: its name in the message.
    """
    if isinstance(given, Tensor):
        given = given.detach().cpu().double()
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: cannot be read as numbers ({error}); give an array of numbers"
        ) from error
    if not numbers.ndim:
        numbers = numbers[None]
    if not np.isfinite(numbers).all():
        index = tuple(int(entry) for entry in np.argwhere(~np.isfinite(numbers))[0])
        raise InputError(
            f"{what}: {numbers[index]} at {', '.join(map(str, index))} is not a finite number; "
            "correct it, or leave that unit out"
        )
    return numbers


def per_label(given: Any, what: str, labels: Sequence[str]) -> Array:
    """One number for each label, (C,); a single one counts for all."""
    numbers = check_numbers(given, what)
    if numbers.shape not in ((1,), (len(labels),)):
        raise InputError(
            f"{what} has shape {numbers.shape} for {len(labels)} labels: "
            "give one number for each label"
        )
    return np.resize(numbers, len(labels))


def _span(unit: Any) -> tuple[int, int]:
    return unit.start, unit.end


def _labels(label: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(label, (list, tuple)):
        return tuple(str(name) for name in label)
    return (str(label),)


def _outputs(
    columns: Array, prediction: Any, base_value: Any, labels: Sequence[str]
) -> tuple[Array, Array]:
    """The model's own output and what base value and scores add up to, (C,) each.

    Where only one of prediction and base value is given, the two are the same.
    """
    sums = columns.sum(axis=0) + 0.0
    if base_value is not None:
        sums = columns.sum(axis=0) + per_label(base_value, "base_value", labels)
    if prediction is None:
        return sums, sums
    full = per_label(prediction, "prediction", labels)
    if base_value is None:
        return full, full
    return full, sums


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise InputError(f"the text is {type(text).__name__}: give the text that was explained")
    if not text.strip():
        raise InputError("the text is empty: give the text that was explained")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise InputError(
            "the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def _columns(units: Any, scores: Any, labels: Sequence[str]) -> Array:
    """Scores as (units, labels)."""
    numbers = check_numbers(scores, "scores")
    if isinstance(units, (str, bytes)) or not hasattr(units, "__len__"):
        raise InputError(
            f"units are of type {type(units).__name__}: "
            "give a list of strings, of (start, end) spans or of Units"
        )
    if len(units) != len(numbers) or not len(units):
        raise InputError(
            f"{len(units)} units were given with {len(numbers)} scores: "
            "give at least one unit, and one score for each"
        )
    columns = numbers
    if numbers.ndim == 1:
        columns = numbers[:, None]
    if columns.ndim != 2 or columns.shape[1] != len(labels):
        raise InputError(
            f"scores have shape {numbers.shape}, but label names {len(labels)} outputs: "
            "give (units,) scores, or (units, labels) and a list as label"
        )
    return columns


def _gaps(labels: Sequence[str], full: Array, sums: Array) -> list[str]:
    """A note for each label whose scores do not add up to the prediction."""
    notes = []
    for label, own, total in zip(labels, full.tolist(), sums.tolist(), strict=True):
        if abs(own - total) > _ROUNDING * max(1.0, abs(own)):
            notes.append(
                f"The base value and the scores of {label} add up to {total:.4g}, "
                f"while the model's own output is {own:.4g}."
            )
    return notes
