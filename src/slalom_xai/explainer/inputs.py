"""Checks what a user hands over, before any model is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slalom_xai.errors import InputError, check_seed, one_of
from slalom_xai.text import GRANULARITIES

REMOVALS = ("auto", "hide", "delete", "mask", "unk")
LONE_SURROGATES = (0xD800, 0xDFFF)  # code points that are half a character


def check_options(granularity: str, removal: str, budget: object, random_state: object) -> None:
    """Raises InputError where an option is none of those that there are."""
    if granularity not in GRANULARITIES:
        raise one_of("granularity", granularity, GRANULARITIES)
    if removal not in REMOVALS:
        raise one_of("removal", removal, REMOVALS)
    if budget is not None and not _whole_and_positive(budget):
        raise InputError(
            f"budget is {budget!r}: give a whole number of model calls, or leave it out"
        )
    check_seed("random_state", random_state)


def check_text(text: Any, where: str) -> None:
    """Raises InputError for what is no text, or a text without a word.

    Args:
        text: what was given.
        where: begins the message, such as "text 3: ".
    """
    if not isinstance(text, str):
        raise InputError(f"{where}expected a text (str), got {type(text).__name__}")
    if not text:
        raise InputError(f"{where}the text is empty: give at least one word")
    if not text.strip():
        raise InputError(f"{where}the text is only white space: give at least one word")
    first, last = LONE_SURROGATES
    if any(first <= ord(character) <= last for character in text):
        raise InputError(
            f"{where}the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def paired(texts: Any, pairs: Any) -> list[tuple[Any, Any]]:
    """Texts with their second texts, or with None.

    Raises:
        InputError: either is no list, or they differ in length.
    """
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(f"expected a text (str) or a list of texts, got {type(texts).__name__}")
    first = list(texts)
    if pairs is None:
        return [(text, None) for text in first]
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputError(
            f"a list of texts was given with a text_pair of type {type(pairs).__name__}: "
            "give a list with one second text for each text"
        )
    second = list(pairs)
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} texts were given with {len(second)} second texts: "
            "give one second text for each text"
        )
    return list(zip(first, second, strict=True))


def checked_context(text: Any, text_pair: Any, sources: Any) -> str | list[str]:
    """What a question is about: one text, or several sources.

    Raises:
        InputError: both, neither, or something else.
    """
    if text_pair is not None:
        raise InputError("a question was asked about a text and its pair: give one text")
    if (text is None) == (sources is None):
        raise InputError(
            "a question is about one context: give a text, or sources=[...] in its place"
        )
    if sources is None:
        if not isinstance(text, str):
            raise InputError(
                f"a question was asked about a {type(text).__name__}: give one text, "
                "or sources=[...] in its place"
            )
        return text
    if isinstance(sources, (str, bytes)) or not isinstance(sources, Iterable):
        raise InputError(f"sources is of type {type(sources).__name__}: give a list of texts")
    return list(sources)


def _whole_and_positive(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        return False
    return int(number) > 0
