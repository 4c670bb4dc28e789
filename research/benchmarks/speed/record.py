"""Which rows go into a model: a module that writes down every row on its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.benchmarks.speed.floor import Row, row_of


class Recorder(torch.nn.Module):
    """A model that remembers what it was asked. To an explainer it is a plain torch module.

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

    def note(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> None:
        """Writes down the rows of a batch."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        for ids, kept in zip(
            input_ids.cpu().numpy(), mask.cpu().numpy().astype(np.bool_), strict=True
        ):
            self.rows[row_of(ids[kept])] = None
        self.calls += len(input_ids)


class Logits(SimpleNamespace):
    """Logits that can be asked for in either of two ways."""

    def __getitem__(self, name: str) -> Tensor:
        found: Tensor = getattr(self, name)
        return found


@contextmanager
def recorded(model: Any) -> Iterator[Recorder]:
    """A recorder that knows, in the end, what went into a model; in between nearly free."""
    recorder = Recorder(model)
    batches: list[dict[str, Any]] = []
    hook = model.register_forward_pre_hook(
        lambda _, __, inputs: batches.append(inputs), with_kwargs=True
    )
    try:
        yield recorder
    finally:
        hook.remove()
    for inputs in batches:
        recorder.note(inputs["input_ids"], inputs.get("attention_mask"))
