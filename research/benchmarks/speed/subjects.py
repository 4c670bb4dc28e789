"""A model to measure, and a text as it reads it: token ids in, log odds out.

Nothing of the package is in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from research.benchmarks.speed.floor import Row, Runner, row_of

Array = NDArray[np.float64]
Masks = NDArray[np.bool_]
Predict = Callable[[Masks], Array]  # masks (m, n) to predicted outputs (m,), up to a constant

FRESH = 500  # removals of either kind that errors are measured on


@dataclass(frozen=True)
class Lab:
    """A model under measurement.

    Attributes:
        name: short, for tables.
        note: what it is, in words: layers, width, trained or random.
        model: a transformers classifier, placed and in evaluation mode.
        tokenizer: its tokenizer.
    """

    name: str
    note: str
    model: Any
    tokenizer: Any

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def trained(self) -> bool:
        """Whether its outputs mean something."""
        return self.note.startswith("trained")

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """Special tokens before and after a text."""
        bare = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        full = self.tokenizer("a")["input_ids"]
        start = next(at for at in range(len(full)) if full[at : at + len(bare)] == bare)
        return full[:start], full[start + len(bare) :]

    @property
    def pad(self) -> int:
        """The id that fills up short rows."""
        return int(self.tokenizer.pad_token_id or 0)


class Subject:
    """A text of n tokens for a model of two classes, with some of them deleted.

    Args:
        lab: the model.
        text: what to read.
    """

    def __init__(self, lab: Lab, text: str) -> None:
        self.lab = lab
        self.text = text
        self.before, self.after = (np.array(ids, dtype=np.int64) for ids in lab.frame)
        encoded = lab.tokenizer(text, add_special_tokens=False)["input_ids"]
        self.ids = np.array(encoded, dtype=np.int64)
        self.runner = Runner(lab.model, lab.pad)

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, keep: Masks) -> Row:
        """The token ids of the text with only some tokens, (n,)."""
        return row_of(np.concatenate([self.before, self.ids[keep], self.after]))

    def ask(self, masks: Masks) -> Array:
        """The log odds (m,) of the rows of masks (m, n), batched by length.

        This is what other libraries are given to call.
        """
        rows = [self.row(mask) for mask in np.asarray(masks, dtype=bool)]
        logits = self.runner.answers(rows).double().numpy()
        odds: Array = logits[:, 1] - logits[:, 0]
        return odds

    def errors(self, predict: Predict, asked: Collection[Row] = ()) -> dict[str, float]:
        """Mean squared errors of predicted changes, with few and with any number removed.

        Args:
            predict: an explanation.
            asked: rows that do not count, because the explanation comes from them.
        """
        found = {}
        for kind, (masks, changes) in self._fresh.items():
            new = np.array([self.row(mask) not in asked for mask in masks])
            predicted = predict(masks[new]) - predict(np.ones((1, len(self)), dtype=bool))
            found[kind] = float(np.mean((predicted - changes[new]) ** 2))
        return found

    @cached_property
    def _fresh(self) -> dict[str, tuple[Masks, Array]]:
        """Random removals, and what they change."""
        rng = np.random.default_rng(77)
        found = {}
        full = self.ask(np.ones((1, len(self)), dtype=bool))
        for kind, most in (("few", 10), ("any", len(self) - 1)):
            masks = random_removals(len(self), most, rng)
            found[kind] = masks, self.ask(masks) - full
        return found


def random_removals(units: int, most: int, rng: np.random.Generator, count: int = FRESH) -> Masks:
    """Masks (count, units) that remove 1 to ``most`` units, uniform in their number."""
    removed = rng.integers(1, max(1, min(most, units - 1)) + 1, count)
    ranks = rng.random((count, units)).argsort(axis=1).argsort(axis=1)
    masks: Masks = ranks >= removed[:, None]
    return masks
