"""Texts of any length."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXAMPLES_FOLDER = Path(__file__).parents[3] / "examples"
MOST_WORDS = 4000  # of the vocabulary, for made texts
SENTENCE = (11, 19)  # tokens of a sentence: 15 on average


def text_of(words: Any, tokens: int, seed: int = 0) -> str:
    """A text of so many tokens.

    It begins with the examples' reviews; beyond them come words of the vocabulary with natural
    frequencies.

    Args:
        words: a fast tokenizer.
        tokens: the length, special tokens left out.
        seed: other texts of the same length; only 0 begins with the examples.
    """
    start = ""
    if seed == 0:
        files = (EXAMPLES_FOLDER / "review.txt", EXAMPLES_FOLDER / "reviews.txt")
        start = " ".join(file.read_text(encoding="utf-8") for file in files)
    if words.unk_token_id in words(start, add_special_tokens=False)["input_ids"]:
        start = ""  # a made-up vocabulary, which has none of these words
    known = _single_words(words)
    weights = 1 / np.arange(1, len(known) + 1) ** 0.7
    drawn = np.random.default_rng(seed).choice(known, tokens, p=weights / weights.sum())
    return cut(" ".join([*start.split(), *map(str, drawn)]), words, tokens)


def cut(text: str, words: Any, tokens: int) -> str:
    """The first tokens of a text."""
    offsets = words(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text[: offsets[min(tokens, len(offsets)) - 1][1]]


@functools.lru_cache(maxsize=8)
def _single_words(words: Any) -> NDArray[np.str_]:
    """Up to 4,000 words that are one token each, in an order of no meaning."""
    names = sorted(
        word for word in words.get_vocab() if word.isalnum() and word.isascii() and len(word) > 1
    )
    order = np.random.default_rng(0).permutation(len(names))[:MOST_WORDS]
    drawn = np.array(names)[order]
    ids = words(drawn.tolist(), add_special_tokens=False)["input_ids"]
    kept: NDArray[np.str_] = drawn[[len(one) == 1 for one in ids]]
    return kept


def sentences(words: Any, count: int) -> list[str]:
    """Made sentences of 11 to 19 tokens."""
    lengths = np.random.default_rng(0).integers(SENTENCE[0], SENTENCE[1] + 1, count).tolist()
    return [text_of(words, length, seed) for seed, length in enumerate(lengths, start=1)]


def texts_of(data: Path | None, words: Any, tokens: int, count: int) -> list[str]:
    """Texts of one length: those of a table that are long enough, cut, or made ones.

    Args:
        data: JSON lines with a field text, gzipped or not; None: texts are made.
        words: a fast tokenizer.
        tokens: the length.
        count: how many.

    Raises:
        SystemExit: a table with too few long texts.
    """
    if data is None:
        return [text_of(words, tokens, seed) for seed in range(count)]
    raw = data.read_bytes()
    lines = (gzip.decompress(raw) if data.suffix == ".gz" else raw).splitlines()
    texts = (json.loads(line)["text"] for line in lines)
    long = (
        text for text in texts if len(words(text, add_special_tokens=False)["input_ids"]) >= tokens
    )
    found = [cut(text, words, tokens) for text in itertools.islice(long, count)]
    if len(found) < count:
        raise SystemExit(f"error: {data} has only {len(found)} texts of at least {tokens} tokens")
    return found
