"""A TextModel that plays a game: what it answers is a function of the words that are left."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from slalom_xai.models import Reading, Row
from slalom_xai.models.outputs import Outputs


class Game:
    """Log odds of two classes, or logits of more, from a list of words.

    Args:
        play: words, in their order, to a number (two classes) or to one for each label.
        labels: the classes.
        start: stands in front of every text, so that none is empty; "" for a model that takes no
            empty text.
    """

    name = "game"
    device = torch.device("cpu")
    probe_calls = 0

    def __init__(
        self,
        play: Callable[[list[str]], float | Sequence[float]],
        labels: Sequence[str] = ("no", "yes"),
        start: str = "^",
    ) -> None:
        self.play, self.start = play, start
        self.outputs = Outputs("binary" if len(labels) == 2 else "multiclass", tuple(labels))
        self.asked: list[str] = []

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        return Reading.of_words(text, lambda kept: " ".join(filter(None, [self.start, *kept])))

    def size(self, row: Row) -> int:
        return len(str(row).split())

    def show(self, row: Row) -> str:
        return str(row)

    def answer(self, rows: Sequence[Row]) -> torch.Tensor:
        assert self.start or "" not in rows
        self.asked.extend(str(row) for row in rows)
        played = [
            self.play([word for word in str(row).split() if word != self.start]) for row in rows
        ]
        if len(self.outputs.labels) > 2:
            return torch.tensor(played, dtype=torch.float64)
        odds = torch.tensor(played, dtype=torch.float64)
        return torch.stack([-odds / 2, odds / 2], dim=1)


def additive(weights: dict[str, float], bias: float = 0.5) -> Callable[[list[str]], float]:
    """The sum of the weights of the words that are left."""
    return lambda left: bias + sum(weights[word] for word in left)


def shapley_values(
    play: Callable[[list[str]], float], everything: Sequence[str], empty: float | None = None
) -> np.ndarray:
    """By definition: over all subsets of different words."""

    def value(chosen: set[str]) -> float:
        return (
            empty
            if not chosen and empty is not None
            else play([word for word in everything if word in chosen])
        )

    count = len(everything)
    found = np.zeros(count)
    for place, word in enumerate(everything):
        others = [other for other in everything if other != word]
        for size in range(count):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for chosen in itertools.combinations(others, size):
                found[place] += weight * (value({*chosen, word}) - value(set(chosen)))
    return found
