"""Which unit each piece of a text belongs to, and what a reader should know about the units."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slalom_xai.text.sentence_splitting import passage_starts, phrase_starts, sentence_starts
from slalom_xai.text.units import Unit, equal_codes
from slalom_xai.text.word_splitting import unspaced_runs, words

ALL_UNKNOWN = (
    "Every token of the text is unknown to the model's tokenizer, which reads them all alike: "
    "give a text in the language that the model was trained on, or another model."
)
MANY_UNKNOWN = 1 / 3  # the share of unknown tokens from which a reader is warned


def owners(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    codes: NDArray[np.int64],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None = None,
    passages: Sequence[int] | None = None,
) -> NDArray[np.int64]:
    """The unit (pieces,) each piece belongs to, numbered in reading order.

    Args:
        texts: the whole text, or the two of a pair.
        pieces: its tokens or words.
        codes: (pieces,), equal where two read the same.
        granularity: one of ``GRANULARITIES``.
        tokenizer_words: (pieces,), the tokenizer's own words, where there is a tokenizer.
        passages: where the passages of the first text begin, where a user gave them one by one;
            otherwise they end at empty lines.
    """
    if granularity == "token":
        return np.arange(len(pieces))
    if granularity == "type":
        return equal_codes(codes.tolist())
    starts = [
        _starts(text, part, pieces, granularity, tokenizer_words) for part, text in enumerate(texts)
    ]
    if granularity == "passage" and passages is not None:
        starts[0] = list(passages)
    return equal_codes(
        [(piece.part, bisect_right(starts[piece.part], piece.start)) for piece in pieces]
    )


def unspaced_note(
    texts: Sequence[str],
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> str | None:
    """What stands for words in scripts that have no spaces.

    None where there are none, or where units are the tokenizer's tokens.
    """
    pieces_are_words = tokenizer_words is None and granularity in ("token", "type")
    if granularity != "word" and not pieces_are_words:
        return None
    runs = [(part, run) for part, text in enumerate(texts) for run in unspaced_runs(text)]
    if not runs:
        return None
    meant = "every character counts as a word"
    if tokenizer_words is not None:
        inside = [_tokenizer_starts(part, run, pieces, tokenizer_words) for part, run in runs]
        if any(len(starts) > 1 for starts in inside):
            meant = "the words are those of the tokenizer"
    return f"Parts of the text are written without spaces: there, {meant}."


def unknown_note(unknown: NDArray[np.bool_] | None) -> str | None:
    """A warning where a tokenizer knows few of its tokens, (pieces,); None where it knows most."""
    if unknown is None or not len(unknown) or unknown.mean() < MANY_UNKNOWN:
        return None
    if unknown.all():
        return ALL_UNKNOWN
    return (
        f"{unknown.sum()} of {len(unknown)} tokens are unknown to the model's tokenizer, "
        "which reads them all alike: their scores say nothing about the words behind them."
    )


def _starts(
    text: str,
    part: int,
    pieces: Sequence[Unit],
    granularity: str,
    tokenizer_words: NDArray[np.int64] | None,
) -> list[int]:
    """Where the words, phrases, sentences or passages of one text begin."""
    if granularity == "phrase":
        return phrase_starts(text)
    if granularity == "sentence":
        return sentence_starts(text)
    if granularity == "passage":
        return passage_starts(text)
    starts = {unit.start for unit in words(text)}
    if tokenizer_words is None:
        return sorted(starts)
    for run in unspaced_runs(text):
        own = _tokenizer_starts(part, run, pieces, tokenizer_words)
        if len(own) > 1:
            outside = {start for start in starts if not run.start() < start < run.end()}
            starts = outside | own
    return sorted(starts)


def _tokenizer_starts(
    part: int, run: re.Match[str], pieces: Sequence[Unit], tokenizer_words: NDArray[np.int64]
) -> set[int]:
    """Where the tokenizer's words begin inside a run of characters without spaces."""
    first: dict[int, int] = {}
    for piece, word in zip(pieces, tokenizer_words.tolist(), strict=True):
        if piece.part == part and run.start() <= piece.start < run.end():
            first.setdefault(word, piece.start)
    return set(first.values())
