"""A TextModel of our own: no transformers, no randomness, and it can be made to fail."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import torch

from slalom_xai.models import Reading, Row
from slalom_xai.models.outputs import Outputs


class Averaging:
    """Averages fixed values of words under fixed weights, with a sink.

    Args:
        limit: refuse batches of more tokens than this.
        error: what to raise then.
        spoil: (word, number): a text with this word is answered by this number.
    """

    name = "averaging"
    device = torch.device("cpu")
    probe_calls = 0

    def __init__(
        self,
        limit: int | None = None,
        error: Exception | None = None,
        spoil: tuple[str, float] | None = None,
    ) -> None:
        self.outputs = Outputs("binary", ("no", "yes"))
        self.asked: list[str] = []
        self.batches: list[list[int]] = []
        self.refused = 0
        self._limit, self._error, self._spoil = limit, error or MemoryError("out of memory"), spoil

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        return Reading.of_words(text)

    def size(self, row: Row) -> int:
        return len(str(row).split())

    def show(self, row: Row) -> str:
        return str(row)

    def answer(self, rows: Sequence[Row]) -> torch.Tensor:
        lengths = [self.size(row) for row in rows]
        if self._limit is not None and max(lengths) * len(rows) > self._limit:
            self.refused += 1
            raise self._error
        self.batches.append(lengths)
        self.asked.extend(str(row) for row in rows)
        odds = torch.tensor([self._log_odds(str(row).split()) for row in rows], dtype=torch.float64)
        return torch.stack([-odds / 2, odds / 2], dim=1)

    def _log_odds(self, tokens: list[str]) -> float:
        if self._spoil and self._spoil[0] in tokens:
            return self._spoil[1]
        values, weights = zip((1.0, 5.0), *(word_scores(token) for token in tokens), strict=True)
        return float(np.average(values, weights=weights))


def word_scores(word: str) -> tuple[float, float]:
    """A value in [-3, 3] and a weight in [0.3, 3.3] that depend on the word alone."""
    number = zlib.crc32(word.encode())
    return (number % 1000) / 1000 * 6 - 3, (number // 1000 % 1000) / 1000 * 3 + 0.3
