"""Tiny causal language models: random ones of the library, and one whose answers are planted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import transformers
from tiny import SIZE, tokenizer

TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)
CONTEXT = (
    "a quiet film. the actors are warm and funny. the story is a mess. it grows on you. "
    "nobody would call this good. i liked it more than i should. loud long and dull."
)
QUESTION = "is this film good?"


def words(chat: bool = True) -> Any:
    """A tokenizer, with a chat template or without."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    made = tokenizer(special, "<s> $A", padding_side="left")
    made.chat_template = TEMPLATE if chat else None
    return made


def language_model(kind: str, made: Any) -> Any:
    """A model with random weights, whose pad token ends every message, as in many chat models."""
    torch.manual_seed(0)
    ids = {"bos_token_id": made.bos_token_id, "eos_token_id": made.eos_token_id}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=len(made), n_embd=32, n_layer=2, n_head=2, n_positions=512, **ids
        )
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            vocab_size=len(made),
            max_position_embeddings=512,
            pad_token_id=made.eos_token_id,
            **SIZE,
            **ids,
        )
        model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():  # far enough from uniform that what is left out matters
        for parameter in model.parameters():
            parameter.mul_(3)
    return model.eval()


class Planted(torch.nn.Module):
    """Says a word with log odds that are a weighted average of what it has read.

    Before every token, the logit of the word is the average of the values of all tokens so far
    under their weights, and the logits of all others are 0.

    Args:
        made: the tokenizer.
        said: the token of the word.
        values: by token; others have no weight.
        weights: by token.
    """

    def __init__(
        self, made: Any, said: int, values: dict[int, float], weights: dict[int, float]
    ) -> None:
        super().__init__()
        self.config = transformers.PretrainedConfig(
            vocab_size=len(made), eos_token_id=made.eos_token_id
        )
        self.table = torch.nn.Embedding(len(made), 2)
        self.head = torch.nn.Linear(1, len(made), bias=False)
        with torch.no_grad():
            self.table.weight.zero_()
            self.head.weight.zero_()
            self.head.weight[said] = 1
            for token, weight in weights.items():
                self.table.weight[token] = torch.tensor([weight, weight * values[token]])

    def get_input_embeddings(self) -> Any:
        return self.table

    def get_output_embeddings(self) -> Any:
        return self.head

    def forward(self, input_ids: Any, attention_mask: Any = None) -> SimpleNamespace:
        total = self.table(input_ids).cumsum(dim=1)
        average = total[..., 1:] / total[..., :1].clamp(min=1e-6)
        return SimpleNamespace(logits=self.head(average))
