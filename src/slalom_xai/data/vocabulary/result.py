"""A vocabulary: what each word is worth to a model, whatever text it stands in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai import __version__
from slalom_xai.errors import InputError
from slalom_xai.system.files import read_json, write_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FORMAT = "slalom-vocabulary"
VERSION = 1
Array = NDArray[np.float64]

# Columns of a table of items, and the fields that they come from.
COLUMNS = {
    "item": "names",
    "value": "values",
    "value_se": "value_errors",
    "importance": "importances",
    "importance_se": "importance_errors",
    "effect": "effects",
    "effect_se": "effect_errors",
    "spread": "spreads",
    "contexts": "contexts",
    "texts": "texts",
}
_WHOLE = ("contexts", "texts")
_MADE_BY = "slalom vocabulary"


@dataclass(frozen=True)
class Quality:
    """How well a vocabulary predicts rows that were not used to fit it.

    Attributes:
        r2: the share of the variance of the model's answers that it predicts.
        values_alone: the same, with all importances equal.
        rows: how many.
    """

    r2: float
    values_alone: float
    rows: int


@dataclass(frozen=True)
class VocabularyItem:
    """What is known about one item.

    Attributes:
        item: its name.
        value: the model's answer to a text that it fills, the mean over typical lengths.
        value_se: how far that answer moves with the length of the text.
        importance: how strongly it wins against other items, on a log scale.
        importance_se: standard error.
        effect: what is lost when it goes from a text, the mean over texts; NaN: never measured.
        effect_se: standard error of this mean; NaN with fewer than two texts.
        spread: the standard deviation of the effect from text to text; NaN like the error.
        contexts: texts in which the effect was measured.
        texts: texts that have it.
    """

    item: str
    value: float
    value_se: float
    importance: float
    importance_se: float
    effect: float
    effect_se: float
    spread: float
    contexts: int
    texts: int


@dataclass(frozen=True)
class Vocabulary:
    """Values and importances of V items to one model; ``build_vocabulary`` makes one.

    Attributes:
        names: of the items; those of most texts are first.
        token_ids: of the items.
        texts: (V,), how many texts have each.
        values: (V,), measured: answers to filled texts, means over lengths.
        value_errors: (V,), how far these move with the length.
        importances: (V,), fitted, on a log scale; they sum to 0.
        importance_errors: (V,), standard errors.
        effects: (V,), measured: what is lost when an item goes from a text, means over texts.
        effect_errors: (V,), standard errors of these means.
        spreads: (V,), standard deviations of effects from text to text.
        contexts: (V,), texts in which effects were measured.
        sink: value and importance of what is always there.
        quality: on held-out rows, by their kind: "sequences" and, with texts, "deletions".
        lengths: of the texts that items filled.
        granularity: "token" or "word".
        target: the label that values argue for.
        kind: of the model's outputs.
        labels: of the model.
        model: its name.
        fingerprint: of its weights.
        seed: of everything random.
        calls_fit: model calls that the scores rest on.
        calls_check: model calls that only tested.
        texts_read: how many texts were read.
        left_out: items of the texts that are not in the vocabulary.
    """

    names: tuple[str, ...]
    token_ids: tuple[tuple[int, ...], ...]
    texts: NDArray[np.int64]
    values: Array
    value_errors: Array
    importances: Array
    importance_errors: Array
    effects: Array
    effect_errors: Array
    spreads: Array
    contexts: NDArray[np.int64]
    sink: tuple[float, float]
    quality: Mapping[str, Quality]
    lengths: tuple[int, ...]
    granularity: str
    target: str
    kind: str
    labels: tuple[str, ...]
    model: str
    fingerprint: str
    seed: int
    calls_fit: int
    calls_check: int
    texts_read: int
    left_out: int

    def __len__(self) -> int:
        return len(self.names)

    @property
    def calls(self) -> int:
        """All model calls."""
        return self.calls_fit + self.calls_check

    def look_up(self, name: str) -> VocabularyItem:
        """One item by its name; upper and lower case matter only where both are there.

        Raises:
            InputError: there is no such item.
        """
        index = self._numbers.get(name, self._folded.get(name.casefold()))
        if index is None:
            close = get_close_matches(name, self.names, n=3)
            advice = f": did you mean {', '.join(map(repr, close))}?" if close else ""
            raise InputError(
                f"{name!r} is not among the {len(self):,} items of the vocabulary{advice}"
                + ("" if close else ": look at its items, or build one from texts that have it")
            )
        return self.item(index)

    def item(self, index: int) -> VocabularyItem:
        """One item by its number."""
        cells = {column: getattr(self, name)[index] for column, name in COLUMNS.items()}
        plain = {name: cell.item() if name != "item" else cell for name, cell in cells.items()}
        return VocabularyItem(**plain)

    def loudest(self, count: int) -> list[int]:
        """The numbers of items with a large effect: by value from the middle, times weight."""
        away = self.values - np.average(self.values, weights=np.exp(self.importances))
        size = np.abs(away) * np.exp(self.importances)
        return [int(index) for index in np.argsort(-size, kind="stable")[:count]]

    def to_frame(self) -> pd.DataFrame:
        """One row for each item."""
        import pandas as pd

        columns: dict[str, Any] = {column: getattr(self, name) for column, name in COLUMNS.items()}
        return pd.DataFrame({**columns, "item": list(self.names)})

    def plot(self, *, labels: int = 40, words: Sequence[str] = ()) -> Figure:
        """Value against importance of every item, with names beside the loud ones.

        Args:
            labels: how many items are named at most.
            words: that are named in any case.
        """
        from slalom_xai.data.vocabulary.showing import vocabulary_figure

        return vocabulary_figure(self, labels, [self._number(word) for word in words])

    def save(self, path: str | Path) -> Path:
        """Writes one JSON file; returns its path.

        Raises:
            InputError: it cannot be written.
        """
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION, "slalom-xai": __version__}
        content.update({each.name: _to_json(getattr(self, each.name)) for each in fields(self)})
        return write_file(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Reads a file that ``save`` wrote.

        Raises:
            InputError: it is no vocabulary, or one of another version, or damaged.
        """
        content = read_json(path, _MADE_BY)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path} holds no vocabulary: give a file that {_MADE_BY} --out wrote")
        if content.get("version") != VERSION:
            raise InputError(
                f"{path} has version {content.get('version')} of vocabularies, and this is version "
                f"{VERSION}: build it again, or use the slalom-xai that made it"
            )
        try:
            return _load(cls, content)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} is damaged ({type(error).__name__}: {error}): build the vocabulary again"
            ) from error

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def _folded(self) -> dict[str, int]:
        folded: dict[str, int] = {}
        for index, name in enumerate(self.names):
            folded.setdefault(name.casefold(), index)
        return folded

    def _number(self, name: str) -> int:
        return self._numbers[self.look_up(name).item]


def _to_json(content: Any) -> Any:
    """A field as JSON has it; what is not finite is null."""
    if isinstance(content, np.ndarray):
        if content.dtype.kind == "i":
            return content.tolist()
        return [number if np.isfinite(number) else None for number in content.tolist()]
    if isinstance(content, Mapping):
        return {name: _plain_quality(quality) for name, quality in content.items()}
    return content


def _plain_quality(quality: Quality) -> dict[str, float | int | None]:
    shares = {"r2": quality.r2, "values_alone": quality.values_alone}
    finite = {name: share if np.isfinite(share) else None for name, share in shares.items()}
    return {**finite, "rows": quality.rows}


def _load(cls: type[Vocabulary], content: dict[str, Any]) -> Vocabulary:
    read: dict[str, Any] = {each.name: content[each.name] for each in fields(cls)}
    read["names"] = tuple(str(name) for name in read["names"])
    read["token_ids"] = tuple(tuple(map(int, kind)) for kind in read["token_ids"])
    for name in COLUMNS.values():
        if name == "names":
            continue
        kind = np.int64 if name in _WHOLE else np.float64
        read[name] = np.array(read[name], dtype=kind)
        if read[name].shape != (len(read["names"]),):
            raise ValueError(f"{name} has {read[name].shape} numbers")
    value, importance = read["sink"]
    read["sink"] = (float(value), float(importance))
    read["quality"] = {name: _quality(quality) for name, quality in read["quality"].items()}
    for name in ("lengths", "labels"):
        read[name] = tuple(read[name])
    return cls(**read)


def _quality(content: dict[str, Any]) -> Quality:
    shares = [content["r2"], content["values_alone"]]
    r2, alone = (float("nan") if share is None else float(share) for share in shares)
    return Quality(r2, alone, int(content["rows"]))
