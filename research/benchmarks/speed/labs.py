"""The models that are measured. Speed does not depend on weights, so most have random ones."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from research.benchmarks.speed.subjects import Lab
from research.benchmarks.speed.texts import text_of as text_of

transformers: Any = import_module("transformers")  # its own types say less than Any

POSITIONS = 4200  # as many as any text here needs
MINILM_SHAPE = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
EMBEDDED_SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
}
THIN_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 64,
}
LLAMA_SHAPE = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
}
Make = Callable[[str, int], Lab]


def load_lab(name: str, device: str = "cpu", classes: int = 2) -> Lab:
    """A model by its name in ``NAMED``, or of a folder.

    Raises:
        SystemExit: no such name or folder.
    """
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    if name in NAMED:
        return NAMED[name](device, classes)
    if not (Path(name) / "config.json").is_file():
        raise SystemExit(
            f"error: no model {name!r}: give a folder with a config.json, or one of "
            f"{', '.join(NAMED)}"
        )
    return _folder(name, device)


def embedded_folder() -> Path:
    """The files of the package's own model."""
    import slalom_xai

    return Path(slalom_xai.__file__).parent / "models" / "embedded"


def _folder(name: str | Path, device: str) -> Lab:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        name, dtype=torch.float32
    )
    words = transformers.AutoTokenizer.from_pretrained(name)
    config = model.config
    return Lab(
        Path(name).name,
        f"trained, {config.num_hidden_layers} layers × {config.hidden_size}",
        model.to(device).eval(),
        words,
    )


def _embedded(device: str, classes: int) -> Lab:
    return _folder(embedded_folder(), device)


def embedded_tokenizer() -> Any:
    """The package's own tokenizer, for texts of any length."""
    return transformers.AutoTokenizer.from_pretrained(embedded_folder(), model_max_length=POSITIONS)


def word_tokenizer() -> Any:
    """Words w0 to w9999, one token each, behind a token that begins every text."""
    vocabulary = {"[PAD]": 0, "<s>": 1, "[UNK]": 2} | {
        f"w{number}": 3 + number for number in range(10000)
    }
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "<s>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=["input_ids", "attention_mask"], **names
    )


def _random(
    name: str, note: str, config: Any, words: Any, device: str, dtype: torch.dtype = torch.float32
) -> Lab:
    """A classifier with random weights, made where it will run."""
    with torch.device(device):
        model = transformers.AutoModelForSequenceClassification.from_config(config, dtype=dtype)
    return Lab(name, f"random weights, {note}", model.to(device).eval(), words)


def _bert(name: str, shape: dict[str, int]) -> Make:
    def make(device: str, classes: int) -> Lab:
        words = embedded_tokenizer()
        config = transformers.BertConfig(
            vocab_size=len(words),
            max_position_embeddings=POSITIONS,
            pad_token_id=words.pad_token_id,
            num_labels=classes,
            **shape,
        )
        return _random(
            name, f"{config.num_hidden_layers} layers × {config.hidden_size}", config, words, device
        )

    return make


def _distilbert(name: str, layers: int) -> Make:
    def make(device: str, classes: int) -> Lab:
        words = embedded_tokenizer()
        config = transformers.DistilBertConfig(
            vocab_size=30522,
            n_layers=layers,
            max_position_embeddings=POSITIONS,
            pad_token_id=words.pad_token_id,
            num_labels=classes,
        )
        return _random(
            name, f"DistilBERT's shape, {layers} layers × {config.dim}", config, words, device
        )

    return make


def _llama(device: str, classes: int) -> Lab:
    """A decoder of 7 billion parameters, bf16.

    Its weights are made on the device: drawing them would take minutes on a CPU.
    """
    words = word_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=32000,
        max_position_embeddings=POSITIONS,
        pad_token_id=words.pad_token_id,
        num_labels=classes,
        **LLAMA_SHAPE,
    )
    return _random(
        "llama7b", "Llama's shape, 32 layers × 4096, bf16", config, words, device, torch.bfloat16
    )


NAMED: dict[str, Make] = {
    "embedded": _embedded,
    "minilm": _bert("minilm", MINILM_SHAPE),
    "tiny": _bert("tiny", EMBEDDED_SHAPE),
    "thin": _bert("thin", THIN_SHAPE),
    "distil2": _distilbert("distil2", 2),
    "distil6": _distilbert("distil6", 6),
    "llama7b": _llama,
}
