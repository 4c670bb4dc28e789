"""Texts of any length."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

EXAMPLES_FOLDER = Path(__file__).parents[3] / "examples"
MOST_WORDS = 4000  # of the vocabulary, for made texts


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
    return cut(" ".join([*start.split(), *_vocabulary_words(words, tokens, seed)]), words, tokens)


def cut(text: str, words: Any, tokens: int) -> str:
    """The first tokens of a text."""
    offsets = words(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text[: offsets[min(tokens, len(offsets)) - 1][1]]


def _vocabulary_words(words: Any, count: int, seed: int) -> list[str]:
    """Whole words, drawn with frequencies that fall with their rank."""
    known = _single_words(words)
    weights = 1 / np.arange(1, len(known) + 1) ** 0.7
    chances = weights / weights.sum()
    drawn = np.random.default_rng(seed).choice(known, size=count, p=chances)
    return [str(word) for word in drawn]


@functools.lru_cache(maxsize=8)
def _single_words(words: Any) -> NDArray[np.str_]:
    """Up to 4,000 words that are one token each, in an order of no meaning."""
    names = sorted(
        word for word in words.get_vocab() if word.isalnum() and word.isascii() and len(word) > 1
    )
    order = np.random.default_rng(0).permutation(len(names))[:MOST_WORDS]
    drawn = np.array(names)[order]
    ids = words(drawn.tolist(), add_special_tokens=False)["input_ids"]
    single = np.array([len(one) == 1 for one in ids])
    kept: NDArray[np.str_] = drawn[single]
    return kept


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
    with _opened(data) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield str(json.loads(line)["text"])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(
                    f"error: line {number} of {data} is not a JSON object with a field text"
                ) from error


def _opened(data: Path) -> TextIO:
    if data.suffix == ".gz":
        return cast(TextIO, gzip.open(data, "rt", encoding="utf-8"))
    return data.open(encoding="utf-8")
