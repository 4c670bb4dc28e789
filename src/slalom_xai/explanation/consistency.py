"""Whether the parts of an explanation that was read from a file fit each other.

``file_checks`` has seen each field by itself before; here an explanation has been made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from slalom_xai.errors import quote_text
from slalom_xai.explanation.file_checks import AnyFunction, refuse
from slalom_xai.explanation.saving import explanation_to_dict
from slalom_xai.methods.additive import AdditiveSurrogate, PairsSurrogate
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.process import BITS, Process
from slalom_xai.slalom import BoundedSlalom

if TYPE_CHECKING:
    from slalom_xai.explanation import Array, Explanation

# Importances are logarithms of weights: beyond this difference, the smaller weight is 0.
_WIDEST = 700


def check_loaded(explanation: Explanation, data: dict[str, Any]) -> None:
    """Says what is wrong with a file whose fields are there but do not fit each other.

    Args:
        explanation: as made from the fields.
        data: what the file held.

    Raises:
        InputError: a field that no explanation has, of the wrong type or length, or with numbers
            that are not finite.
    """
    refuse(_problems(explanation, data))


def _problems(explanation: Explanation, data: dict[str, Any]) -> Iterator[str]:
    """Ordered, so that each check can rely on those before it; types are known to be right."""
    yield from _output_problems(explanation)
    columns = len(explanation.full)
    yield from _function_problems(explanation.function, len(explanation), columns)
    if not _fit(explanation.column_errors, explanation):
        yield "standard_errors do not fit the units"
    if explanation.column_measured and not _fit(explanation.column_measured, explanation):
        yield "measured does not fit the units"
    fidelity = explanation.column_fidelity
    if fidelity is not None and len(fidelity) != columns:
        yield "fidelity does not fit the outputs"
    if explanation.occurrences and len(explanation.occurrences) != len(explanation.units):
        yield "occurrences do not fit the units"
    if not all(times > 0 for times in explanation.occurrences):
        yield "occurrences are not whole numbers above 0"
    known = {*explanation_to_dict(explanation), "scores", "sources", "interactions"}
    foreign = sorted(map(str, data.keys() - known))
    if foreign:
        yield f"unknown fields {', '.join(quote_text(name, 40) for name in foreign[:5])}"


def _output_problems(explanation: Explanation) -> Iterator[str]:
    labels, full = explanation.outputs.labels, explanation.full
    expected = len(labels)
    if explanation.outputs.kind == "binary":  # the two classes share one column
        expected = 1
        if len(labels) != 2:
            yield f"there are {len(labels)} labels for two classes"
    if len(full) != expected:
        yield f"there are {len(full)} outputs for {len(labels)} labels"
    if explanation.target_index >= len(labels):
        yield f"target is {explanation.target_index!r}, with {len(labels)} labels"


def _fit(columns: tuple[Mapping[str, Array], ...], explanation: Explanation) -> bool:
    """Whether there are numbers for each column, and in each one for each unit."""
    if len(columns) != len(explanation.full):
        return False
    for by_score in columns:
        if any(len(numbers) != len(explanation.units) for numbers in by_score.values()):
            return False
    return True


def _function_problems(
    function: AnyFunction, units: int, columns: int, where: str = "function"
) -> Iterator[str]:
    entries = vars(function)
    for name, expected in _shapes(function, units, columns).items():
        if not isinstance(entries[name], Tensor):
            yield f"{where}.{name} is not a list of numbers of shape {expected}"
            return
        shape = tuple(entries[name].shape)
        if shape != expected:
            yield f"{where}.{name} has shape {shape}, but {expected} fits the units and outputs"
        if not bool(torch.isfinite(entries[name]).all()):
            yield f"{where}.{name} has entries that are not finite numbers"
    if isinstance(function, SlalomSurrogate):
        yield from _slalom_problems(function, where)
    if isinstance(function, PairsSurrogate | BoundedSlalom):
        yield from _pairs_problems(function, units, where)
    if isinstance(function, BoundedSlalom):
        yield from _bounded_problems(function, where)
    if isinstance(function, Process):
        yield from _process_problems(function, units, where)


def _bounded_problems(function: BoundedSlalom, where: str) -> Iterator[str]:
    every = [function.importances, function.pair_importances, function.sink_importance[None]]
    importances = torch.cat(every)
    if float(importances.max() - importances.min()) > _WIDEST:
        yield f"{where} has importances that differ by more than {_WIDEST}"
    if bool((function.curvature < 0).any()):
        yield f"{where}.curvature is below 0"


def _pairs_problems(
    function: PairsSurrogate | BoundedSlalom, units: int, where: str
) -> Iterator[str]:
    pairs = function.pairs
    if not len(pairs):
        return
    whole = bool((pairs == pairs.floor()).all())
    if not whole or float(pairs.min()) < 0 or float(pairs.max()) >= units:
        yield f"{where}.pairs are not numbers of units"
    if bool((pairs[:, 0] >= pairs[:, 1]).any()):
        yield f"{where}.pairs are not two different units each, the first one first"


def _process_problems(function: Process, units: int, where: str) -> Iterator[str]:
    packed = function.packed
    if bool((packed != packed.floor()).any()) or float(packed.min()) < 0:
        yield f"{where}.packed are not whole numbers from 0 on"
    last = units - BITS * (packed.shape[1] - 1)  # units in the last number of a row
    if float(packed.max()) >= 2**BITS or float(packed[:, -1].max()) >= 2**last:
        yield f"{where}.packed has more bits than there are units"
    kernel = vars(function.kernel)
    if any(bool((part < 0).any()) for part in kernel.values()):
        yield f"{where} has a kernel with numbers below 0"


def _slalom_problems(function: SlalomSurrogate, where: str) -> Iterator[str]:
    if (function.sink_values is None) != (function.sink_importances is None):
        yield f"{where} has only one of the two numbers of a sink"
    if bool((_importance_range(function) > _WIDEST).any()):
        yield f"{where} has importances that differ by more than {_WIDEST}"


def _importance_range(function: SlalomSurrogate) -> Tensor:
    """How far the importances of each head lie apart, the sink's among them, (heads,)."""
    importances = function.importances
    if function.sink_importances is not None:
        importances = torch.cat([importances, function.sink_importances[:, None]], dim=1)
    return importances.amax(dim=1) - importances.amin(dim=1)


def _shapes(function: AnyFunction, units: int, columns: int) -> dict[str, tuple[int, ...]]:
    """The shape that each tensor of a surrogate has to have; without optional ones it lacks."""
    if isinstance(function, AdditiveSurrogate):
        return {"unit_scores": (units, columns), "full": (columns,)}
    if isinstance(function, PairsSurrogate):
        pairs = _length(function.pairs)
        return {
            "mains": (units, columns),
            "pairs": (pairs, 2),
            "joints": (pairs, columns),
            "full": (columns,),
        }
    if isinstance(function, Process):
        rows = _length(function.packed)
        return {
            "packed": (rows, -(-units // BITS)),
            "weights": (rows, columns),
            "full": (columns,),
            "reaches": (units,),
            "slopes": (units,),
            "level": (),
            "length_level": (),
            "length_reach": (),
        }
    if isinstance(function, BoundedSlalom):
        pairs = len(function.pairs) if function.pairs.ndim else 0
        return {
            "inner_values": (units, columns),
            "importances": (units,),
            "inner_sink": (columns,),
            "sink_importance": (),
            "centre": (columns,),
            "curvature": (columns,),
            "shapley": (units, columns),
            "pairs": (pairs, 2),
            "pair_values": (pairs, columns),
            "pair_importances": (pairs,),
        }
    heads = _length(function.values)
    shapes: dict[str, tuple[int, ...]] = {
        "values": (heads, units, columns),
        "importances": (heads, units),
    }
    if function.sink_values is not None:
        shapes["sink_values"] = (heads, columns)
    if function.sink_importances is not None:
        shapes["sink_importances"] = (heads,)
    return shapes


def _length(entry: Any) -> int:
    """How long a list of a file is; 1 for what is no list, or an empty one."""
    if isinstance(entry, Tensor) and entry.ndim:
        return max(1, len(entry))
    return 1
