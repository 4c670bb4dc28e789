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


def bundled_folder() -> Path:
    """The files of the package's own model."""
    import slalom_xai

    return Path(slalom_xai.__file__).parent / "models" / "embedded"


def _folder(path: str | Path, device: str, name: str = "") -> Lab:
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(path, dtype=torch.float32)
    note = f"trained, {model.config.num_hidden_layers} layers × {model.config.hidden_size}"
    words = transformers.AutoTokenizer.from_pretrained(path)
    return Lab(name or Path(path).name, note, model.to(device).eval(), words)


def _bundled(device: str, classes: int) -> Lab:
    return _folder(bundled_folder(), device, "bundled")


def _bundled_tokenizer() -> Any:
    """The package's own tokenizer, for texts of any length."""
    return transformers.AutoTokenizer.from_pretrained(bundled_folder(), model_max_length=POSITIONS)


def word_tokenizer() -> Any:
    """Words w0 to w9999, one token each, behind a token that begins every text."""
    special = {"[PAD]": 0, "<s>": 1, "[UNK]": 2}
    vocabulary = special | {f"w{number}": 3 + number for number in range(10000)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "<s>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=["input_ids", "attention_mask"], **names
    )


def _random(
    name: str,
    note: str,
    config: Callable[..., Any],
    words: Callable[[], Any] = _bundled_tokenizer,
    dtype: torch.dtype = torch.float32,
    **shape: int,
) -> Make:
    """A classifier with random weights, made where it will run."""

    def make(device: str, classes: int) -> Lab:
        tokenizer = words()
        made = config(
            max_position_embeddings=POSITIONS,
            pad_token_id=tokenizer.pad_token_id,
            num_labels=classes,
            **shape,
        )
        with torch.device(device):
            kind = transformers.AutoModelForSequenceClassification
            model = kind.from_config(made, dtype=dtype)
        return Lab(name, f"random weights, {note}", model.to(device).eval(), tokenizer)

    return make


def _bert(name: str, layers: int, width: int, heads: int) -> Make:
    return _random(
        name,
        f"{layers} layers × {width}",
        transformers.BertConfig,
        vocab_size=8192,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width if layers == 1 else 4 * width,
    )


def _distilbert(name: str, layers: int) -> Make:
    note = f"DistilBERT's shape, {layers} layers × 768"
    return _random(name, note, transformers.DistilBertConfig, vocab_size=30522, n_layers=layers)


NAMED: dict[str, Make] = {
    "bundled": _bundled,
    "embedded": _bundled,
    "minilm": _bert("minilm", 6, 384, 12),
    "tiny": _bert("tiny", 2, 128, 4),  # the bundled model's shape
    "thin": _bert("thin", 1, 32, 1),
    "distil2": _distilbert("distil2", 2),
    "distil6": _distilbert("distil6", 6),
    "llama7b": _random(
        "llama7b",
        "Llama's shape, 32 layers × 4096, bf16",
        transformers.LlamaConfig,
        word_tokenizer,
        torch.bfloat16,
        vocab_size=32000,
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
        intermediate_size=11008,
    ),
}
