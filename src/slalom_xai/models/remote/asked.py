"""A language model behind an API with one question about a text, and the answer to it.

A row is a shortened text. It is sent in the prompt, with the answer at the end, and the server says
how likely each token of that prompt is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from slalom_xai.errors import InputError, ServiceError, shortened
from slalom_xai.models.answer_spans import WHOLE, Span, answer_spans, logits_of_losses, span_at
from slalom_xai.models.questions import independence_notes
from slalom_xai.models.reading import Reading
from slalom_xai.models.remote.model import RemoteModel, with_options
from slalom_xai.models.remote.scored_text import scored_answer
from slalom_xai.models.remote.settings import Connection
from slalom_xai.models.remote.spending import Spending
from slalom_xai.outputs import Outputs

if TYPE_CHECKING:
    import httpx

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
                f"{len(whole['logs'])} tokens of its own answer {shortened(self.reply, 60)} are "
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

    def _found(self, response: Any, texts: Sequence[str]) -> list[Any]:
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
