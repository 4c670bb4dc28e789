"""lime: explanations by ``LimeTextExplainer`` as ours.

lime numbers classes by "labels" (keys of ``local_exp``) and words by the order in which they first
occur. With ``bow`` (a bag of words) a number stands for all occurrences of a word, else for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from slalom_xai.errors import InputError, one_of
from slalom_xai.explanation.exchange.scores import Array, Fields, from_scores
from slalom_xai.models.text import Unit


def from_lime(explanation: Any, text: str | None = None, label: str | int | None = None) -> Fields:
    """The fields of an explanation by ``LimeTextExplainer``."""
    indexed = _indexed_string(explanation)
    explained = str(indexed.raw_string())
    if text is not None and text != explained:
        raise InputError(
            "the text is not the one that lime explained: "
            "leave text out, because lime's explanation holds it"
        )
    keys = sorted(explanation.local_exp)
    labels = [str(explanation.class_names[key]) for key in keys]
    target = _target(label, labels, keys)
    positions = [list(np.atleast_1d(entry)) for entry in indexed.positions]
    units = _units(indexed, positions)
    granularity, removal, occurrences = "token", "mask", list[int]()
    if indexed.bow:
        granularity, removal = "type", "delete"
        occurrences = [len(entry) for entry in positions]
    return from_scores(
        explained,
        units,
        _scores(explanation, indexed.num_words(), keys),
        prediction=[explanation.predict_proba[key] for key in keys],
        base_value=[explanation.intercept[key] for key in keys],
        label=labels,
        method="lime",
        target=target,
        granularity=granularity,
        removal=removal,
        occurrences=occurrences,
        notes=_notes(explanation, len(units), keys),
    )


def _indexed_string(explanation: Any) -> Any:
    """What lime cut the text into."""
    mapper = getattr(explanation, "domain_mapper", None)
    indexed = getattr(mapper, "indexed_string", None)
    if indexed is None or not getattr(explanation, "local_exp", None):
        raise InputError(
            f"expected an explanation by lime's LimeTextExplainer, got {type(explanation).__name__}"
        )
    return indexed


def _target(label: str | int | None, labels: list[str], keys: list[Any]) -> int | None:
    """The index of the wanted class among those explained, by its name or by lime's number."""
    if label is None:
        return None
    if not isinstance(label, str) and label in keys:
        return keys.index(label)
    if label in labels:
        return labels.index(str(label))
    known = [f"{name} ({key})" for name, key in zip(labels, keys, strict=True)]
    raise one_of("label", label, known)


def _scores(explanation: Any, words: int, keys: Sequence[Any]) -> Array:
    """Lime's weights as (words, classes); 0 for words without one."""
    scores = np.zeros((words, len(keys)))
    for column, key in enumerate(keys):
        for word, weight in explanation.local_exp[key]:
            scores[word, column] = weight
    return scores


def _units(indexed: Any, positions: Sequence[Sequence[int]]) -> list[Unit]:
    """Each word where it first stands.

    Args:
        indexed: lime's pieces of the text, words and what is between them.
        positions: for each word, which of the pieces it is.
    """
    starts = [0, *accumulate(len(piece) for piece in indexed.as_list)]
    units = []
    for index, entry in enumerate(positions):
        word, start = str(indexed.word(index)), starts[entry[0]]
        units.append(Unit(text=word, start=start, end=start + len(word)))
    return units


def _notes(explanation: Any, words: int, keys: Sequence[Any]) -> tuple[str, ...]:
    notes = [
        "The scores are on the scale of probabilities, not of log odds: "
        "lime explains what the function it was given returns."
    ]
    silent = words - max(len(explanation.local_exp[key]) for key in keys)
    if silent:
        notes.append(
            f"{silent} of {words} words have no weight because lime was asked for fewer features; "
            "their score is 0."
        )
    if len(keys) == 1 and explanation.score is not None:
        fit = float(explanation.score)
        notes.append(f"lime's own weighted R² on the texts it was fitted to is {fit:.2f}.")
    return tuple(notes)
