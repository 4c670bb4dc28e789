"""Between which ends a model's outputs lie.

A classifier saturates: beyond some number of favourable words its output hardly rises. Where it
does is a property of the model and not of the text, so the model is asked once, before the first
text: single words of its vocabulary, then short texts of those that came out highest and lowest.
They are always the same words, so that the range does not depend on what was explained before.

Models without a vocabulary (functions, pipelines, services) have the range of the outputs to each
text's own perturbations; ``fit`` widens every range to hold those anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class RangeSettings:
    """How a model is probed.

    Attributes:
        words: of the vocabulary, asked one by one.
        best: how many of them, at either end, are put together.
        lengths: of the texts they are put into.
        texts: of each length.
        columns: outputs that are probed at most; the others have the ends seen on the way.
    """

    words: int = 200
    best: int = 12
    lengths: tuple[int, ...] = (4, 16)
    texts: int = 6
    columns: int = 8


RANGE = RangeSettings()


@dataclass(frozen=True)
class OutputRange:
    """The ends of a model's outputs.

    Attributes:
        low: (C,), the lowest output of each column that was seen.
        high: (C,).
        calls: how many were needed.
    """

    low: Tensor
    high: Tensor
    calls: int


def probe_range(
    vocabulary: Sequence[str], send: Callable[[Sequence[str]], Tensor], seed: int = 0
) -> OutputRange:
    """Finds the range of a model from words of its vocabulary.

    Args:
        vocabulary: words that the model knows.
        send: texts to outputs (texts, C).
        seed: draws the words.
    """
    rng = np.random.default_rng(seed)
    words = [vocabulary[index] for index in rng.permutation(len(vocabulary))[: RANGE.words]]
    single = send(words)
    texts = []
    for column in range(min(single.shape[1], RANGE.columns)):
        order = torch.argsort(single[:, column]).tolist()
        for end in (order[: RANGE.best], order[-RANGE.best :]):
            for length in RANGE.lengths:
                for _ in range(RANGE.texts):
                    chosen = rng.choice(end, length)
                    texts.append(" ".join(words[index] for index in chosen))
    outputs = torch.cat([single, send(texts)])
    finite = torch.isfinite(outputs).all(dim=1)
    outputs = outputs[finite]
    return OutputRange(outputs.amin(dim=0), outputs.amax(dim=0), len(words) + len(texts))
