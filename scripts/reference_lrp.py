"""Makes the fixtures of AttnLRP: tiny classifiers and what ``lxt`` says of their tokens.

They are made once, in an environment of their own, as lxt needs an older transformers than this
project does. Its other requirements, torchvision among them, are for models that are not used here;
what lxt imports of torchvision is stubbed.

    python -m venv reference && . reference/bin/activate
    pip install torch==2.13.0 transformers==4.52.4 numpy
    pip install --no-deps lxt==2.1
    python scripts/reference_lrp.py --out tests/fixtures/lrp

A folder per model holds the model and its tokenizer as transformers saves them, and
``reference.json``: texts, token ids, logits and relevances. A relevance is the sum over the width
of embedding × gradient of logit 1 − logit 0, under the AttnLRP rules that ``lxt.efficient`` has for
BERT and GPT-2 by default; special tokens are included. Both are computed in double precision from
the weights as saved. All weights are random, biases and those of LayerNorm too: at their usual
start these are zeros and ones, and a rule that treats them wrongly would not be seen.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.models.bert import modeling_bert
from transformers.models.gpt2 import modeling_gpt2

VOCABULARY = 64
LABELS = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
LENGTHS = (1, 7, 20, 40)
BUILT = {
    "bert": (
        BertForSequenceClassification,
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=128,
            **LABELS,
        ),
    ),
    "gpt2": (
        GPT2ForSequenceClassification,
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=128,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=1,
            eos_token_id=1,
            **LABELS,
        ),
    ),
}


def tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Words w5, w6, ... that are their own ids; BERT's puts [CLS] and [SEP] around them."""
    words = [*SPECIAL.values(), *(f"w{number}" for number in range(len(SPECIAL), VOCABULARY))]
    backend = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if name == "gpt2":
        return PreTrainedTokenizerFast(
            tokenizer_object=backend,
            unk_token="[UNK]",
            model_input_names=["input_ids", "attention_mask"],
        )
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, clean_up_tokenization_spaces=False, **SPECIAL
    )


def randomise(model: Any, generator: torch.Generator) -> None:
    """Weights large enough that attention is sharp and words matter more than places."""
    norms = {id(part.weight) for part in model.modules() if isinstance(part, torch.nn.LayerNorm)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if id(parameter) in norms:
                parameter.copy_(1 + 0.2 * drawn)
            elif parameter.ndim == 1 or "position" in name or "wpe" in name or "token_type" in name:
                parameter.copy_(0.1 * drawn)
            else:
                parameter.copy_(0.25 * drawn)


def relevances(model: Any, ids: torch.Tensor) -> tuple[list[float], list[float]]:
    """Logits, and the relevance of each token for logit 1 − logit 0."""
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
    logits = model(inputs_embeds=embeddings, attention_mask=torch.ones_like(ids)).logits[0]
    (logits[1] - logits[0]).backward()
    return logits.tolist(), (embeddings * embeddings.grad).sum(dim=-1)[0].tolist()


def patch() -> None:
    """Puts lxt's own AttnLRP rules for BERT and GPT-2 in force.

    It says that LayerNorm, which they share, is patched already.
    """
    vision: Any = types.ModuleType("torchvision.models")
    vision.vision_transformer = types.ModuleType("torchvision.models.vision_transformer")
    vision.vision_transformer.nn = torch.nn
    sys.modules |= {"torchvision": types.ModuleType("torchvision"), "torchvision.models": vision}
    from lxt.efficient import monkey_patch

    for module in (modeling_bert, modeling_gpt2):
        monkey_patch(module, verbose=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--out", type=Path, required=True, help="folder for the fixtures")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    generator = torch.Generator().manual_seed(given.seed)
    texts = [
        " ".join(
            f"w{int(word)}" for word in torch.randint(5, VOCABULARY, (length,), generator=generator)
        )
        for length in LENGTHS
    ]
    for name, (kind, config) in BUILT.items():
        model = kind(config)
        randomise(model, generator)
        model.save_pretrained(given.out / name)
        tokenizer(name).save_pretrained(given.out / name)
    patch()
    for name in BUILT:
        write_reference(name, given.out / name, texts)


def write_reference(name: str, folder: Path, texts: list[str]) -> None:
    """Logits and relevances of the saved model, under the rules of lxt."""
    kind, _ = BUILT[name]
    module = {"bert": modeling_bert, "gpt2": modeling_gpt2}[name]
    patched = getattr(module, kind.__name__)  # lxt has a BERT of its own
    model = patched.from_pretrained(folder).double().eval()
    found = []
    for text in texts:
        ids = tokenizer(name)(text, return_tensors="pt")["input_ids"]
        logits, relevance = relevances(model, ids)
        found.append(
            {"text": text, "ids": ids[0].tolist(), "logits": logits, "relevance": relevance}
        )
        largest = max(map(abs, relevance))
        print(f"{name}, {ids.shape[1]} tokens: logits {logits}, largest relevance {largest:.4g}")
    packages = ("lxt", "transformers", "torch")
    versions = {package: importlib.metadata.version(package) for package in packages}
    about = "made by scripts/reference_lrp.py"
    reference = {"about": about, "versions": versions, "texts": found}
    written = json.dumps(reference, indent=1) + "\n"
    (folder / "reference.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
