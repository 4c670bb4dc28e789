"""The movie-review classifier that comes with the package, asked about whole texts."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from slalom_xai.models.base import TextModel
from slalom_xai.models.load import text_model


def embedded_log_odds(texts: Sequence[str]) -> Tensor:
    """The classifier's log odds (m,) of "positive"."""
    model = _embedded()
    rows = []
    for text in texts:
        reading = model.read(text)
        whole = np.ones(len(reading.pieces), dtype=bool)
        rows.append(reading.shorten(whole))
    logits = model.answer(rows).double().cpu()  # (m, 2)
    return logits[:, 1] - logits[:, 0]


@functools.lru_cache(maxsize=1)
def _embedded() -> TextModel:
    return text_model(None, device="cpu")
