"""Reviews in which people marked the words that decide: Yelp-HAT of Sen et al. (2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from research.base import DataFile
from research.paper.review_models import label_of
from slalom_xai.data.bench.items import Item, read_items
from slalom_xai.data.bench.options import BenchOptions
from slalom_xai.errors import InputError

MARKED = DataFile(
    "yelp_hat_raw",
    "the single annotators' maps of Yelp-HAT (Sen et al. 2020), whose further columns are words, "
    "a list of them, and maps, for each annotator the number of words and the active ones",
    columns=("text", "label", "maps", "words"),
)
LEAST_ANNOTATORS = 2


@dataclass(frozen=True)
class MarkedReview:
    """A review with the marks of each annotator.

    Attributes:
        text: of the review.
        label: its class, as the models call it.
        marks: (annotators, words), zeros and ones.
        words: of the text.
    """

    text: str
    label: str
    marks: Sequence[Sequence[float]]
    words: Sequence[str]


def marked_reviews(experiment: str, folder: Path | None) -> list[MarkedReview]:
    """The reviews whose annotators marked the same words of the text, and agree on some.

    Args:
        experiment: that needs them.
        folder: of the data.

    Raises:
        InputError: the table is not there, lacks a column, or has no such review.
    """
    labels = MARKED.read(experiment, folder).labels
    path = MARKED.find(experiment, folder)
    items = read_items(path, BenchOptions(texts=None, rationale="maps", words="words")).items
    found = []
    for item, label in zip(items, labels, strict=True):
        if is_usable(item):
            marks: Sequence[Sequence[float]] = item.marks  # type: ignore[assignment]
            found.append(MarkedReview(item.text, label_of(label), marks, item.words or ()))
    if not found:
        raise InputError(
            f"{path} has no review in which annotators agree on a word: "
            f"give one with {MARKED.origin}"
        )
    return found


def is_usable(item: Item) -> bool:
    """Whether several annotators marked the same words of the text, and agree on one or more.

    In some rows of Yelp-HAT the annotators' maps have different lengths, or words are missing: it
    cannot be said which words were marked.
    """
    words, marks = item.words or (), item.marks or ()
    if [word for word in words if word] != item.text.split() or len(marks) < LEAST_ANNOTATORS:
        return False
    if any(np.ndim(one) != 1 or len(one) != len(words) for one in marks):  # type: ignore[arg-type]
        return False
    return bool(np.all(marks, axis=0).any())
