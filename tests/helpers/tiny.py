"""Tiny classifiers with random weights, one per architecture, with its special tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

from slalom_xai import methods

SHAPIQ = ("leverage-shap", "proxyspex", "regression-msr")  # of an optional package
BY_NAME = [
    name for name in methods() if name not in ("naive-bayes", *SHAPIQ)
]  # naive-bayes needs a corpus
INSIDE = (
    "attention-max",
    "attention-mean",
    "attention-rollout",
    "attn-lrp",
    "gradient",
    "integrated-gradients",
    "smoothgrad",
)
ASKING = [
    name for name in BY_NAME if name not in INSIDE
]  # those that black boxes can be explained with
TEXT = "a quiet film that grows on you , though its last half hour is far too long and loud"
CORPUS = [
    TEXT,
    "the actors are warm and funny and the story is a mess",
    "nobody would call this good but i liked it more than i should",
    "loud long and dull until the end , then suddenly moving",
]
INPUTS = [
    "input_ids",
    "attention_mask",
]  # said outright: before transformers 5 the default had segments, too
SIZE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
Built = tuple[Any, Any]
_LABELS = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}


def tokenizer(
    special: dict[str, str], template: str | None, pair: str | None = None, **options: Any
) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of the corpus; ``template`` surrounds a text, ``pair`` two."""
    names = list(dict.fromkeys(special.values()))
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=names, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS * 4, trainer)
    if template:
        used = [(name, backend.token_to_id(name)) for name in names if name in template]
        backend.post_processor = TemplateProcessing(single=template, pair=pair, special_tokens=used)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{"model_input_names": INPUTS, **special, **options}
    )


def _bert_like(**options: Any) -> transformers.PreTrainedTokenizerFast:
    names = {
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    return tokenizer(names, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", **options)


def _roberta_like(**options: Any) -> transformers.PreTrainedTokenizerFast:
    names = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    return tokenizer(names, "<s> $A </s>", "<s> $A </s> </s> $B </s>", **options)


def _llama_like(**options: Any) -> transformers.PreTrainedTokenizerFast:
    return tokenizer(
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
        "<s> $A",
        padding_side="left",
        **options,
    )


def _ids(words: Any, *names: str) -> dict[str, int]:
    return {f"{name}_token_id": getattr(words, f"{name}_token_id") for name in names}


def _bert() -> Built:
    words = _bert_like(model_input_names=[*INPUTS, "token_type_ids"])
    config = transformers.BertConfig(
        vocab_size=len(words), max_position_embeddings=128, **SIZE, **_LABELS
    )
    return transformers.BertForSequenceClassification(config), words


def _roberta() -> Built:
    words = _roberta_like()
    ids = _ids(words, "bos", "pad", "eos")
    config = transformers.RobertaConfig(
        vocab_size=len(words),
        max_position_embeddings=130,
        type_vocab_size=1,
        **ids,
        **SIZE,
        **_LABELS,
    )
    return transformers.RobertaForSequenceClassification(config), words


def _distilbert() -> Built:
    words = _bert_like()
    config = transformers.DistilBertConfig(
        vocab_size=len(words),
        max_position_embeddings=128,
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=64,
        **_LABELS,
    )
    return transformers.DistilBertForSequenceClassification(config), words


def _modernbert() -> Built:
    words = _bert_like()
    ids = _ids(words, "pad", "cls", "sep") | {
        "bos_token_id": words.cls_token_id,
        "eos_token_id": words.sep_token_id,
    }
    config = transformers.ModernBertConfig(
        vocab_size=len(words), max_position_embeddings=128, **ids, **SIZE, **_LABELS
    )
    return transformers.ModernBertForSequenceClassification(config), words


def _electra() -> Built:
    words = _bert_like(model_input_names=[*INPUTS, "token_type_ids"])
    config = transformers.ElectraConfig(
        vocab_size=len(words), embedding_size=16, max_position_embeddings=128, **SIZE, **_LABELS
    )
    return transformers.ElectraForSequenceClassification(config), words


def _albert() -> Built:
    words = _bert_like(model_input_names=[*INPUTS, "token_type_ids"])
    ids = _ids(words, "pad") | {
        "bos_token_id": words.cls_token_id,
        "eos_token_id": words.sep_token_id,
    }
    config = transformers.AlbertConfig(
        vocab_size=len(words),
        embedding_size=16,
        max_position_embeddings=128,
        **ids,
        **SIZE,
        **_LABELS,
    )
    return transformers.AlbertForSequenceClassification(config), words


def _deberta_v2() -> (
    Built
):  # relative positions only, and segments that it is given and does not look at
    words = _bert_like(model_input_names=[*INPUTS, "token_type_ids"])
    config = transformers.DebertaV2Config(
        vocab_size=len(words),
        max_position_embeddings=128,
        relative_attention=True,
        position_buckets=16,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pad_token_id=words.pad_token_id,
        **SIZE,
        **_LABELS,
    )
    return transformers.DebertaV2ForSequenceClassification(config), words


def _xlnet() -> (
    Built
):  # the summary is read from the last token, <cls>, whose segment is 2; padding goes left
    names = {
        "pad_token": "<pad>",
        "sep_token": "<sep>",
        "cls_token": "<cls>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    words = tokenizer(
        names,
        "$A:0 <sep>:0 <cls>:2",
        "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        padding_side="left",
        model_input_names=[*INPUTS, "token_type_ids"],
    )
    config = transformers.XLNetConfig(
        vocab_size=len(words),
        d_model=32,
        n_layer=2,
        n_head=2,
        d_inner=64,
        pad_token_id=words.pad_token_id,
        **_LABELS,
    )
    return transformers.XLNetForSequenceClassification(config), words


def _gpt2() -> Built:  # no special token at all, and no pad token
    words = tokenizer({"eos_token": "<|endoftext|>"}, None)
    config = transformers.GPT2Config(
        vocab_size=len(words),
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
        **_LABELS,
    )
    return transformers.GPT2ForSequenceClassification(config), words


def _llama() -> Built:
    words = _llama_like()
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        num_key_value_heads=2,
        max_position_embeddings=128,
        **_ids(words, "bos", "eos", "pad"),
        **SIZE,
        **_LABELS,
    )
    return transformers.LlamaForSequenceClassification(config), words


def _qwen2() -> Built:  # like Llama, and nothing is put in front
    words = tokenizer({"eos_token": "<|endoftext|>", "pad_token": "<pad>"}, None)
    config = transformers.Qwen2Config(
        vocab_size=len(words),
        num_key_value_heads=1,
        max_position_embeddings=128,
        bos_token_id=None,
        **_ids(words, "eos", "pad"),
        **SIZE,
        **_LABELS,
    )
    return transformers.Qwen2ForSequenceClassification(config), words


def _bloom() -> Built:  # positions by a slope in the attention
    words = tokenizer(
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"},
        None,
        padding_side="left",
    )
    config = transformers.BloomConfig(
        vocab_size=len(words),
        hidden_size=32,
        n_layer=2,
        n_head=2,
        **_ids(words, "bos", "eos", "pad"),
        **_LABELS,
    )
    return transformers.BloomForSequenceClassification(config), words


def _t5() -> Built:  # an encoder and a decoder; the summary is read at the last </s>
    words = tokenizer(
        {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        "$A </s>",
        "$A </s> $B </s>",
    )
    config = transformers.T5Config(
        vocab_size=len(words),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        **_ids(words, "pad", "eos"),
        **_LABELS,
    )
    return transformers.T5ForSequenceClassification(config), words


def _bart() -> Built:
    words = _roberta_like()
    size = {
        f"{side}_{name}": number
        for side in ("encoder", "decoder")
        for name, number in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 64))
    }
    ids = _ids(words, "bos", "pad", "eos") | {
        "decoder_start_token_id": words.eos_token_id,
        "forced_eos_token_id": words.eos_token_id,
    }
    config = transformers.BartConfig(
        vocab_size=len(words), max_position_embeddings=128, d_model=32, **size, **ids, **_LABELS
    )
    return transformers.BartForSequenceClassification(config), words


class MambaClassifier(torch.nn.Module):
    """A head of our own on a Mamba, for which the transformers library has none."""

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone
        self.config = backbone.config
        self.head = torch.nn.Linear(backbone.config.hidden_size, 2)

    @property
    def base_model(self) -> torch.nn.Module:
        return self.backbone

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.backbone.get_input_embeddings()

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        hidden = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        last = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(dim=1)
        return self.head(hidden[torch.arange(len(hidden)), last])


def _mamba() -> Built:  # a torch module, not a transformers model
    words = tokenizer({"eos_token": "<|endoftext|>", "pad_token": "<pad>"}, None)
    config = transformers.MambaConfig(
        vocab_size=len(words),
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        **_ids(words, "pad", "eos"),
        **_LABELS,
    )
    return MambaClassifier(transformers.MambaModel(config)), words


_BUILDERS: dict[str, Callable[[], Built]] = {
    "bert": _bert,
    "roberta": _roberta,
    "distilbert": _distilbert,
    "modernbert": _modernbert,
    "electra": _electra,
    "albert": _albert,
    "deberta-v2": _deberta_v2,
    "xlnet": _xlnet,
    "gpt2": _gpt2,
    "llama": _llama,
    "qwen2": _qwen2,
    "bloom": _bloom,
    "t5": _t5,
    "bart": _bart,
    "mamba": _mamba,
}
ARCHITECTURES = tuple(_BUILDERS)


def log_odds(model: Any, ids: Sequence[int], segments: Sequence[int] | None = None) -> float:
    """The plain, unpadded answer to one row, straight from the model."""
    inputs = {"input_ids": torch.tensor([list(ids)])}
    if segments is not None:
        inputs["token_type_ids"] = torch.tensor([list(segments)])
    with torch.inference_mode():
        answer = model(**inputs)
    logits = getattr(answer, "logits", answer)[0]
    return float(logits[1] - logits[0])


def shortened(words: Any, keep: np.ndarray, *texts: str) -> list[tuple[list[int], ...]]:
    """Rows that keep some content tokens, (rows, tokens), as ids and segments.

    The tokenizer's own mask says which tokens are content.
    """
    encoded = words(*(texts or (TEXT,)), return_special_tokens_mask=True)
    special = np.array(encoded["special_tokens_mask"], dtype=bool)
    streams = [
        np.array(encoded[name]) for name in ("input_ids", "token_type_ids") if name in encoded
    ]
    content = np.flatnonzero(~special)
    rows = []
    for row in keep:
        kept = special.copy()
        kept[content[row]] = True
        rows.append(tuple(stream[kept].tolist() for stream in streams))
    return rows


def deletions(words: Any, count: int, seed: int = 0) -> list[tuple[list[int], ...]]:
    """TEXT with some content tokens deleted."""
    rng = np.random.default_rng(seed)
    size = len(words(TEXT, add_special_tokens=False)["input_ids"])
    keep = np.zeros((count, size), dtype=bool)
    for row in keep:
        row[rng.choice(size, rng.integers(1, size), replace=False)] = True
    return shortened(words, keep)


@functools.cache
def tiny(architecture: str) -> tuple[Any, Any]:
    """A model in eval mode and its tokenizer.

    The head is scaled until deletions move the log odds by 4.
    """
    torch.manual_seed(0)
    model, words = _BUILDERS[architecture]()
    model.eval()
    with torch.no_grad():
        table = model.get_input_embeddings().weight
        table.mul_(0.2 / table.std())  # words that differ more than places do, as trained ones
        answers = [log_odds(model, *row) for row in deletions(words, 60)]
        head = [
            module
            for module in model.modules()
            if isinstance(module, torch.nn.Linear) and module.out_features == 2
        ][-1]
        head.weight.mul_(4 / (max(answers) - min(answers)))
    return model, words
