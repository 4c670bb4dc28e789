"""Which rows a method asks: a module that writes down every row on its way into the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.benchmarks.speed.floor import Row, row_of


class Recorder(torch.nn.Module):
    """A model that remembers what it was asked.

    To our explainer it is a plain torch module, so every row arrives whole, whatever shortcuts
    there are for transformers models; the rows a method draws do not depend on how they are
    computed.

    Args:
        model: a transformers classifier.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.calls = 0
        self.rows: dict[Row, None] = {}

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Logits (rows, classes), as ``.logits`` and under the key of that name."""
        self.note(input_ids, attention_mask)
        return Logits(logits=self.model(input_ids=input_ids, attention_mask=attention_mask).logits)

    def note(self, input_ids: Tensor, attention_mask: Tensor) -> None:
        """Writes down the rows of a batch."""
        for ids, kept in zip(
            input_ids.cpu().numpy(), attention_mask.cpu().numpy().astype(np.bool_), strict=True
        ):
            self.rows[row_of(ids[kept])] = None
        self.calls += len(input_ids)


class Logits(SimpleNamespace):
    """Logits that can be asked for in either of two ways."""

    def __getitem__(self, name: str) -> Tensor:
        found: Tensor = getattr(self, name)
        return found
