"""What a user hands over, checked before any model is asked, and what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slalom_xai.errors import CannotHideError, InputError, check_seed, one_of
from slalom_xai.models import Prompt, TextModel, prompt
from slalom_xai.models.base import (
    AnswersQuestion,
    HidesTokens,
    KeepsAnswers,
    ShowsItsWeights,
    TakesQuestions,
)
from slalom_xai.models.text import GRANULARITIES
from slalom_xai.queries import AnswerCache
from slalom_xai.queries.cache import KeptAnswers

# Checks what a user hands over, before any model is asked.


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
    """Raises InputError for anything but a text with at least one word.

    Args:
        text: what was given.
        where: begins the message, such as "text 3: ".
    """
    if not isinstance(text, str):
        raise InputError(
            f"{where}expected a text (str), got {_describe_input(text)}: {_advice(text)}"
        )
    if not text:
        raise InputError(f"{where}the text is empty: give at least one word")
    if not text.strip():
        raise InputError(f"{where}the text is only white space: give at least one word")
    first, last = LONE_SURROGATES
    if any(first <= ord(character) <= last for character in text):
        raise InputError(
            f"{where}the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def _describe_input(given: object) -> str:
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


def pair_texts(texts: Any, pairs: Any) -> list[tuple[Any, Any]]:
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


def check_context(text: Any, text_pair: Any, sources: Any) -> str | list[str]:
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


# What leaving out a unit means for a model: as was asked for, or as suits it.


OPPOSED = (
    "Hiding words moves this model's output another way than deleting them: compare with"
    ' removal="delete" before you rely on one of the two.'
)


def read_for_removal(
    model: TextModel,
    text: str,
    text_pair: str | None = None,
    *,
    granularity: str,
    removal: str,
    usual: str | None = None,
    truncation: bool = False,
) -> Prompt:
    """A text as a model reads it, ready for units to be left out in one way.

    Args:
        model: reads the text.
        text: as the user gave it.
        text_pair: the second text of a pair.
        granularity: what the units are.
        removal: "hide", "delete", "mask", "unk" or "auto": hidden where the model allows it and
            deleted otherwise. What a language model answers is explained by deleting.
        usual: what "auto" means to a method; None: what suits the model.
        truncation: cut a text that is too long, instead of refusing it.

    Raises:
        CannotHideError: "hide", for a model that cannot.
    """
    hiding = model if isinstance(model, HidesTokens) else None

    def read(chosen: str) -> Prompt:
        reading = model.read(text, text_pair, truncation=truncation, removal=chosen)
        question = prompt(reading, granularity, chosen)
        if chosen == "hide" and hiding is not None and hiding.hiding_opposes_deleting:
            return replace(question, notes=(*question.notes, OPPOSED))
        return question

    if removal != "auto":
        if removal == "hide" and hiding is None:
            raise CannotHideError.because(
                f"{model.name} is not a model of the transformers library"
            )
        return read(removal)
    may_hide = usual is None and hiding is not None and hiding.hides
    if not may_hide or isinstance(model, AnswersQuestion):
        return read(usual or "delete")
    try:
        return read("hide")
    except CannotHideError as error:
        deleted = read("delete")
        note = f"Units are deleted and not hidden: {error.reason}."
        return replace(deleted, notes=(*deleted.notes, note))


# Which cache an explainer uses: on for models that are paid for, off for local ones.


CacheOption = bool | str | Path | AnswerCache | KeptAnswers | None


def open_cache(cache: CacheOption, model: TextModel) -> KeptAnswers | None:
    """The answers of a model in the cache that was asked for; None where there is none.

    Args:
        cache: None: a cache for models that keep their answers, and none for others; True: in the
            user's own folder; a folder; a cache; or a cache that is opened under a name.
        model: what is explained. One that keeps its answers uses the cache from now on.

    Raises:
        InputError: no cache, one that cannot be used, or a model that cannot be told from others.
    """
    if cache is False or (cache is None and not isinstance(model, KeepsAnswers)):
        return None
    if isinstance(model, TakesQuestions) and not isinstance(model, KeepsAnswers):
        raise InputError(
            f"a cache was asked for, but the answers of {model.name} are not kept in one: leave "
            "the cache out, or ask a language model on a server, whose answers are kept"
        )
    if isinstance(cache, KeptAnswers):
        opened = cache
    elif isinstance(cache, AnswerCache):
        opened = cache.opened_for(_fingerprint(model))
    elif cache is None or cache is True:
        fingerprint = _fingerprint(model)  # refused before a file is made
        opened = AnswerCache().opened_for(fingerprint)
    elif isinstance(cache, (str, Path)):
        fingerprint = _fingerprint(model)
        opened = AnswerCache(cache).opened_for(fingerprint)
    else:
        raise InputError(
            f"cache is a {type(cache).__name__}: give True, False, a folder or an AnswerCache"
        )
    if isinstance(model, KeepsAnswers):
        model.use(opened)
    return opened


def _fingerprint(model: TextModel) -> str:
    """What tells the model from every other one."""
    if isinstance(model, KeepsAnswers):
        return model.fingerprint
    if isinstance(model, ShowsItsWeights):
        return model.weights_fingerprint()
    raise InputError(
        f"a cache cannot tell {model.name} from other models, because it does not see what "
        "the model is made of: name the model and its version yourself, "
        'cache=AnswerCache().opened_for("my model 1"), or leave the cache out'
    )
