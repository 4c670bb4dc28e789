"""Texts of any length."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXAMPLES = Path(__file__).parents[2] / "examples"


def text_of(words: Any, tokens: int, seed: int = 0) -> str:
    """A text of so many tokens: the examples' reviews, and beyond them words of the vocabulary with natural frequencies.

    Args:
        words: a fast tokenizer.
        tokens: the length, special tokens left out.
        seed: other texts of the same length; only 0 begins with the examples.
    """
    start = (
        " ".join(
            (EXAMPLES / name).read_text(encoding="utf-8") for name in ("review.txt", "reviews.txt")
        )
        if seed == 0
        else ""
    )
    if words.unk_token_id in words(start, add_special_tokens=False)["input_ids"]:
        start = ""  # a made-up vocabulary, which has none of these words
    return cut(" ".join([*start.split(), *_vocabulary_words(words, tokens, seed)]), words, tokens)


def cut(text: str, words: Any, tokens: int) -> str:
    """The first tokens of a text."""
    offsets = words(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text[: offsets[min(tokens, len(offsets)) - 1][1]]


def _vocabulary_words(words: Any, count: int, seed: int) -> list[str]:
    """Whole words, drawn with frequencies that fall with their rank."""
    known = _single_words(words)
    weights = 1 / np.arange(1, len(known) + 1) ** 0.7
    return [
        str(word)
        for word in np.random.default_rng(seed).choice(known, size=count, p=weights / weights.sum())
    ]


@functools.lru_cache(maxsize=8)
def _single_words(words: Any) -> NDArray[np.str_]:
    """Up to 4,000 words that are one token each, in an order of no meaning."""
    names = sorted(
        word for word in words.get_vocab() if word.isalnum() and word.isascii() and len(word) > 1
    )
    drawn = np.array(names)[np.random.default_rng(0).permutation(len(names))[:4000]]
    return drawn[
        np.array(
            [len(ids) == 1 for ids in words(drawn.tolist(), add_special_tokens=False)["input_ids"]]
        )
    ]


def texts_of(data: Path | None, words: Any, tokens: int, count: int) -> list[str]:
    """Texts of one length: from a table, cut, or made.

    Raises:
        SystemExit: a table that is missing, unreadable or too short.
    """
    if data is None:
        return [text_of(words, tokens, seed) for seed in range(count)]
    found: list[str] = []
    for text in _lines(data):
        if len(words(text, add_special_tokens=False)["input_ids"]) >= tokens:
            found.append(cut(text, words, tokens))
        if len(found) == count:
            return found
    raise SystemExit(
        f"error: {data} has {len(found)} texts of at least {tokens} tokens: {count} are needed"
    )


def _lines(data: Path) -> Iterator[str]:
    if not data.is_file():
        raise SystemExit(
            f"error: no file {data}: give JSON lines with a field text, gzipped or not"
        )
    with (
        gzip.open(data, "rt", encoding="utf-8")
        if data.suffix == ".gz"
        else data.open(encoding="utf-8") as lines
    ):
        for number, line in enumerate(lines, start=1):
            try:
                yield str(json.loads(line)["text"])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(
                    f"error: line {number} of {data} is not a JSON object with a field text"
                ) from error
