"""A classifier with one layer of attention, small enough to be understood with pencil and paper.

A text is [CLS] and its tokens, filled up with [UNK] to a fixed length. Each token is embedded by
its word and its place, [CLS] asks, every place answers, and each head returns the average of linear
values under a softmax:

    f(x) = 1/K sum_k sum_t a_t v_t,   a = softmax(q . k_t / sqrt(d)),   v_t = w_k . (W_v e_t).

There is no layer norm, no residual stream and no second layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slalom_xai.errors import InputError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]")


class Answer(NamedTuple):
    """What the classifier answers when it is asked for its attention weights.

    Attributes:
        logits: (rows, 1).
        attentions: (rows, heads, tokens, tokens) of the one layer.
    """

    logits: Tensor
    attentions: tuple[Tensor, ...]


class AttentionClassifier(torch.nn.Module):
    """One layer of attention with several heads, read at [CLS].

    Its answer is the log odds of the second of two classes.
    What the mask leaves out counts as [UNK], as padding does, so that padding on the right changes
    nothing.

    Args:
        words: how many tokens there are.
        unknown: the id of [UNK].
        length: places in a text, [CLS] included.
        width: of the embeddings.
        heads: how many averages are averaged.
        key_width: of keys and queries.
        value_width: of values.
        position_scale: the size of the positional embedding; 0 for none.
        seed: of the random weights.
    """

    def __init__(
        self,
        words: int,
        unknown: int,
        *,
        length: int,
        width: int = 16,
        heads: int = 1,
        key_width: int = 8,
        value_width: int = 8,
        position_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw)

        self.unknown = unknown
        self.length = length
        self.heads = heads
        self.key_width = key_width
        self.tokens = torch.nn.Embedding(words, width, _weight=random(words, width))
        self.query = torch.nn.Parameter(random(heads, key_width, width) / math.sqrt(width))
        self.key = torch.nn.Parameter(random(heads, key_width, width) / math.sqrt(width))
        self.value = torch.nn.Parameter(random(heads, value_width, width) / math.sqrt(width))
        self.head = torch.nn.Parameter(random(heads, value_width) / math.sqrt(value_width))
        self.positions: Tensor
        self.register_buffer("positions", position_scale * wave_positions(length, width))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> Tensor | Answer:
        """Logits (rows, 1) for token ids (rows, tokens), and attention weights on request.

        Attention to the filling behind the row is not among the weights, so that they sum to less
        than 1.
        """
        embedded = self.embed(input_ids, attention_mask)
        logits = self.read(embedded)[:, None]
        if not output_attentions:
            return logits
        queries = torch.einsum("kaw,rtw->rkta", self.query, embedded)
        keys = torch.einsum("kaw,rtw->rkta", self.key, embedded)
        tokens = input_ids.shape[1]
        logits_of_weights = queries @ keys.transpose(-1, -2) / math.sqrt(self.key_width)
        weights = torch.softmax(logits_of_weights, dim=-1)
        return Answer(logits, (weights[:, :, :tokens, :tokens],))

    def embed(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Words and places as vectors, (rows, length, width), filled up with [UNK]."""
        rows, tokens = input_ids.shape
        if tokens > self.length:
            raise InputError(
                f"a row has {tokens} tokens, but this model reads {self.length}: shorten it, or "
                "make the model longer"
            )
        ids = input_ids
        if attention_mask is not None:
            ids = torch.where(attention_mask.bool(), input_ids, self.unknown)
        looked_up = self.tokens(ids)
        blank = self.tokens(torch.full((1,), self.unknown, device=ids.device))  # (1, width)
        filling = blank.expand(rows, self.length - tokens, -1)
        return torch.cat([looked_up, filling], dim=1) + self.positions

    def scores(self, embedded: Tensor) -> Tensor:
        """How [CLS] rates each place before the softmax, (rows, heads, length)."""
        query = torch.einsum("kaw,rw->rka", self.query, embedded[:, 0])
        keys = torch.einsum("kaw,rtw->rkta", self.key, embedded)
        return torch.einsum("rka,rkta->rkt", query, keys) / math.sqrt(self.key_width)

    def place_values(self, embedded: Tensor) -> Tensor:
        """What the output would be if a head saw this place only, (rows, heads, length)."""
        return torch.einsum("ko,kow,rtw->rkt", self.head, self.value, embedded)

    def attention(self, embedded: Tensor) -> Tensor:
        """Attention weights of [CLS], (rows, heads, length)."""
        return torch.softmax(self.scores(embedded), dim=-1)

    def read(self, embedded: Tensor) -> Tensor:
        """The output (rows,) as a function of the embeddings, (rows, length, width)."""
        return (self.attention(embedded) * self.place_values(embedded)).sum(dim=-1).mean(dim=-1)


def head_count(heads: int) -> str:
    """So many heads, in words."""
    if heads == 1:
        return "1 head"
    return f"{heads} heads"


def wave_positions(length: int, width: int) -> Tensor:
    """Sines and cosines of a place at wavelengths from one to the length, (length, width)."""
    places = torch.arange(length, dtype=torch.float64)[:, None]
    rates = float(length) ** (-torch.arange(2, width + 2, 2, dtype=torch.float64) / width)
    waves = torch.stack([torch.sin(places * rates), torch.cos(places * rates)], dim=-1)
    return waves.reshape(length, -1)[:, :width].to(torch.get_default_dtype())


def word_tokenizer(words: Sequence[str], length: int) -> Any:
    """A tokenizer of whole lower-case words with [CLS] in front.

    Ids number ``SPECIAL_TOKENS`` and then the words.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    ids = {word: index for index, word in enumerate([*SPECIAL_TOKENS, *words])}
    backend: Any = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", ids["[CLS]"])]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    library: Any = import_module("transformers")
    inputs = ["input_ids", "attention_mask"]
    return library.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=length, model_input_names=inputs, **names
    )
