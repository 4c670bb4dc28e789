"""The movie-review classifier that comes with the package, and texts to ask it about."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from slalom_xai.models.base import TextModel
from slalom_xai.models.load import text_model

# Each an opinion and something neutral to put before it.
PAIRS = (
    (
        "A moving and beautiful film.",
        (
            "We took the late train into town, found our seats in the third row, and shared a bag "
            "of crisps;"
        ),
    ),
    (
        "The acting is wonderful.",
        (
            "My cousin had chosen it because the cinema is next to her office and parking there "
            "is free."
        ),
    ),
    (
        "I loved every minute of it.",
        (
            "The story takes place in a small harbour town in the winter of a year that is never "
            "named."
        ),
    ),
    (
        "An awful, boring mess.",
        (
            "It runs for almost two hours, with a short break after the first half for the reels "
            "to be changed."
        ),
    ),
    (
        "The worst script in years.",
        (
            "Our group of six met on a Tuesday, as we do each month, to see whatever was on that "
            "evening."
        ),
    ),
    (
        "A dull and pointless sequel.",
        "There are two brothers, a lighthouse, a letter that arrives late, and a dog called Major.",
    ),
)


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
