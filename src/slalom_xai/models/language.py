"""Language models, asked about a text: which parts of it made the answer.

``AnswerModel`` is a causal language model. ``asking`` makes a model of it that can be explained:
its rows are the prompt with parts of the text left out and the answer behind it, and its output is
the logit of the answer's probability.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.models.answer_spans import (
    WHOLE,
    Span,
    answer_spans,
    check_kind_of_spans,
    log_probabilities,
    span_logits,
)
from slalom_xai.models.configurations import (
    can_cache,
    check_vocabulary,
    takes,
    text_config,
    token_limit,
)
from slalom_xai.models.internals import evaluation_mode
from slalom_xai.models.load import load_causal
from slalom_xai.models.locks import lock_of
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.questions import (
    FramedTokens,
    check_template,
    check_words,
    cut_note,
    independence_notes,
    join_context,
    no_answer,
    no_question_error,
    question_frame,
    token_ids,
)
from slalom_xai.models.reading import AnyReading
from slalom_xai.models.rows import Row
from slalom_xai.models.transformers import AnyTransformer, embedded_tokens

# A causal language model that answers as a classifier does: with a few numbers for each row.
#
# Every row ends with the tokens of one and the same answer. The numbers are the log odds of that
# answer and of parts of it. Seen like this, a language model is asked, padded and lent beginnings
# as any decoder with a classification head is.


_CELLS = 1 << 26  # logits of single tokens that are worked on at once


class AnswerScorer(torch.nn.Module):
    """The log odds of an answer that stands at the end of every row.

    Args:
        lm: a causal language model of the transformers library; it is not changed.
        answer: the tokens of the answer.
        spans: the parts of it that get a number each.
    """

    def __init__(self, lm: Any, answer: Sequence[int], spans: Sequence[Span]) -> None:
        super().__init__()
        self.training = False  # of this module alone
        self.lm = lm
        # A copy without a token to pad with: whoever pads then takes one that no row holds. That
        # of chat models often ends every message.
        self.config = copy.deepcopy(lm.config)
        self.config.pad_token_id = None
        text_config(self.config).pad_token_id = None
        self._answer = tuple(answer)
        self._spans = tuple(spans)
        self._takes_cache = takes(lm.forward, "past_key_values")

    @property
    def _supports_cache_class(self) -> bool:
        return bool(getattr(self.lm, "_supports_cache_class", True))

    def get_input_embeddings(self) -> Any:
        """The language model's table of tokens."""
        return self.lm.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
        position_ids: Tensor | None = None,
    ) -> SimpleNamespace:
        """``logits`` (rows, spans), and keys and values where they are wanted.

        Args:
            input_ids: (rows, width), behind what is in the cache.
            attention_mask: as the language model takes it.
            past_key_values: keys and values of what comes before.
            use_cache: whether to hand keys and values back.
            position_ids: as the language model takes them.
        """
        last = self._last(input_ids, attention_mask, past_key_values)
        before = torch.arange(-len(self._answer), 0, device=last.device)
        predicting = (last[:, None] + before).clamp(min=0)  # each token by the one before it

        def pick(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden = given[0]
            places = predicting[:, :, None].expand(-1, -1, hidden.shape[-1])
            return (hidden.gather(1, places), *given[1:])

        # Only the tokens that predict the answer are compared with the whole vocabulary.
        hook = self.lm.get_output_embeddings().register_forward_pre_hook(pick)
        inputs: dict[str, Any] = {"input_ids": input_ids}
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask
        if position_ids is not None:
            inputs["position_ids"] = position_ids
        if self._takes_cache:
            inputs |= {"past_key_values": past_key_values, "use_cache": use_cache}
        try:
            output = self.lm(**inputs)
        finally:
            hook.remove()
        logits = span_logits(self._gaps(output.logits), self._spans)
        past = output.past_key_values if use_cache else None
        return SimpleNamespace(logits=logits, past_key_values=past)

    def _last(self, ids: Tensor, mask: Tensor | None, past: Any) -> Tensor:
        """Where the last token of each row stands, (rows,).

        Rows that borrow their beginning are filled up with a token that none of them holds.
        """
        if mask is not None and mask.shape == ids.shape:
            there = mask.bool()
        elif past is not None:
            there = ids != text_config(self.config).pad_token_id
        else:
            there = torch.ones_like(ids, dtype=torch.bool)
        places = torch.arange(ids.shape[1], device=ids.device)
        return torch.where(there, places, 0).amax(dim=1)

    def _gaps(self, logits: Tensor) -> Tensor:
        """The log odds (rows, tokens) against each token of the answer."""
        tokens = torch.tensor(self._answer, device=logits.device)
        rows = max(1, _CELLS // (logits.shape[1] * logits.shape[2]))
        parts = []
        for start in range(0, len(logits), rows):
            single = logits[start : start + rows].float()
            wanted = tokens.expand(len(single), -1)[:, :, None]
            others = single.scatter(2, wanted, -torch.inf).logsumexp(dim=2)
            parts.append(others - single.gather(2, wanted)[:, :, 0])
        return torch.cat(parts)


# What a causal language model says by itself: at each step the likeliest token.


# Shares of the spread of logits that rounding stays below, in single and in half precision.
_ROUNDING, _COARSE = 1e-5, 1e-2


def stop_tokens(lm: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer."""
    told = [getattr(tokenizer, "eos_token_id", None)]
    for config in (getattr(lm, "generation_config", None), lm.config):
        told.append(getattr(config, "eos_token_id", None))
    stops: set[int] = set()
    for one in told:
        if isinstance(one, int):
            stops.add(one)
        elif isinstance(one, (list, tuple)):
            stops.update(one)
    return frozenset(stops)


def greedy_tokens(
    lm: Any, prompt: Sequence[int], stops: frozenset[int], most: int
) -> tuple[list[int], bool]:
    """The likeliest token after the prompt, then the likeliest after that, and so on.

    Args:
        lm: a causal language model.
        prompt: token ids.
        stops: the tokens that end an answer, which are no part of it.
        most: tokens of the answer.

    Returns:
        The tokens, and whether the answer was complete.
    """
    device = next(lm.parameters()).device
    caches = can_cache(lm)
    said: list[int] = []
    new, past = list(prompt), None
    with evaluation_mode(lm), torch.inference_mode():
        while len(said) <= most:
            inputs: dict[str, Any] = {"input_ids": torch.tensor([new], device=device)}
            if caches:
                inputs |= {"past_key_values": past, "use_cache": True}
            if takes(lm.forward, "logits_to_keep"):
                inputs["logits_to_keep"] = 1
            output = lm(**inputs)
            token = int(output.logits[0, -1].argmax())
            if token in stops:
                return said, True
            said.append(token)
            past = output.past_key_values if caches else None
            new = [token] if caches else [*prompt, *said]
    return said[:most], False


def check_causal(lm: Any, tokens: Sequence[int]) -> None:
    """Refuses a model whose earlier tokens see later ones.

    Args:
        lm: what was given.
        tokens: at least two.

    Raises:
        InputError: what the model makes of the first tokens changes with the last one.
    """
    device = next(lm.parameters()).device
    other = next(token for token in tokens if token != tokens[-1])
    rows = torch.tensor([[*tokens], [*tokens[:-1], other]], device=device)
    with evaluation_mode(lm), torch.inference_mode():
        inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
        logits = lm(**inputs).logits[:, :-1].float()
    half = next(lm.parameters()).itemsize < 4
    tolerated = (_COARSE if half else _ROUNDING) * (logits.max() - logits.min())
    if not bool((logits[0] - logits[1]).abs().max() <= tolerated):
        raise InputError(
            f"a {type(lm).__name__} sees the words behind each word, so it cannot say how likely "
            "an answer is: give a causal language model (AutoModelForCausalLM)"
        )


# Language models, asked about a text: which parts of it made the answer.


class AnswerModel:
    """A causal language model whose answers are explained by the text it was asked about.

    Args:
        lm: a folder or hub id, or a model of ``AutoModelForCausalLM``, which is used as it is.
        tokenizer: found by itself for folders and hub ids.
        template: the prompt, with the places {context} and {question}; the message of a user where
            the tokenizer has a chat template. None: "Context: ... Question: ...".
        max_new_tokens: where the model's own answer is cut.
        spans: the parts of the answer that are explained beside the whole of it, from the same
            rows: "answer" (none), "sentences", "tokens", or a list of parts.
        device: where to load a model given by name.
        dtype: precision to load it in.
        revision: branch, tag or commit of a hub id.
        trust_remote_code: allow a hub model to run its own code.

    Attributes:
        lm: the language model.
        tokenizer: its own.

    Raises:
        InputError: no causal language model, or another model's tokenizer.
    """

    def __init__(
        self,
        lm: Any,
        tokenizer: Any = None,
        *,
        template: str | None = None,
        max_new_tokens: int = 32,
        spans: str | Sequence[str] = WHOLE,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        self._template = check_template(template)
        check_kind_of_spans(spans)
        if isinstance(max_new_tokens, bool) or not max_new_tokens >= 1:
            raise InputError(
                f"max_new_tokens is {max_new_tokens!r}: give a whole number of at least 1"
            )
        self.name = str(lm) if isinstance(lm, (str, Path)) else ""
        if isinstance(lm, (str, Path)):
            lm, tokenizer = load_causal(lm, tokenizer, device, dtype, revision, trust_remote_code)
        elif device is not None or dtype is not None:
            raise InputError(
                "device and dtype are only for models given by name: "
                "move or cast a model object yourself"
            )
        _check_kind(lm, tokenizer)
        check_vocabulary(tokenizer, lm.config, embedded_tokens(lm))
        self.name = self.name or getattr(lm.config, "name_or_path", "") or type(lm).__name__
        self.probe_calls = 0
        self.lm = lm
        self.tokenizer = tokenizer
        self._most = int(max_new_tokens)
        self._spans = spans
        self._limit = token_limit(tokenizer, lm.config, lm)
        self._is_causal = False  # not tried yet

    @property
    def outputs(self) -> Outputs:
        """The answer, whichever it will be."""
        return Outputs("answers", (WHOLE,))

    @property
    def device(self) -> torch.device:
        """Where the language model runs."""
        device: torch.device = next(self.lm.parameters()).device
        return device

    def asking(
        self, context: str | Sequence[str], question: str, *, answer: str | None = None
    ) -> AskedModel:
        """The model with one question about one text, ready to be explained.

        Args:
            context: the text, or a list of sources.
            question: what to ask about it.
            answer: the answer to explain; None: the model's own, the likeliest token at each step.

        Raises:
            InputError: no words in the context, the question or the answer; a prompt that is
                longer than the model reads.
            ModelError: the model ends its answer at once.
        """
        check_words("question", question)
        text, passages = join_context(context)
        frame = question_frame(self.tokenizer, self._template, question.strip())
        if not frame.after:
            raise InputError("the template ends with {context}: put words behind it")
        prompt = [*frame.before, *token_ids(self.tokenizer, text), *frame.after]
        given = self._given(answer, frame.joint)
        longest = len(given) if given else self._most
        self._check_length(len(prompt), len(frame.before) + len(frame.after), longest)
        notes: list[str] = []
        with lock_of(self.lm):
            if not self._is_causal:
                check_causal(self.lm, prompt)
                self._is_causal = True
                self.probe_calls += 2
            tokens = given or self._greedy(prompt, notes)
        framed = FramedTokens(self.tokenizer, frame, tokens, limit=self._limit, passages=passages)
        asked = (text, question.strip())
        return AskedModel(self.lm, framed, self.name, asked, tokens, self._spans, notes)

    def _given(self, answer: str | None, joint: str) -> tuple[int, ...]:
        """The tokens of an answer that was given."""
        if answer is None:
            return ()
        check_words("answer", answer)
        return token_ids(self.tokenizer, joint + answer.strip())

    def _greedy(self, prompt: Sequence[int], notes: list[str]) -> tuple[int, ...]:
        """The tokens of the model's own answer."""
        stops = stop_tokens(self.lm, self.tokenizer)
        tokens, complete = greedy_tokens(self.lm, prompt, stops, self._most)
        if not self.tokenizer.decode(tokens).strip():
            raise no_answer(self.name)
        if not complete:
            notes.append(cut_note(self._most))
        return tuple(tokens)

    def _check_length(self, prompt: int, frame: int, answer: int) -> None:
        if self._limit is not None and prompt + answer > self._limit:
            raise InputError(
                f"the prompt has {prompt} tokens ({frame} of them around the context) and the "
                f"answer up to {answer}, but the model reads at most {self._limit}: shorten the "
                "context, or give fewer sources"
            )

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> AnyReading:
        """Nothing can be read before a question is asked."""
        raise no_question_error(text, text_pair, truncation, removal)

    def size(self, row: Row) -> int:
        """There are no rows before a question is asked."""
        raise no_question_error(row)

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """There are no answers before a question is asked."""
        raise no_question_error(rows)

    def show(self, row: Row) -> str:
        """There are no rows before a question is asked."""
        raise no_question_error(row)


class AskedModel(AnyTransformer):
    """A language model with a question about a text, and the answer that is explained.

    ``AnswerModel.asking`` makes them.

    Attributes:
        context: the text, sources joined.
        question: about it.
        reply: the answer.
        spans: the whole answer, and parts of it, in the order of ``outputs``.
        notes: what a reader should know, a sentence each.
    """

    def __init__(
        self,
        lm: Any,
        tokens: FramedTokens,
        name: str,
        asked: tuple[str, str],
        answer: tuple[int, ...],
        spans: str | Sequence[str],
        notes: Sequence[str],
    ) -> None:
        decode = tokens.tokenizer.decode
        self.context, self.question = asked
        self.reply = str(decode(answer)).strip()
        self.spans = answer_spans(answer, decode, spans)
        outputs = Outputs("answers", tuple(span.label for span in self.spans))
        scorer = AnswerScorer(lm, answer, self.spans)
        super().__init__(scorer, tokens, name, outputs, lock_of(lm), tail=len(answer) + 1)
        self.notes = (*notes, *self._independent())

    def log_probabilities(self, rows: Sequence[Row]) -> Tensor:
        """The log probability (rows, spans) of the answer and its parts."""
        return log_probabilities(self.answer(rows))

    @contextmanager
    def hold_for_threads(self) -> Iterator[bool]:
        """Holds the lock; one thread asks at a time, because the scorer is hooked into the model.

        Yields:
            False.
        """
        with self._lock:
            yield False

    def _sides(self) -> tuple[str, str]:
        """What stands behind a row is not seen by a causal model."""
        return "right", "left"

    def _independent(self) -> tuple[str, ...]:
        """A note where the answer is as likely without the text."""
        reading = self.read(self.context)
        every = np.ones(len(reading.pieces), dtype=bool)
        chances = [
            float(self.log_probabilities([reading.shorten(keep)])[0, 0]) for keep in (every, ~every)
        ]
        self.probe_calls += 2
        return independence_notes(*chances)


def _check_kind(lm: Any, tokenizer: Any) -> None:
    """Refuses what is no language model, or comes without its tokenizer."""
    kind, is_module = type(lm).__name__, isinstance(lm, torch.nn.Module)
    if not is_module or not hasattr(lm, "get_output_embeddings"):
        raise InputError(
            f"a {kind} is no causal language model: give a folder, a hub id, "
            "or a model of AutoModelForCausalLM"
        )
    if lm.get_output_embeddings() is None or lm.config.is_encoder_decoder:
        raise InputError(
            f"a {kind} does not predict the next word: "
            "give a causal language model (AutoModelForCausalLM)"
        )
    if tokenizer is None:
        raise InputError(
            f"a {kind} needs its tokenizer: pass tokenizer=AutoTokenizer.from_pretrained(...)"
        )
