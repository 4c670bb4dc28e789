"""Language models behind an API, asked about a text: which parts of it made the answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from slalom_xai.errors import InputError, ServiceError, quote_text
from slalom_xai.models.answer_spans import (
    WHOLE,
    Span,
    answer_spans,
    check_kind_of_spans,
    logits_of_losses,
    span_at,
)
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.questions import (
    PLAIN,
    check_template,
    check_words,
    cut_note,
    independence_notes,
    join_context,
    no_answer,
    no_question_error,
)
from slalom_xai.models.reading import Reading
from slalom_xai.models.remote.failures import not_the_protocol
from slalom_xai.models.remote.likely_tokens import scored_answer
from slalom_xai.models.remote.model import RemoteModel, Shelf, with_options
from slalom_xai.models.remote.settings import Connection, check_number, endpoint
from slalom_xai.models.remote.spending import Spending
from slalom_xai.models.rows import Row

if TYPE_CHECKING:
    import httpx

# A language model behind an API with one question about a text, and the answer to it.
#
# A row is a shortened text. It is sent in the prompt, with the answer at the end, and the server
# says how likely each token of that prompt is.


VERSION = 1  # of what is made of a response; a change makes kept answers useless
_LEAST_LOST = 2.0**-24  # servers round probabilities to single precision: nearer to 1 is 1


@dataclass(frozen=True)
class Asked:
    """A question about a text, and the answer that is explained.

    Attributes:
        context: the text, sources joined.
        passages: where sources begin that were given one by one.
        question: about it.
        before: what stands in the prompt before the text.
        after: what stands behind it, up to the answer.
        answer: as it stands in the prompt, with the space before it.
    """

    context: str
    passages: tuple[int, ...] | None
    question: str
    before: str
    after: str
    answer: str = ""

    def prompt(self, text: str) -> str:
        """The prompt with a shortened text in it, and the answer at its end."""
        return self.before + text + self.after + self.answer


class RemoteAskedModel(RemoteModel):
    """A language model on a server with a question about a text, and the answer to it.

    ``RemoteAnswerModel.asking`` makes them.

    Attributes:
        context: the text, sources joined.
        question: about it.
        reply: the answer.
        spans: the whole answer, and parts of it, in the order of ``outputs``.
        notes: what a reader should know, a sentence each.
    """

    def __init__(
        self,
        url: str,
        model: str,
        asked: Asked,
        *,
        options: Mapping[str, Any],
        connection: Connection | None,
        spending: Spending,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        super().__init__(
            url,
            model,
            Outputs("answers", (WHOLE,)),
            connection=connection,
            spending=spending,
            transport=transport,
        )
        self.context, self.question, self.reply = (
            asked.context,
            asked.question,
            asked.answer.strip(),
        )
        self.spans: tuple[Span, ...] = ()
        self.notes: tuple[str, ...] = ()
        self._model, self._given, self._options = model, asked, options
        self._ends: list[int] = []  # of the tokens of the answer behind the whole text
        self._certain: set[int] = set()  # rows whose probability is rounded to 1

    @property
    def question_key(self) -> str:
        """What tells the question and its answer from others, as a hash."""
        said = json.dumps(asdict(self._given), sort_keys=True)
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()

    def prompt_of(self, text: str) -> str:
        """The prompt with a shortened text in it, and the answer at its end."""
        return self._given.prompt(text)

    def learn(
        self, wanted: str | Sequence[str], notes: Sequence[str] = (), *, own: bool = False
    ) -> None:
        """Asks for the whole text and for nothing of it, to see the answer's tokens and its need.

        Args:
            wanted: the parts of the answer that are explained beside the whole.
            notes: what is known already.
            own: whether the answer is the model's own. Each of its tokens was the likeliest when
                the model wrote it, and must be so now.

        Raises:
            ServiceError: the server scores the model's own answer as if another had written it.
        """
        whole, without = (found for (found,) in self._asked([self.context, ""], lambda _rows: None))
        self.probe_calls += 1  # the whole text is a row of the explanation
        if own and whole["likeliest"] is not None and 2 * whole["likeliest"] < len(whole["logs"]):
            raise ServiceError(
                f"{self.name} scores given text wrongly: only {whole['likeliest']} of the "
                f"{len(whole['logs'])} tokens of its own answer {quote_text(self.reply, 60)} are "
                "the likeliest in their places; llama-cpp-python does so with some models"
            )
        self._ends = whole["ends"]
        starts = [0, *self._ends[:-1]]
        pairs = zip(starts, self._ends, strict=True)
        pieces = [self._given.answer[start:stop] for start, stop in pairs]
        self.spans = answer_spans(pieces, "".join, wanted)
        self.outputs = Outputs("answers", tuple(span.label for span in self.spans))
        self.notes = (*notes, *independence_notes(sum(whole["logs"]), sum(without["logs"])))
        if whole["before"]:
            self.notes += (
                f"The first token of the answer begins with {whole['before']!r}, which stands "
                "before it in the prompt: both are scored together.",
            )

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Splits the context into words."""
        if text_pair is not None:
            raise InputError(
                "a second text was given beside a context: put both into the context, "
                "or give sources=[...]"
            )
        reading = super().read(text, truncation=truncation, removal=removal)
        return replace(reading, passages=self._given.passages)

    def notes_on(self, asked: Collection[int]) -> tuple[str, ...]:
        """How many answers are bounds only."""
        certain = len(self._certain.intersection(asked))
        if not certain:
            return ()
        return (
            f"{certain} of {len(asked)} answers ({100 * certain / len(asked):.2g}%) are bounds: "
            "the server rounds the probability to 1. It is nearer to 1 than the number that was "
            "used.",
        )

    def _identity(self) -> Any:
        return {"version": VERSION, "asked": asdict(self._given), "body": self._body("")}

    def _request(self, texts: Sequence[str]) -> tuple[dict[str, Any], str]:
        (text,) = texts
        return self._body(text), self.prompt_of(text)

    def _body(self, text: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "prompt": self.prompt_of(text)}
        # One token is written, because for some servers 0 means as many as they like.
        body |= {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        return with_options(body, self._options)

    def _parse_response(self, response: Any, texts: Sequence[str]) -> list[Any]:
        return [asdict(scored_answer(response, self._given.answer, self.name))]

    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        ends, logs = found[0]["ends"], found[0]["logs"]
        lost = -torch.tensor([logs], dtype=torch.float64)
        if bool((lost <= _LEAST_LOST).all()):
            self._certain.add(hash(text))
        spans = self.spans if ends == self._ends else self._spans_by_place(ends)
        logits: list[float] = logits_of_losses(lost.clamp(min=_LEAST_LOST), spans)[0].tolist()
        return logits

    def _spans_by_place(self, ends: list[int]) -> list[Span]:
        """The spans in a row whose tokens the server cut in another way."""
        whole = Span(WHOLE, 0, len(ends))
        starts = [0, *self._ends]
        places = [(starts[span.start], self._ends[span.stop - 1]) for span in self.spans[1:]]
        return [whole, *(span_at(WHOLE, place, ends) for place in places)]


# Language models behind an API, asked about a text: which parts of it made the answer.


class RemoteAnswerModel(RemoteModel):
    """A language model on a server that scores given text; its answers are explained.

    The server speaks OpenAI's protocol for completions, and repeats a prompt with the
    log-probabilities of its tokens (``echo``). vLLM does; llama.cpp's server does not.

    Args:
        url: of the server, such as "http://localhost:8000/v1".
        model: its name there.
        template: the prompt, with the places {context} and {question}. None: "Context: ...
            Question: ... Answer:". The server puts no chat template around it: a model that needs
            one needs its marks here.
        max_new_tokens: where the model's own answer is cut.
        spans: the parts of the answer that are explained beside the whole of it, from the same
            rows: "answer" (none), "sentences", "tokens", or a list of parts.
        options: further fields of a request, such as ``{"seed": 1}``; a field that is None is left
            out of it.
        connection: how the server is asked.
        spending: what it may cost.
        transport: takes the place of the network, in tests.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        template: str | None = None,
        max_new_tokens: int = 32,
        spans: str | Sequence[str] = WHOLE,
        options: Mapping[str, Any] | None = None,
        connection: Connection | None = None,
        spending: Spending | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._template = check_template(template) or PLAIN
        check_kind_of_spans(spans)
        check_number("max_new_tokens", max_new_tokens, 1, whole=True)
        address, _ = endpoint(url, "completions")
        super().__init__(
            address,
            model,
            Outputs("answers", (WHOLE,)),
            connection=connection,
            spending=spending,
            transport=transport,
        )
        self._connection, self._transport = connection, transport
        self._model, self._spans, self._options = model, spans, dict(options or {})
        self.most_written = max_new_tokens

    def asking(
        self, context: str | Sequence[str], question: str, *, answer: str | None = None
    ) -> RemoteAskedModel:
        """The model with one question about one text, ready to be explained.

        The server is asked for its own answer, where none is given, and for the probability of the
        answer with the whole text and with nothing of it.

        Args:
            context: the text, or a list of sources.
            question: what to ask about it.
            answer: the answer to explain; None: the model's own, the likeliest token at each step.

        Raises:
            InputError: no words in the context, the question or the answer.
            ServiceError: the server does not score given text.
            ModelError: the model ends its answer at once.
        """
        asked, joint = self._frame_question(context, question)
        notes: tuple[str, ...] = ()
        if answer is None:
            asked, notes = self._own_answer(asked)
        else:
            check_words("answer", answer)
            asked = replace(asked, answer=joint + answer.strip())
        model = self._about(asked)
        model.learn(self._spans, notes, own=answer is None)
        model.probe_calls += answer is None
        return model

    def unanswered(self, context: str | Sequence[str], question: str) -> RemoteAskedModel:
        """The model with a question whose answer is not known yet, to count what it may take.

        Nothing is sent.
        """
        return self._about(self._frame_question(context, question)[0])

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Nothing can be read before a question is asked."""
        raise no_question_error(text, text_pair, truncation, removal)

    def answer_together(self, rows: Sequence[Row], done: Callable[[int], None]) -> Tensor:
        """There are no answers before a question is asked."""
        raise no_question_error(rows, done)

    def _frame_question(self, context: str | Sequence[str], question: str) -> tuple[Asked, str]:
        """A question in its prompt, and what an answer begins with.

        A space at the end of a prompt is part of the first token of what follows. So it goes to the
        answer.
        """
        check_words("question", question)
        text, passages = join_context(context)
        before, after = (
            part.replace("{question}", question.strip())
            for part in self._template.split("{context}")
        )
        after = after.removesuffix(" ")
        joint = "" if after[-1:].isspace() else " "
        return Asked(text, passages, question.strip(), before, after), joint

    def _own_answer(self, asked: Asked) -> tuple[Asked, tuple[str, ...]]:
        """The question with the model's own answer, and a note where that was cut."""
        prompt = asked.prompt(asked.context)
        ((found,),) = self._asked([prompt], lambda _rows: None)
        own = found["text"].rstrip()
        if not own:
            raise no_answer(self.name)
        notes = (cut_note(self.most_written),) if found["cut"] else ()
        return replace(asked, answer=own), notes

    def _about(self, asked: Asked) -> RemoteAskedModel:
        model = RemoteAskedModel(
            self._url,
            self._model,
            asked,
            options=self._options,
            connection=self._connection,
            spending=self.spending,
            transport=self._transport,
        )
        model.use(Shelf(self._store, model.question_key))
        return model

    def _identity(self) -> Any:
        return {"version": VERSION, "body": self._body("")}

    def _request(self, texts: Sequence[str]) -> tuple[dict[str, Any], str]:
        (prompt,) = texts
        return self._body(prompt), prompt

    def _body(self, prompt: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "prompt": prompt}
        body |= {"max_tokens": self.most_written, "temperature": 0}
        return with_options(body, self._options)

    def _parse_response(self, response: Any, texts: Sequence[str]) -> list[Any]:
        try:
            choice = response["choices"][0]
            written, reason = choice["text"], choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise not_the_protocol(self.name, response, texts[0]) from None
        if not isinstance(written, str):
            raise not_the_protocol(self.name, response, texts[0])
        return [{"text": written, "cut": reason == "length"}]

    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        raise no_question_error(text, found)
