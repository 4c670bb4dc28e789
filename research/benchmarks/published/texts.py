"""Texts as the model reads them, rows of them, and the model's answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import numpy as np
from numpy.typing import NDArray

from slalom_xai.models import Row, TextModel
from slalom_xai.models.reading import AnyReading

Array = NDArray[np.float64]
Predict = Callable[[Array], Array]  # counts over distinct tokens (m, K) to log odds (m,)

SHORT_ROW = 3  # tokens in a short row, of the published code's sampling "short"
SHORTEST_TEXT, LONGEST_TEXT = 40, 180  # tokens in a text that is taken
LOCAL = 10  # tokens that are deleted at most where few are


@dataclass(frozen=True)
class AnsweredRows:
    """Rows to measure on: counts over distinct tokens (m, K) and the model's log odds (m,)."""

    counts: Array
    log_odds: Array


class Text:
    """A text as the model reads it, and the model to ask about it.

    Attributes:
        codes: (n,), which distinct token stands at each position.
        first_positions: (K,), where each distinct token stands first.

    Args:
        model: with two classes.
        reading: the text.
    """

    def __init__(self, model: TextModel, reading: AnyReading) -> None:
        self.model = model
        self.reading = reading
        self.codes = np.asarray(reading.codes)
        self.first_positions = np.unique(self.codes, return_index=True)[1]

    def log_odds(self, rows: Sequence[Row], batch: int = 64) -> Array:
        """Answers (m,) to rows, in batches of similar length."""
        order = sorted(range(len(rows)), key=lambda index: self.model.size(rows[index]))
        answers = np.empty(len(rows))
        for start in range(0, len(rows), batch):
            part = order[start : start + batch]
            logits = self.model.answer([rows[index] for index in part]).double()
            answers[part] = self.model.outputs.columns(logits)[:, 0].cpu().numpy()
        return answers

    def deletion_masks(self, rows: int, rng: np.random.Generator, most: int) -> NDArray[np.bool_]:
        """Masks (rows + 1, n): the whole text first, then without 1 to ``most`` of its tokens."""
        size = len(self.codes)
        deleted = np.concatenate([[0], rng.integers(1, min(most, size - 1) + 1, rows)])
        ranks = rng.random((rows + 1, size)).argsort(axis=1).argsort(axis=1)
        masks: NDArray[np.bool_] = ranks >= deleted[:, None]
        return masks

    def answered(self, masks: NDArray[np.bool_]) -> AnsweredRows:
        """The rows that masks (m, n) keep, with the model's answers."""
        distinct = np.eye(len(self.first_positions))[self.codes]  # (n, K)
        rows = [self.reading.compose(np.flatnonzero(mask)) for mask in masks]
        return AnsweredRows(masks @ distinct, self.log_odds(rows))

    def short(self, rows: int, rng: np.random.Generator) -> AnsweredRows:
        """Random rows of three distinct tokens."""
        drawn = rng.integers(0, len(self.first_positions), (rows, SHORT_ROW))
        counts = np.eye(len(self.first_positions))[drawn].sum(axis=1)
        composed = [self.reading.compose(self.first_positions[tokens]) for tokens in drawn]
        return AnsweredRows(counts, self.log_odds(composed))


def read_texts(path: Path, model: TextModel, count: int) -> list[AnyReading]:
    """The first texts of a suitable length.

    Raises:
        SystemExit: the file has too few of them.
    """
    readings: list[AnyReading] = []
    with _opened(path) as lines:
        for line in lines:
            reading = model.read(json.loads(line)["text"], truncation=True)
            if SHORTEST_TEXT <= len(reading.pieces) <= LONGEST_TEXT and not reading.left_out:
                readings.append(reading)
            if len(readings) == count:
                return readings
    raise SystemExit(
        f"{path} holds {len(readings)} texts of {SHORTEST_TEXT} to {LONGEST_TEXT} tokens: "
        f"ask for fewer than {count} with --texts"
    )


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast(TextIO, gzip.open(path, "rt", encoding="utf-8"))
    return path.open(encoding="utf-8")
