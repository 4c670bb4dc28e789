"""What every model that is asked questions needs: contexts, their words, and what to say of them.

The language model may run here (``language``) or on a server (``remote``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slalom_xai.errors import InputError, ModelError, quote_text
from slalom_xai.models.tokens import EncodedText, Tokens

BETWEEN = "\n\n"  # passages that are given one by one
# Nats; an answer whose log probability changes by less without the text does not depend on it.
NO_CHANGE = 0.1


def check_words(what: str, given: Any) -> None:
    """Refuses anything but a text with at least one word."""
    if not isinstance(given, str) or not given.strip():
        raise InputError(f"the {what} is {quote_text(repr(given), 40)}: give at least one word")


def join_context(context: str | Sequence[str]) -> tuple[str, tuple[int, ...] | None]:
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


def no_question_error(*_: object) -> InputError:
    """The error for a language model that is used before a question was asked."""
    return InputError(
        "a language model explains the answer to a question: pass question=..., "
        'such as explainer(context, question="What happened?")'
    )


# What stands around a text when a language model is asked about it, as tokens.
#
# The prompt is made of four parts that are tokenised one by one: what comes before the text, the
# text itself, what follows (the question), and the answer. So no token reaches from one part into
# another, and leaving something out of the text changes no token elsewhere. Rows then share
# everything before the first gap, token by token.


CHAT = "Context:\n{context}\n\nQuestion: {question}"
PLAIN = "Context:\n{context}\n\nQuestion: {question}\nAnswer:"
_MARK = "[[the context goes here]]"


@dataclass(frozen=True)
class Frame:
    """The tokens around a text.

    Attributes:
        before: the text.
        after: it, up to the answer.
        joint: what an answer begins with, so that it does not stick to the last word before it.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    joint: str


def check_template(template: str | None) -> str | None:
    """A template as a caller gives it.

    Raises:
        InputError: it has not one place for the context, and behind it one for the question.
    """
    if template is None:
        return None
    counts = [template.count(name) for name in ("{context}", "{question}")]
    if counts != [1, 1] or template.index("{question}") < template.index("{context}"):
        raise InputError(
            f"the template {quote_text(template, 80)} has {{context}} {counts[0]} times and "
            f"{{question}} {counts[1]} times: give each once, the context first"
        )
    return template


def question_frame(tokenizer: Any, template: str | None, question: str) -> Frame:
    """The frame for a question, in the tokenizer's chat template where it has one."""
    chats = bool(getattr(tokenizer, "chat_template", None))
    chosen = template or (CHAT if chats else PLAIN)
    before, after = (part.replace("{question}", question) for part in chosen.split("{context}"))
    if not chats:
        first = token_ids(tokenizer, before)
        leading = _leading(tokenizer)
        joint = "" if after[-1:].isspace() else " "
        return Frame((*leading, *first), token_ids(tokenizer, after), joint)
    before, after = _in_chat(tokenizer, before, after)
    return Frame(token_ids(tokenizer, before), token_ids(tokenizer, after), "")


def _in_chat(tokenizer: Any, before: str, after: str) -> tuple[str, str]:
    """What a chat template makes of both sides, as the message of a user."""
    message = [{"role": "user", "content": before + _MARK + after}]
    try:
        rendered = tokenizer.apply_chat_template(
            message, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # a template is a program of somebody else's
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelError(
            f"the tokenizer's chat template fails ({reason}): "
            "correct it, or set tokenizer.chat_template = None to ask without one"
        ) from error
    parts = str(rendered).split(_MARK)
    if len(parts) != 2:
        raise ModelError(
            f"the tokenizer's chat template shows a message {len(parts) - 1} times and not once: "
            "set tokenizer.chat_template = None to ask without it"
        )
    return parts[0], parts[1]


def token_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The tokens of a text, and nothing around them."""
    if not text:
        return ()
    encoded = tokenizer(text, add_special_tokens=False, verbose=False)
    return tuple(int(token) for token in encoded["input_ids"])


def _leading(tokenizer: Any) -> tuple[int, ...]:
    """The token that the tokenizer puts before a text, where it does."""
    first = getattr(tokenizer, "bos_token_id", None)
    ids = tokenizer("a", verbose=False)["input_ids"]
    return (int(first),) if first is not None and ids and ids[0] == first else ()


class FramedTokens(Tokens):
    """Texts inside a frame, each with the answer behind it.

    Args:
        tokenizer: of the language model.
        frame: what stands around a text.
        answer: its tokens.
        limit: tokens that the model reads at most.
        passages: where passages begin that were given one by one.
    """

    def __init__(
        self,
        tokenizer: Any,
        frame: Frame,
        answer: Sequence[int],
        *,
        limit: int | None,
        passages: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(tokenizer, limit=limit, segments=0, pairs=False, passages=passages)
        self._before = frame.before
        self._behind = (*frame.after, *answer)

    def _encode(self, text: str, text_pair: str | None) -> EncodedText:
        if text_pair is not None:
            raise InputError(
                "a second text was given beside a context: put both into the context, "
                "or give sources=[...]"
            )
        encoding = self._tokenize(text, None, special=False)
        inner = np.array(encoding["input_ids"], dtype=np.int64)
        if not len(inner):
            raise InputError(
                f"the tokenizer finds no token in {quote_text(text)}: give a text with words in it"
            )
        before, behind = len(self._before), len(self._behind)
        special = np.ones(before + len(inner) + behind, dtype=bool)
        special[before : before + len(inner)] = False
        ids = np.concatenate([self._before, inner, self._behind]).astype(np.int64)
        words = np.full(len(ids), -1, dtype=np.int64)
        words[~special] = [-1 if word is None else word for word in encoding.word_ids(0)]
        nowhere = (0, 0)
        return EncodedText(
            texts=(text,),
            streams=(ids,),
            is_special=special,
            parts=np.zeros(len(ids), dtype=np.int64),
            words=words,
            offsets=[nowhere] * before + list(encoding["offset_mapping"]) + [nowhere] * behind,
        )
