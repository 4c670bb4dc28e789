"""Parts of an answer, and the log odds with which a language model gives them.

A span is some neighbouring tokens of the answer. Its probability is the product of those of its
tokens, each given everything before it. Explained is the logit of that probability, which has no
floor and no ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from slalom_xai.errors import InputError, quote_text
from slalom_xai.models.text import sentence_starts

WHOLE = "answer"  # the label of the whole answer, which comes first
KINDS = (WHOLE, "sentences", "tokens")
Token = TypeVar("Token")
_LEAST = 1e-300  # of minus a log probability; the logit of a certainty would be infinite


@dataclass(frozen=True)
class Span:
    """Some tokens of an answer, by the index of the first and the one behind the last."""

    label: str
    start: int
    stop: int


def span_logits(gaps: Tensor, spans: Sequence[Span]) -> Tensor:
    """The logit (m, spans) of the probability of each span, in double precision.

    A token's probability is p = 1 / (1 + exp(gap)), and -log p = log(1 + exp(gap)) keeps all its
    digits where p is next to 1. With S the sum of these over a span, its logit is
    -S - log(1 - exp(-S)).

    Args:
        gaps: (m, tokens), the log odds against each token of the answer.
        spans: parts of the answer.
    """
    if gaps.device.type == "mps":  # has no double precision
        gaps = gaps.cpu()
    exact = gaps.double()
    return logits_of_losses(torch.logaddexp(exact, torch.zeros_like(exact)), spans)


def logits_of_losses(lost: Tensor, spans: Sequence[Span]) -> Tensor:
    """The logit (m, spans) of the probability of each span.

    Args:
        lost: (m, tokens), minus the log probability of each token of the answer.
        spans: parts of the answer.
    """
    sums = [lost[:, span.start : span.stop].sum(dim=1) for span in spans]
    total = torch.stack(sums, dim=1).clamp(min=_LEAST)
    return -total - torch.log(-torch.expm1(-total))


def log_probabilities(logits: Tensor) -> Tensor:
    """The logarithms of the probabilities with these logits."""
    return -torch.logaddexp(-logits, torch.zeros_like(logits))


def check_kind_of_spans(wanted: str | Sequence[str]) -> None:
    """Refuses a word that names no parts of an answer."""
    if isinstance(wanted, str) and wanted not in KINDS:
        raise InputError(
            f"spans is {wanted!r}: give one of {', '.join(KINDS)}, or a list of parts of the answer"
        )


def answer_spans(
    tokens: Sequence[Token], decode: Callable[[Sequence[Token]], str], wanted: str | Sequence[str]
) -> tuple[Span, ...]:
    """The whole answer, and then the parts of it that are wanted.

    Args:
        tokens: of the answer, as ids or as texts.
        decode: tokens to text.
        wanted: "answer" (nothing else), "sentences", "tokens", or parts as they stand in it.

    Raises:
        InputError: a part that is not in the answer.
    """
    whole = Span(WHOLE, 0, len(tokens))
    text = decode(tokens)
    if wanted == WHOLE:
        return (whole,)
    if wanted == "tokens":
        return (whole, *(_token(index, decode([token])) for index, token in enumerate(tokens)))
    if wanted == "sentences":
        begins = sentence_starts(text)
        places = list(zip(begins, [*begins[1:], len(text)], strict=True))
    else:
        places = [_place(text, part) for part in _list_parts(wanted)]
    ends = [len(decode(tokens[: count + 1])) for count in range(len(tokens))]
    return (whole, *(_span(text, place, ends) for place in places if place[0] < place[1]))


def _token(index: int, text: str) -> Span:
    """One token; white space is shown as it is spelled."""
    return Span(text.strip() or repr(text), index, index + 1)


def _list_parts(wanted: str | Sequence[str]) -> list[str]:
    """Parts of an answer as a caller lists them."""
    if isinstance(wanted, str) or not all(isinstance(part, str) for part in wanted):
        raise InputError(
            f"spans is {wanted!r}: give {', '.join(KINDS[:-1])} or {KINDS[-1]}, "
            "or a list of parts of the answer"
        )
    return list(wanted)


def _place(text: str, part: str) -> tuple[int, int]:
    """Where a part of an answer begins and ends."""
    start = text.find(part)
    if not part.strip() or start < 0:
        raise InputError(
            f"the span {quote_text(part, 60)} is not in the answer {quote_text(text, 200)}: "
            "give a part of it, letter by letter"
        )
    return start, start + len(part)


def _span(text: str, place: tuple[int, int], ends: Sequence[int]) -> Span:
    """The tokens that reach into a part of the answer."""
    return span_at(text[slice(*place)].strip(), place, ends)


def span_at(label: str, place: tuple[int, int], ends: Sequence[int]) -> Span:
    """The tokens that reach into a place.

    Args:
        label: of the span.
        place: where it begins and ends, in characters of the answer.
        ends: where each token of the answer ends.
    """
    start, stop = place
    first = next(index for index, end in enumerate(ends) if end > start)
    last = next(index for index, end in enumerate(ends) if end >= stop)
    return Span(label, first, last + 1)
