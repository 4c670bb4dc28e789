"""Fully connected networks that read a fixed number of places: the paper's contrast (Fig. 3, 7)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.training.architecture import name_classes


class FullyConnected(torch.nn.Module):
    """Embeddings of all places side by side, one layer of ReLUs, two logits.

    Args:
        tokens: how many kinds there are.
        places: tokens it reads at most; empty places are zeros.
        width: of an embedding.
        hidden: how many ReLUs.
        pad: the token of empty places.
        labels: the names of the classes.
    """

    def __init__(
        self,
        tokens: int,
        *,
        places: int,
        width: int,
        hidden: int,
        pad: int,
        labels: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._places = places
        self.embedding = torch.nn.Embedding(tokens, width, padding_idx=pad)
        self.inner = torch.nn.Linear(places * width, hidden)
        self.outer = torch.nn.Linear(hidden, len(labels))
        self.config: Any = SimpleNamespace(
            num_labels=len(labels), max_position_embeddings=places, vocab_size=tokens
        )
        name_classes(self.config, labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Ids and a mask (m, n) to ``logits`` (m, classes)."""
        embedded = self.embedding(input_ids) * attention_mask[:, :, None]  # (m, n, d)
        empty = self._places - input_ids.shape[1]
        filled = torch.nn.functional.pad(embedded, (0, 0, 0, empty))
        hidden = torch.relu(self.inner(filled.flatten(1)))
        return SimpleNamespace(logits=self.outer(hidden))
