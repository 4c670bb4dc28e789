"""Asks a model about plain texts, and counts the calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slalom_xai.errors import InputError
from slalom_xai.explainer import Explainer
from slalom_xai.progress import Bar

Array = NDArray[np.float64]

_AT_ONCE = 512  # texts that are read before they are asked


class TextAsker:
    """Answers about texts as log odds for each class.

    Args:
        explainer: holds the model.

    Attributes:
        calls: made so far.
    """

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self.calls = 0
        outputs = explainer.model.outputs
        if outputs.kind not in ("binary", "multiclass"):
            raise InputError(
                f"{explainer.model.name} gives {outputs.kind} outputs: "
                "an audit needs a classifier that chooses one of several classes"
            )
        self.labels = outputs.labels

    def log_odds(self, texts: Sequence[str], bar: Bar | None = None) -> Array:
        """The log odds (m, classes) of each class against all others.

        Raises:
            SlalomError: a text cannot be read, or the model failed.
        """
        found = [self._some(texts[start : start + _AT_ONCE], bar) for start in _starts(len(texts))]
        return np.concatenate(found) if found else np.zeros((0, len(self.labels)))

    def _some(self, texts: Sequence[str], bar: Bar | None) -> Array:
        model, truncation = self._explainer.model, self._explainer.truncation
        rows = []
        for text in texts:
            reading = model.read(text, truncation=truncation)
            rows.append(reading.rows_keeping(np.ones((1, len(reading.pieces)), dtype=bool)))
        if bar is not None:
            bar.start(len(rows))
        columns = self._explainer.batches.columns(rows, bar)
        self.calls += len(rows)
        return _against_others(np.concatenate([column.cpu().numpy() for column in columns]))


def _starts(count: int) -> range:
    return range(0, count, _AT_ONCE)


def _against_others(columns: Array) -> Array:
    """Explained columns (m, C) as the log odds (m, classes) of each class."""
    if columns.shape[1] == 1:
        return np.concatenate([-columns, columns], axis=1)
    logs = columns - np.logaddexp.reduce(columns, axis=1, keepdims=True)
    others = np.log1p(-np.exp(np.minimum(logs, -1e-15)))
    return logs - others
