"""Nets without attention: the contrast to transformers in Fig. 3, Fig. 7 and Table 12."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from slalom_xai.data.training.start import name_classes


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


class TfIdfNet(torch.nn.Module):
    """TF-IDF of the tokens, two layers of ReLUs, a logit for each class: no attention (Table 12).

    Args:
        idf: (tokens,), the weight of each token; 0 for those that do not count.
        hidden: ReLUs of the two layers.
        labels: the names of the classes.
    """

    idf: Tensor

    def __init__(self, idf: Tensor, *, hidden: tuple[int, int], labels: tuple[str, ...]) -> None:
        super().__init__()
        self.register_buffer("idf", idf)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(len(idf), hidden[0]),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden[0], hidden[1]),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden[1], len(labels)),
        )
        self.config: Any = SimpleNamespace(num_labels=len(labels), vocab_size=len(idf))
        name_classes(self.config, labels)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Ids and a mask (m, n) to ``logits`` (m, classes)."""
        counts = self.idf.new_zeros(len(input_ids), len(self.idf))
        counts.scatter_add_(1, input_ids, attention_mask.to(counts.dtype))
        weighted = torch.nn.functional.normalize(counts * self.idf)
        return SimpleNamespace(logits=self.layers(weighted))


def inverse_frequencies(rows: Sequence[Sequence[int]], tokens: int) -> Tensor:
    """log((1 + texts) / (1 + texts with the token)) + 1 for each token, (tokens,)."""
    present = torch.zeros(tokens)
    for row in rows:
        present[torch.tensor(sorted(set(row)), dtype=torch.long)] += 1
    return torch.log((1 + len(rows)) / (1 + present)) + 1
