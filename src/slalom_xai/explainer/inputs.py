"""Checks what a user hands over, before any model is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
        raise InputError(f"{where}expected a text (str), got {_shown(text)}: {_advice(text)}")
    if not text:
        raise InputError(f"{where}the text is empty: give at least one word")
    if not text.strip():
        raise InputError(f"{where}the text is only white space: give at least one word")
    first, last = LONE_SURROGATES
    if any(first <= ord(character) <= last for character in text):
        raise InputError(
            f"{where}the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def _shown(given: object) -> str:
    """What was given in the place of a text, by its kind."""
    size = f" of {len(given)}" if isinstance(given, (tuple, list)) else ""
    return f"{type(given).__name__}{size}"


def _advice(given: object) -> str:
    """What to give in its place."""
    if isinstance(given, (tuple, list)) and len(given) == 2:
        return "give pairs as two lists, the first texts and the second ones: (firsts, seconds)"
    if isinstance(given, Mapping):
        return 'give the text that it holds, such as row["text"]'
    if isinstance(given, bytes):
        return "decode it first, such as text.decode()"
    return "give a str, or a list of them"


def check_call(unknown: Collection[str], options: Collection[str]) -> None:
    """Refuses what a call of an explainer does not take.

    Args:
        unknown: the names that were given.
        options: of the explainer itself.

    Raises:
        InputError: there is such a name.
    """
    for name in unknown:
        if name in options:
            raise InputError(
                f"{name} was given with a text, but belongs to the explainer: "
                f"give it there, as Explainer(model, {name}=...)(text)"
            )
        raise InputError(
            f"unknown {name} was given with a text: a call takes text, text_pair, question, "
            "sources and answer"
        )


def paired(texts: Any, pairs: Any) -> list[tuple[Any, Any]]:
    """Texts with their second texts, or with None.

    Raises:
        InputError: either is no list, or they differ in length.
    """
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one text (str): give it in a list")
    no_texts = isinstance(texts, (bytes, Mapping)) or hasattr(texts, "columns")  # a table
    if no_texts or not isinstance(texts, Iterable):
        raise InputError(
            f"expected a text (str) or a list of texts, got {type(texts).__name__}: "
            "give a list of str, such as one column of a table"
        )
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
