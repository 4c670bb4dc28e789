"""Language models behind an API, asked about a text: which parts of it made the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from slalom_xai.models.answer_spans import WHOLE, check_kind_of_spans
from slalom_xai.models.question_frame import PLAIN, checked_template
from slalom_xai.models.questions import (
    check_words,
    cut_note,
    joined_context,
    no_answer,
    unasked,
)
from slalom_xai.models.reading import Reading
from slalom_xai.models.remote.addresses import endpoint
from slalom_xai.models.remote.asked import VERSION, Asked, RemoteAskedModel
from slalom_xai.models.remote.failures import not_the_protocol
from slalom_xai.models.remote.model import RemoteModel, Shelf, with_options
from slalom_xai.models.remote.settings import Connection, check_number
from slalom_xai.models.remote.spending import Spending
from slalom_xai.models.rows import Row
from slalom_xai.outputs import Outputs

if TYPE_CHECKING:
    import httpx


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
        self._template = checked_template(template) or PLAIN
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
        asked, joint = self._framed(context, question)
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
        return self._about(self._framed(context, question)[0])

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Nothing can be read before a question is asked."""
        raise unasked(text, text_pair, truncation, removal)

    def answer_together(self, rows: Sequence[Row], done: Callable[[int], None]) -> Tensor:
        """There are no answers before a question is asked."""
        raise unasked(rows, done)

    def _framed(self, context: str | Sequence[str], question: str) -> tuple[Asked, str]:
        """A question in its prompt, and what an answer begins with.

        A space at the end of a prompt is part of the first token of what follows. So it goes to the
        answer.
        """
        check_words("question", question)
        text, passages = joined_context(context)
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

    def _found(self, response: Any, texts: Sequence[str]) -> list[Any]:
        try:
            choice = response["choices"][0]
            written, reason = choice["text"], choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, AttributeError):
            raise not_the_protocol(self.name, response, texts[0]) from None
        if not isinstance(written, str):
            raise not_the_protocol(self.name, response, texts[0])
        return [{"text": written, "cut": reason == "length"}]

    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        raise unasked(text, found)
