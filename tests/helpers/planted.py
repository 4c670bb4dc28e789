"""A transformer that *is* a SLALOM: one attention layer with hand-set weights.

The construction is Proposition 5.1 of the paper, mended.

Token t is embedded as [s(t), v(t), 0]: one importance, a value per class (one for the log odds
of two), and as many zeros. Queries are the constant sqrt(d) e_1 and keys the embeddings, so every
query sees the logits s; the value map moves v to where the zeros are, and the classifier reads
that place of the first position.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class PlantedConfig(PretrainedConfig):
    model_type = "planted-slalom"

    def __init__(self, vocab_size: int = 4, outputs: int = 1, **options) -> None:
        self.vocab_size = vocab_size
        self.outputs = outputs
        super().__init__(**options)


class PlantedSlalom(PreTrainedModel):
    config_class = PlantedConfig

    def __init__(self, config: PlantedConfig) -> None:
        super().__init__(config)
        width = 1 + 2 * config.outputs
        self.embedding = torch.nn.Embedding(config.vocab_size, width)
        self.query, self.key, self.value, self.project = (
            torch.nn.Linear(width, width) for _ in range(4)
        )
        self.classifier = torch.nn.Linear(width, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **_):
        hidden = self.embedding(input_ids)
        mask = None if attention_mask is None else attention_mask[:, None, :].bool()
        mixed = torch.nn.functional.scaled_dot_product_attention(
            self.query(hidden), self.key(hidden), self.value(hidden), attn_mask=mask
        )
        return SequenceClassifierOutput(
            logits=self.classifier((hidden + self.project(mixed))[:, 0])
        )


AutoConfig.register("planted-slalom", PlantedConfig, exist_ok=True)
AutoModelForSequenceClassification.register(PlantedConfig, PlantedSlalom, exist_ok=True)


def plant(
    values: torch.Tensor,
    importances: torch.Tensor,
    folder: Path,
    names: Sequence[str] | None = None,
) -> Path:
    """Saves a model and a tokenizer whose words t0, t1, ..., or others, have these scores.

    Values (types,) are the log odds of two classes, "no" and "yes"; values (types, classes) are the
    logits of "c0", "c1", ...
    """
    names = names or [f"t{index}" for index in range(len(values))]
    size, columns = len(values), values.reshape(len(values), -1)
    outputs = columns.shape[1]
    labels = ["no", "yes"] if values.ndim == 1 else [f"c{index}" for index in range(outputs)]
    model = PlantedSlalom(
        PlantedConfig(
            vocab_size=size + 1,
            outputs=outputs,
            id2label=dict(enumerate(labels)),
            label2id={label: index for index, label in enumerate(labels)},
        )
    )
    read = slice(1 + outputs, 1 + 2 * outputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[1:, 0] = importances.float()
        model.embedding.weight[1:, 1 : 1 + outputs] = columns.float()
        model.query.bias[0] = (1 + 2 * outputs) ** 0.5
        model.key.weight.copy_(torch.eye(1 + 2 * outputs))
        model.value.weight[read, 1 : 1 + outputs] = torch.eye(outputs)
        model.project.weight.copy_(torch.eye(1 + 2 * outputs))
        model.classifier.weight[-outputs:, read] = torch.eye(outputs)
    words = Tokenizer(
        models.WordLevel(
            {"[UNK]": 0} | {name: index + 1 for index, name in enumerate(names)},
            unk_token="[UNK]",
        )
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(folder)
    return folder
