"""Tiny classifiers with random weights, one per architecture, each with the special tokens of its family."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

TEXT = "a quiet film that grows on you , though its last half hour is far too long and loud"
CORPUS = [
    TEXT,
    "the actors are warm and funny and the story is a mess",
    "nobody would call this good but i liked it more than i should",
    "loud long and dull until the end , then suddenly moving",
]
ARCHITECTURES = ("bert", "roberta", "distilbert", "modernbert", "gpt2", "llama")
INPUTS = ["input_ids", "attention_mask"]  # said outright: before transformers 5 the default had segments, too
SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
_LABELS = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}


def tokenizer(special: dict[str, str], template: str | None, **options: Any) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of the corpus; ``template`` is what it adds around a text."""
    names = list(dict.fromkeys(special.values()))
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=names, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(CORPUS * 4, trainer)
    if template:
        used = [(name, backend.token_to_id(name)) for name in names if name in template]
        backend.post_processor = TemplateProcessing(single=template, special_tokens=used)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **{"model_input_names": INPUTS, **special, **options})


def _bert_like(**options: Any) -> transformers.PreTrainedTokenizerFast:
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    return tokenizer(names, "[CLS] $A [SEP]", **options)


def _build(architecture: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    if architecture == "bert":
        words = _bert_like(model_input_names=[*INPUTS, "token_type_ids"])
        config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=128, **SIZE, **_LABELS)
        return transformers.BertForSequenceClassification(config), words
    if architecture == "roberta":
        words = tokenizer({"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}, "<s> $A </s>")
        config = transformers.RobertaConfig(vocab_size=len(words), max_position_embeddings=130, type_vocab_size=1, **SIZE, **_LABELS)
        return transformers.RobertaForSequenceClassification(config), words
    if architecture == "distilbert":
        words = _bert_like()
        config = transformers.DistilBertConfig(
            vocab_size=len(words), max_position_embeddings=128, dim=32, n_layers=2, n_heads=2, hidden_dim=64, **_LABELS
        )
        return transformers.DistilBertForSequenceClassification(config), words
    if architecture == "modernbert":
        words = _bert_like()
        ids = {"pad_token_id": words.pad_token_id, "cls_token_id": words.cls_token_id, "sep_token_id": words.sep_token_id}
        ids |= {"bos_token_id": words.cls_token_id, "eos_token_id": words.sep_token_id}
        config = transformers.ModernBertConfig(vocab_size=len(words), max_position_embeddings=128, **ids, **SIZE, **_LABELS)
        return transformers.ModernBertForSequenceClassification(config), words
    if architecture == "gpt2":  # no special token at all, and no pad token
        words = tokenizer({"eos_token": "<|endoftext|>"}, None)
        config = transformers.GPT2Config(
            vocab_size=len(words), n_positions=128, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, **_LABELS
        )
        return transformers.GPT2ForSequenceClassification(config), words
    words = tokenizer({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}, "<s> $A", padding_side="left")
    ids = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    config = transformers.LlamaConfig(vocab_size=len(words), num_key_value_heads=2, max_position_embeddings=128, **ids, **SIZE, **_LABELS)
    return transformers.LlamaForSequenceClassification(config), words


def log_odds(model: Any, ids: list[int]) -> float:
    """The plain, unpadded answer to one row, straight from the model."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0]
    return float(logits[1] - logits[0])


def deletions(words: Any, count: int, seed: int = 0) -> list[list[int]]:
    """Token ids of TEXT with some content tokens deleted, from the tokenizer's own mask."""
    encoded = words(TEXT, return_special_tokens_mask=True)
    ids, special = np.array(encoded["input_ids"]), np.array(encoded["special_tokens_mask"], dtype=bool)
    rng = np.random.default_rng(seed)
    content = np.flatnonzero(~special)
    rows = []
    for _ in range(count):
        kept = special.copy()
        kept[rng.choice(content, rng.integers(1, len(content)), replace=False)] = True
        rows.append(ids[kept].tolist())
    return rows


@functools.cache
def tiny(architecture: str) -> tuple[Any, Any]:
    """A model in eval mode and its tokenizer; the head is scaled until deletions move the log odds by 4."""
    model, words = _build(architecture)
    model.eval()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(10)  # words that differ more than places do, as trained ones
        answers = [log_odds(model, row) for row in deletions(words, 60)]
        head = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module.out_features == 2][-1]
        head.weight.mul_(4 / (max(answers) - min(answers)))
    return model, words
