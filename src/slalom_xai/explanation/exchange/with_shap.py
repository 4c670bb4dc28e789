"""shap: explanations as ``shap.Explanation`` and back.

shap ties scores to a text by cutting it into tiles: the characters of each unit with whatever
follows up to the next, so that all tiles joined read as the text. An export makes such tiles; an
import finds the units inside them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError, optional_package
from slalom_xai.explanation.exchange.scores import (
    Array,
    Fields,
    check_numbers,
    from_scores,
    per_label,
    without_place,
)
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.text import Unit

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation


def to_shap(explanation: Explanation) -> Any:
    """The Shapley values as a ``shap.Explanation``.

    It adds up to the surrogate's prediction for the whole text.
    """
    shap = optional_package("shap", "this export")
    values, base = np.array(explanation.scores("shapley")), explanation.base_value
    whole = float(explanation.predict(np.ones((1, len(explanation.units))))[0])
    # Quadrature leaves 1e-9 between the values' sum and what they share out; a plot should add up.
    values += (whole - base - values.sum()) / len(values)
    exported = shap.Explanation(
        values=values,
        base_values=base,
        data=np.array(tiles(explanation), dtype=object),
        feature_names=[unit.text for unit in explanation.units],
    )
    # Not in the constructor, which takes names for a list of outputs only.
    exported.output_names = explanation.target
    return exported


def from_shap(values: Any, text: str | None = None, output: str | int | None = None) -> Fields:
    """The fields of one text's ``shap.Explanation``."""
    values = _of_one_text(values)
    pieces = [str(piece) for piece in values.data]
    columns = _columns(values, len(pieces))
    labels = _output_names(values.output_names, columns.shape[1])
    base = values.base_values
    if base is None:
        base = 0.0
    base = per_label(base, "base_values", labels)
    target = None
    if output is not None:
        target = Outputs("regression", labels).index(output)
    in_tiles = list(_units_in_tiles(pieces, values.feature_names))
    kept = [index for index, unit in enumerate(in_tiles) if unit is not None]
    units: Sequence[Any] = [unit for unit in in_tiles if unit is not None]
    joined = "".join(pieces)
    if text is None:
        text = joined
    else:
        units = _moved(units, joined, text)
    lost = np.delete(columns, kept, axis=0)
    return from_scores(
        text,
        units,
        columns[kept],
        base_value=base + lost.sum(axis=0),
        label=labels,
        method="shap",
        target=target,
        notes=tuple(without_place(lost)),
    )


def _of_one_text(values: Any) -> Any:
    """The ``shap.Explanation`` of a single text, whose data are its tokens."""
    data = getattr(values, "data", None)
    if not hasattr(values, "base_values") or data is None or isinstance(data, str) or not len(data):
        raise InputError(
            "expected the shap.Explanation of a text, with its tokens as data, "
            f"got {type(values).__name__}"
        )
    if isinstance(data[0], str):
        return values
    if not isinstance(data[0], (list, tuple, np.ndarray)):
        raise InputError(
            f"the data of this shap.Explanation should be tokens and are {type(data[0]).__name__}: "
            "give the explanation of a text"
        )
    if len(data) > 1:
        raise InputError(
            f"this shap.Explanation holds {len(data)} texts: "
            "give one of them, as in Explanation.from_shap(values[0])"
        )
    return _of_one_text(values[0])


def _columns(values: Any, tokens: int) -> Array:
    """The scores as (tokens, outputs)."""
    numbers = check_numbers(values.values, "the shap values")
    if len(numbers) != tokens or numbers.ndim > 2:
        raise InputError(
            f"shap values of shape {numbers.shape} were given for {tokens} tokens: "
            "give the explanation of one text"
        )
    return numbers.reshape(tokens, -1)


def _output_names(names: Any, count: int) -> tuple[str, ...]:
    if isinstance(names, str) and count == 1:
        return (str(names),)
    if names is not None and not isinstance(names, str) and len(names) == count:
        return tuple(str(name) for name in names)
    if count == 1:
        return ("output",)
    return tuple(f"output {index}" for index in range(count))


def _moved(units: Sequence[Unit], joined: str, text: str) -> Sequence[Any]:
    """Units of the joined tiles as units of the text that holds them; else only their strings."""
    offset = text.find(joined.rstrip())
    if offset < 0:
        return [unit.text for unit in units]
    return [
        Unit(text=unit.text, start=unit.start + offset, end=unit.end + offset) for unit in units
    ]


def tiles(explanation: Explanation) -> list[str]:
    """The text of each unit with what follows it.

    Together they read as the text from its first unit on.
    """
    if explanation.granularity == "type":
        return [unit.text + " " for unit in explanation.units]
    pieces: list[str] = []
    for part, text in enumerate((explanation.text, explanation.text_pair or "")):
        units = [unit for unit in explanation.units if unit.part == part]
        if pieces and units:
            pieces[-1] += "\n"
        end = len(text.removesuffix(explanation.left_out))
        pieces += _tiles_of_part(text, units, end)
    return pieces


def _tiles_of_part(text: str, units: Sequence[Unit], end: int) -> list[str]:
    """The tiles of one of the two texts of a pair, or of the only one, up to ``end``.

    Of units that share a start, such as the bytes of an emoji, the first shows the characters.
    """
    if not units:
        return []
    filled = {unit.start for unit in units if unit.start < unit.end}
    starts = sorted(filled or {unit.start for unit in units})
    cursor = starts[0]
    pieces = []
    for unit in units:
        if filled and unit.start == unit.end:  # a token without characters
            pieces.append("")
            continue
        after = bisect_right(starts, unit.start)
        stop = max(end, unit.end)
        if after < len(starts):
            stop = starts[after]
        stop = max(cursor, stop)
        pieces.append(text[cursor:stop])
        cursor = stop
    return pieces


def _units_in_tiles(pieces: list[str], feature_names: Any) -> Iterator[Unit | None]:
    """The units inside the tiles of a text; None for tiles without characters.

    They are found by their names, where those are in the tiles.
    """
    cursor, before = 0, None
    for name, piece in zip(_unit_names(pieces, feature_names), pieces, strict=True):
        start = cursor + max(piece.find(name), 0)
        cursor += len(piece)
        if not name:
            yield None
        elif name in piece:
            before = Unit(text=name, start=start, end=start + len(name))
            yield before
        elif before is not None and before.text == name:
            yield before  # no characters of its own: it shares those of the token before it
        else:
            yield Unit(text=name, start=start, end=start)


def _unit_names(pieces: list[str], feature_names: Any) -> list[str]:
    """The names given, if there is one for each tile and inside it; else the tiles, stripped."""
    stripped = [piece.strip() for piece in pieces]
    if feature_names is None or isinstance(feature_names, str):
        return stripped
    names = [str(name) for name in feature_names]
    if len(names) != len(pieces):
        return stripped
    if all(name in piece or not piece for name, piece in zip(names, pieces, strict=True)):
        return names
    return stripped
