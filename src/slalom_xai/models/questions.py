"""What every model that is asked questions needs: contexts, their words, and what to say of them.

The language model may run here (``language``) or on a server (``remote``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slalom_xai.errors import InputError, ModelError, shortened

BETWEEN = "\n\n"  # passages that are given one by one
# Nats; an answer whose log probability changes by less without the text does not depend on it.
NO_CHANGE = 0.1


def check_words(what: str, given: Any) -> None:
    """Refuses what is no text, or has no word in it."""
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"the {what} is {shortened(repr(given), 40)}: give at least one word")


def joined_context(context: str | Sequence[str]) -> tuple[str, tuple[int, ...] | None]:
    """A context as one text, and where its passages begin if they were given one by one."""
    if isinstance(context, str):
        check_words("context", context)
        return context, None
    sources = list(context)
    if not sources:
        raise InputError("there are no sources: give at least one text")
    starts, text = [], ""
    for number, source in enumerate(sources):
        check_words(f"source {number}", source)
        if text:
            text += BETWEEN
        starts.append(len(text))
        text += source.strip()
    return text, tuple(starts)


def no_answer(model: str) -> ModelError:
    """The error for a model whose own answer is empty."""
    return ModelError(
        f"{model} gives no answer: it ends at once, or with white space only; ask "
        "another question, or give the answer to explain (answer=)"
    )


def cut_note(tokens: int) -> str:
    """Says that the model's own answer goes on behind what is explained."""
    return f"The answer was cut after {tokens} tokens (max_new_tokens={tokens})."


def independence_notes(whole: float, without: float) -> tuple[str, ...]:
    """A note where the answer is as likely without the text.

    Args:
        whole: its log probability with the whole text.
        without: its log probability with nothing of it.
    """
    change = abs(whole - without)
    if change >= NO_CHANGE:
        return ()
    return (
        "The answer does not depend on the context: without it, its log probability changes "
        f"by {change:.2g} only (from {whole:.2f} to {without:.2f}).",
    )


def unasked(*_: object) -> InputError:
    """The error for a language model that is used before a question was asked."""
    return InputError(
        "a language model explains the answer to a question: pass question=..., "
        'such as explainer(context, question="What happened?")'
    )
