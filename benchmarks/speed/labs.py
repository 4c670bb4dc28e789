"""The models that are measured, and texts of any length for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.speed.subjects import Lab

EXAMPLES = Path(__file__).parents[2] / "examples"
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}


def lab(name: str, device: str = "cpu") -> Lab:
    """A model by its name in ``NAMED``, or of a folder.

    Raises:
        SystemExit: no such name or folder.
    """
    torch.manual_seed(0)
    if name in NAMED:
        return NAMED[name](device)
    if not (Path(name) / "config.json").is_file():
        raise SystemExit(f"error: no model {name!r}: give a folder with a config.json, or one of {', '.join(NAMED)}")
    return _folder(name, device)


def embedded_folder() -> Path:
    """The files of the package's own model."""
    import slalom_xai

    return Path(slalom_xai.__file__).parent / "models" / "embedded"


def _folder(name: str | Path, device: str) -> Lab:
    model = transformers.AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32)
    words = transformers.AutoTokenizer.from_pretrained(name)
    config = model.config
    return Lab(Path(name).name, f"trained, {config.num_hidden_layers} layers × {config.hidden_size}", model.to(device).eval(), words)


def _bert(device: str, words: Any, name: str, **shape: Any) -> Lab:
    """Random weights; as many positions as any text here needs."""
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=4200, pad_token_id=words.pad_token_id, **shape)
    model = transformers.BertForSequenceClassification(config)
    note = f"random weights, {config.num_hidden_layers} layers × {config.hidden_size}"
    return Lab(name, note, model.to(device).eval(), words)


def _minilm(device: str) -> Lab:
    return _bert(device, embedded_tokenizer(), "minilm", **MINILM)


def embedded_tokenizer() -> Any:
    """The package's own tokenizer, without a limit of length."""
    return transformers.AutoTokenizer.from_pretrained(embedded_folder(), model_max_length=10**6)


def _embedded(device: str) -> Lab:
    return _folder(embedded_folder(), device)


NAMED: dict[str, Callable[[str], Lab]] = {"embedded": _embedded, "minilm": _minilm}


def text_of(words: Any, tokens: int, seed: int = 0) -> str:
    """A text of so many tokens: the examples' reviews, and beyond them words of the vocabulary with natural frequencies.

    Args:
        words: a fast tokenizer.
        tokens: its length, special tokens left out.
        seed: other texts of the same length; 0 begins with the examples.
    """
    start = " ".join((EXAMPLES / name).read_text(encoding="utf-8") for name in ("review.txt", "reviews.txt")) if seed == 0 else ""
    text = " ".join((start + " " + " ".join(_vocabulary_words(words, tokens, seed))).split())
    found = words(text, add_special_tokens=False, return_offsets_mapping=True)
    return text[: found["offset_mapping"][tokens - 1][1]]


def _vocabulary_words(words: Any, count: int, seed: int) -> list[str]:
    """Whole words that are one token each, drawn with frequencies that fall as one over their rank."""
    names = sorted(word for word in words.get_vocab() if word.isalnum() and word.isascii() and len(word) > 1)
    rng = np.random.default_rng(seed)
    known = [word for word in rng.permutation(names)[:4000] if len(words(str(word), add_special_tokens=False)["input_ids"]) == 1]
    weights = 1 / np.arange(1, len(known) + 1) ** 0.7
    return [str(word) for word in rng.choice(known, size=count, p=weights / weights.sum())]


def texts_of(data: Path | None, words: Any, tokens: Sequence[int]) -> list[str]:
    """One text for each length: from a table of texts, cut to length, or made."""
    if data is None:
        return [text_of(words, length, seed) for seed, length in enumerate(tokens)]
    import gzip

    found: list[str] = []
    with gzip.open(data, "rt", encoding="utf-8") if data.suffix == ".gz" else data.open(encoding="utf-8") as lines:
        for line in lines:
            if len(found) == len(tokens):
                break
            text = json.loads(line)["text"]
            offsets = words(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            if len(offsets) >= tokens[len(found)]:
                found.append(text[: offsets[tokens[len(found)] - 1][1]])
    if len(found) < len(tokens):
        raise SystemExit(f"error: {data} has only {len(found)} texts that are long enough: {len(tokens)} are needed")
    return found
