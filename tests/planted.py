"""A transformer that *is* a SLALOM: one attention layer with hand-set weights (Proposition 5.1, mended).

Token t is embedded as [s(t), v(t), 0]. Queries are the constant sqrt(d) e_1 and keys the
embeddings, so every query sees the logits s; the value map moves v from component 2 to 3,
and the classifier reads component 3 of the first position.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import SequenceClassifierOutput

WIDTH = 4


class PlantedConfig(PretrainedConfig):
    model_type = "planted-slalom"

    def __init__(self, vocab_size: int = 4, **options) -> None:
        self.vocab_size = vocab_size
        super().__init__(**options)


class PlantedSlalom(PreTrainedModel):
    config_class = PlantedConfig

    def __init__(self, config: PlantedConfig) -> None:
        super().__init__(config)
        self.embedding = torch.nn.Embedding(config.vocab_size, WIDTH)
        self.query, self.key, self.value, self.project = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.classifier = torch.nn.Linear(WIDTH, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **_):
        hidden = self.embedding(input_ids)
        mask = None if attention_mask is None else attention_mask[:, None, :].bool()
        mixed = torch.nn.functional.scaled_dot_product_attention(self.query(hidden), self.key(hidden), self.value(hidden), attn_mask=mask)
        return SequenceClassifierOutput(logits=self.classifier((hidden + self.project(mixed))[:, 0]))


AutoConfig.register("planted-slalom", PlantedConfig, exist_ok=True)
AutoModelForSequenceClassification.register(PlantedConfig, PlantedSlalom, exist_ok=True)


def plant(values: torch.Tensor, importances: torch.Tensor, folder: Path) -> Path:
    """Saves a model and a tokenizer whose words t0, t1, ... have these scores."""
    size = len(values)
    model = PlantedSlalom(PlantedConfig(vocab_size=size + 1, id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[1:, 0] = importances.float()
        model.embedding.weight[1:, 1] = values.float()
        model.query.bias[0] = WIDTH**0.5
        model.key.weight.copy_(torch.eye(WIDTH))
        model.value.weight[2, 1] = 1.0
        model.project.weight.copy_(torch.eye(WIDTH))
        model.classifier.weight[1, 2] = 1.0
    words = Tokenizer(models.WordLevel({"[UNK]": 0} | {f"t{index}": index + 1 for index in range(size)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(folder)
    return folder
