"""A model to ask, and a text as that model reads it.

Token ids go in and log odds come out, with nothing of the package in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.benchmarks.speed.floor import Row, Runner, row_of

Array = NDArray[np.float64]
Masks = NDArray[np.bool_]


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
    """A text of n units for one model, which can be asked with some of them deleted.

    Args:
        lab: the model.
        text: what to read.
    """

    def __init__(self, lab: Lab, text: str) -> None:
        self.lab = lab
        self.text = text
        self.before, self.after = (np.array(ids, dtype=np.int64) for ids in lab.frame)
        self.ids = np.array(
            lab.tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64
        )
        self.runner = Runner(lab.model, lab.pad)
        self.heard: list[Row] | None = None  # where rows are written down while someone listens
        logits = self.runner.answers([self.row(np.ones(len(self.ids), dtype=bool))])
        self.target = int(logits[0].argmax())
        if logits.shape[1] == 2:
            self.target = 1
        self.full = float(self.margin(logits)[0])

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, keep: Masks) -> Row:
        """The token ids of the text with only some units, (n,)."""
        return row_of(np.concatenate([self.before, self.ids[keep], self.after]))

    def margin(self, logits: Tensor) -> Array:
        """What is explained, (m,).

        Of two classes it is the log odds, else the target's log probability, centred over classes.
        """
        logits = logits.double().cpu()
        if logits.shape[1] == 2:
            return (logits[:, 1] - logits[:, 0]).numpy()
        return (logits[:, self.target] - logits.mean(dim=1)).numpy()

    def ask(self, masks: Masks) -> Array:
        """The model's answers (m,) to rows of masks (m, n), batched by length.

        This is what other libraries are given to call.
        """
        return self.ask_rows([self.row(mask) for mask in np.asarray(masks, dtype=bool)])

    def ask_rows(self, rows: Sequence[Row]) -> Array:
        """The model's answers (m,) to token ids."""
        if self.heard is not None:
            self.heard += rows
        return self.margin(self.runner.answers(rows))

    def deletions(self, count: int, most: int, rng: np.random.Generator) -> Masks:
        """Masks (count, n) that delete 1 to ``most`` units, uniform in their number."""
        deleted = rng.integers(1, min(most, len(self) - 1) + 1, count)
        ranks = rng.random((count, len(self))).argsort(axis=1).argsort(axis=1)
        masks: Masks = ranks >= deleted[:, None]
        return masks
