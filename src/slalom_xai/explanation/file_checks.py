"""What can be wrong with the data of a saved explanation, found before anything is made from it.

A result file may come from anywhere. What passes here has the types, lengths and ranges that a
saved explanation has, so that no report needs to ask again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike

from slalom_xai.errors import InputError, quote_text
from slalom_xai.methods.additive import AdditiveSurrogate, PairsSurrogate
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.process import Process
from slalom_xai.methods.scores import SCORES, OneScore
from slalom_xai.models.outputs import Kind
from slalom_xai.models.text import GRANULARITIES
from slalom_xai.slalom import BoundedSlalom
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity

# Functions and their fidelity as plain data for JSON, which has no NaN.


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


def list_numbers(numbers: ArrayLike) -> list[float | None]:
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


# What can be wrong with the data of a saved explanation, found before anything is made from it.


# What an explainer takes; unknown: scores made elsewhere.
SAVED_REMOVALS = ("hide", "delete", "mask", "unk", "unknown")
_DEEPEST = 16  # lists in lists; a function has four
_LARGEST = 2**53  # whole numbers above are rounded where the page reads them


def refuse(problems: Iterator[str]) -> None:
    """Raises an error for the first problem, if there is one.

    Raises:
        InputError: names it.
    """
    problem = next(problems, None)
    if problem is not None:
        raise InputError(f"the saved explanation is damaged ({problem}): explain again")


def data_problems(data: dict[str, Any]) -> Iterator[str]:
    """Says what is wrong with the fields of a saved explanation, each by itself and with the text.

    Ordered, so that each check can rely on those before it. Missing fields are no matter here.
    """
    yield from _anywhere(data)
    there = {
        name: value
        for name, value in data.items()
        if value is not None or name not in ("text_pair", "fidelity", "question", "reply")
    }
    for name, (check, expected) in _FIELDS.items():
        if name in there and not check(there[name]):
            yield f"{name} is {_shown(there[name])}, which is {expected}"
    if {"text", "units", "left_out"} <= there.keys():
        yield from _span_problems(there)


def _anywhere(data: Any) -> Iterator[str]:
    """What no saved explanation holds in any field.

    That is very deep lists, huge whole numbers, and halves of characters.
    """
    waiting: list[tuple[Any, int, bool]] = [(data, 0, False)]
    while waiting:
        value, depth, free = waiting.pop()
        if depth > _DEEPEST:
            yield f"lists are nested more than {_DEEPEST} deep"
            return
        if isinstance(value, dict):
            waiting += [(key, depth + 1, False) for key in value]
            waiting += [
                (entry, depth + 1, depth == 0 and key == "random_state")
                for key, entry in value.items()
            ]
        elif isinstance(value, list | tuple):
            waiting += [(entry, depth + 1, False) for entry in value]
        elif isinstance(value, int) and abs(value) > _LARGEST and not free:
            yield f"it holds a whole number beyond {_LARGEST}"
            return
        elif isinstance(value, str) and any(
            0xD800 <= ord(character) <= 0xDFFF for character in value
        ):
            yield "a text in it holds half a character (a lone surrogate)"
            return


def _span_problems(data: dict[str, Any]) -> Iterator[str]:
    texts = [data["text"]]
    if "text_pair" in data:
        texts.append(data["text_pair"])
    for unit in data["units"]:
        part = unit.get("part", 0)
        if part >= len(texts) or not unit["start"] <= unit["end"] <= len(texts[part]):
            yield (
                f"the unit {quote_text(unit['text'], 40)} is at {unit['start']} to {unit['end']}, "
                "which is not in the text"
            )
            return
    if len(data["left_out"]) > len(texts[-1]):
        yield "left_out is longer than the text"


def is_whole(value: Any) -> bool:
    """Whether it is a whole number from 0 on; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    """Whether it is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or is_number(value)


def _is_list(value: Any, check: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(check, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_units(value: Any) -> bool:
    return _is_list(value, _is_unit) and len(value) > 0


def _is_unit(value: Any) -> bool:
    if not isinstance(value, dict) or not {"text", "start", "end", "token_ids"} <= value.keys():
        return False
    numbers = (value["start"], value["end"], value.get("part", 0))
    return (
        isinstance(value["text"], str)
        and all(map(is_whole, numbers))
        and _is_list(value["token_ids"], is_whole)
    )


def _are_outputs(value: Any) -> bool:
    known = isinstance(value, dict) and value.keys() >= {"kind", "labels"}
    if not known or not isinstance(value["kind"], str) or value["kind"] not in get_args(Kind):
        return False
    return _is_list(value["labels"], _is_text) and len(value["labels"]) > 0


def _is_function(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return False
    made_from = FUNCTION_KINDS.get(value["kind"])
    if made_from is None:
        return False
    needed = {part.name: part.default is MISSING for part in fields(made_from)}
    if not value.keys() <= {"kind", *needed}:
        return False
    if any(must and value.get(name) is None for name, must in needed.items()):
        return False
    return all(_is_entry(entry) for name, entry in value.items() if name != "kind")


def _is_entry(value: Any) -> bool:
    """Whether a function can hold it: nothing, or numbers."""
    return value is None or _is_table(value)


def _is_table(value: Any) -> bool:
    """Whether it is a number, finite or not, or lists of them, all equally long.

    Whether they are finite is said by their name.
    """
    if isinstance(value, list | tuple):
        return all(map(_is_table, value)) and len({_shape(entry) for entry in value}) <= 1
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shape(table: Any) -> tuple[int, ...]:
    """The lengths of a table of numbers, from the outermost list in."""
    if not isinstance(table, list | tuple):
        return ()
    if not table:
        return (0,)
    return len(table), *_shape(table[0])


def _are_errors(value: Any) -> bool:
    return _is_list(value, _is_column_of_errors)


def _is_column_of_errors(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= set(SCORES):
        return False
    return all(_is_list(numbers, _is_number_or_none) for numbers in value.values())


def _are_measured(value: Any) -> bool:
    return _is_list(value, _is_column_of_measured)


def _is_column_of_measured(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= set(SCORES):
        return False
    return all(_is_list(numbers, is_number) for numbers in value.values())


def _is_fidelity(value: Any) -> bool:
    return _is_list(value, _is_column_of_fidelity)


def _is_column_of_fidelity(value: Any) -> bool:
    if not isinstance(value, dict) or not {"few", "any"} <= value.keys():
        return False
    if not value.keys() <= {part.name for part in fields(Fidelity)}:
        return False
    if not all(_is_agreement(value[name]) for name in ("few", "any")):
        return False
    if not all(is_whole(value.get(name, 0)) for name in ("changed", "calls")):
        return False
    others = [value[name] for name in ("linear", "one_score") if value.get(name) is not None]
    for other in others:
        if not isinstance(other, dict) or other.keys() != {"few", "any"}:
            return False
        if not all(map(_is_agreement, other.values())):
            return False
    return True


def _are_sources(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= set(SCORES):
        return False
    return all(source in ("measured", "fitted") for source in value.values())


def _are_interactions(value: Any) -> bool:
    return _is_list(value, _is_interaction)


def _is_interaction(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"units", "texts", "value", "importance"}:
        return False
    units, texts = value["units"], value["texts"]
    pairs = _is_list(units, is_whole) and _is_list(texts, _is_text)
    numbers = (value["value"], value["importance"])
    return pairs and len(units) == len(texts) == 2 and all(map(_is_number_or_none, numbers))


def _is_agreement(value: Any) -> bool:
    if not isinstance(value, dict) or not is_whole(value.get("rows")):
        return False
    if not {"r2", "mse"} <= value.keys() <= {part.name for part in fields(Agreement)}:
        return False
    return all(map(_is_number_or_none, value.values()))


def _shown(value: Any) -> str:
    """As it stands in the file, the beginning of it."""
    spelled = json.dumps(value)
    if len(spelled) <= 40:
        return spelled
    return spelled[:39] + "…"


_TEXT = (_is_text, "not a text")
_COUNT = (is_whole, "not a whole number of at least 0")
_FIELDS = {
    "text": _TEXT,
    "text_pair": _TEXT,
    "left_out": _TEXT,
    "model": _TEXT,
    "method": _TEXT,
    "granularity": (lambda value: value in GRANULARITIES, f"not one of {', '.join(GRANULARITIES)}"),
    "removal": (lambda value: value in SAVED_REMOVALS, f"not one of {', '.join(SAVED_REMOVALS)}"),
    "random_state": _COUNT,
    "outputs": (_are_outputs, "not a known kind of output with names for its labels"),
    "target": _COUNT,
    "full": (lambda value: _is_list(value, is_number), "not a list of finite numbers"),
    "units": (_are_units, "not a list of units, each with its text, its place and its token ids"),
    "function": (_is_function, "not a function of numbers"),
    "measured": (_are_measured, "not a list of scores in finite numbers by their names"),
    "scores": (_is_column_of_errors, "not lists of numbers by the name of a score"),
    "sources": (_are_sources, "not measured or fitted by the name of a score"),
    "interactions": (_are_interactions, "not a list of pairs with a value and an importance"),
    "standard_errors": (_are_errors, "not a list of errors by the name of a score"),
    "fidelity": (_is_fidelity, "not a list of agreements in finite numbers"),
    "calls_fit": _COUNT,
    "calls_check": _COUNT,
    "passes": _COUNT,
    "occurrences": (lambda value: _is_list(value, is_whole), "not a list of whole numbers"),
    "notes": (lambda value: _is_list(value, _is_text), "not a list of texts"),
    "question": _TEXT,
    "reply": _TEXT,
}
