"""A language model behind an API that speaks OpenAI's protocol, used as a classifier."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import InputError, ModelError, ServiceError, quote_text
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.remote.failures import not_the_protocol
from slalom_xai.models.remote.likely_tokens import (
    LabelFinder,
    check_tokens,
    label_in,
    listed_tokens,
)
from slalom_xai.models.remote.model import RemoteModel, with_options
from slalom_xai.models.remote.settings import Connection, check_number, endpoint
from slalom_xai.models.remote.spending import Spending

if TYPE_CHECKING:
    import httpx

PLACE = "{text}"
_VERSION = 1  # of what is made of a response; a change makes kept answers useless
_HALF = 0.5  # added to every count of a label, so that none has the probability 0


class RemoteClassifier(RemoteModel):
    """A language model that answers a prompt with a label, and says how likely each label is.

    The prompt is sent with each shortened text in it. The model writes one token, and the server
    lists the likeliest ones with their log-probabilities. Those of the labels are explained: of two
    labels the log odds.

    Args:
        url: of the server, such as "http://localhost:8000/v1".
        model: its name there.
        labels: names of the classes, each with the token that the model answers for it.
        prompt: holds ``{text}`` where the text goes; None: a plain request to classify. Servers
            that keep prefixes of prompts are faster if the text comes late.
        kind: "chat" or "completions"; None: as the address ends, else "chat".
        system: a message before the prompt, for chats.
        top: tokens that the server should list.
        samples: for servers without log-probabilities: how often each text is asked, to count the
            labels. None: log-probabilities are needed.
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
        labels: Mapping[str, str],
        prompt: str | None = None,
        *,
        kind: str | None = None,
        system: str | None = None,
        top: int = 20,
        samples: int | None = None,
        options: Mapping[str, Any] | None = None,
        connection: Connection | None = None,
        spending: Spending | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        tokens = check_tokens(labels)
        check_number("top", top, 1, whole=True)
        if samples is not None:
            check_number("samples", samples, 2, whole=True)
        address, self._kind = endpoint(url, kind)
        outputs = Outputs("binary" if len(tokens) == 2 else "multiclass", tuple(tokens))
        super().__init__(
            address,
            model,
            outputs,
            connection=connection,
            spending=spending,
            transport=transport,
        )
        self._model, self._system, self._top, self._samples = model, system, top, samples
        self._tokens = list(tokens.values())
        self._prompt = _check_prompt(prompt, tokens)
        self._options = dict(options or {})
        self._finder = LabelFinder(self._tokens, self.name)
        self._bounded: set[int] = set()  # rows with a label that was not listed
        self._odd_draws: dict[int, int] = {}  # draws of a row that are none of the labels
        if samples is not None:
            self.draws = samples
            self.most_written = 1 + max(map(len, self._tokens))

    def prompt_of(self, text: str) -> str:
        """The prompt with a text in it."""
        return self._prompt.replace(PLACE, text)

    @property
    def noise_note(self) -> str | None:
        """Counts of few draws are noisy, even where two of them agree."""
        if self._samples is None:
            return None
        return (
            f"The server gives no log-probabilities: they are estimated from {self._samples} draws "
            "for each text, half a draw added to every label, and are noisy."
        )

    def notes_on(self, asked: Collection[int]) -> tuple[str, ...]:
        """How many answers are bounds only, or none of the labels."""
        bounded = len(self._bounded.intersection(asked))
        odd = sum(self._odd_draws.get(row, 0) for row in asked)
        notes: tuple[str, ...] = ()
        if bounded:
            notes += (
                f"{bounded} of {len(asked)} answers ({100 * bounded / len(asked):.2g}%) are "
                f"bounds: the server lists up to {self._top} tokens, and a label was not among "
                "them. It is less likely than the last one listed, whose log-probability was used.",
            )
        if odd:
            draws = self.draws * len(asked)
            notes += (
                f"{odd} of {draws} draws ({100 * odd / draws:.2g}%) were none of the labels; they "
                "are left out.",
            )
        return notes

    def _identity(self) -> Any:
        return {
            "version": _VERSION,
            "model": self._model,
            "tokens": self._tokens,
            "prompt": self._prompt,
            "body": self._body(""),
        }

    def _request(self, texts: Sequence[str]) -> tuple[dict[str, Any], str]:
        (text,) = texts
        return self._body(text), (self._system or "") + self.prompt_of(text)

    def _body(self, text: str) -> dict[str, Any]:
        prompt = self.prompt_of(text)
        body: dict[str, Any] = {"model": self._model, "max_tokens": self.most_written}
        body["temperature"] = 0 if self._samples is None else 1
        if self._kind == "completions":
            body["prompt"] = (self._system or "") + prompt
        else:
            said = [{"role": "user", "content": prompt}]
            if self._system is not None:
                said.insert(0, {"role": "system", "content": self._system})
            body["messages"] = said
        if self._samples is None:
            chat = {"logprobs": True, "top_logprobs": self._top}
            body |= chat if self._kind == "chat" else {"logprobs": self._top}
        return with_options(body, self._options)

    def _parse_response(self, response: Any, texts: Sequence[str]) -> list[Any]:
        """The likely tokens, or the text where labels are drawn."""
        try:
            choice = response["choices"][0]
            message = choice.get("message") or {}
            written = message.get("content") or choice.get("text") or ""
            reasons = bool(message.get("reasoning_content") or message.get("reasoning"))
            top = listed_tokens(choice, self.name)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise not_the_protocol(self.name, response, texts[0]) from None
        if reasons and (self._samples is not None or top is None):
            raise ServiceError(
                f"{self.name} reasons before it answers, so that it gives no probability of a "
                "label: switch reasoning off, or choose a model that does not reason"
            )
        if self._samples is not None:
            return [{"text": str(written)}]
        if top is None:
            raise ServiceError(
                f"{self.name} returned {quote_text(str(written), 40)} and no log-probabilities: "
                "start the server with them, choose a model that gives them, or estimate them "
                "with samples=20"
            )
        return [{"top": [list(pair) for pair in top]}]

    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        if self._samples is not None:
            return self._count_draws(text, [each["text"] for each in found])
        top = [(token, log) for token, log in found[0]["top"]]
        labels = self._finder.logs(top, text)
        if any(labels.bounds):
            self._bounded.add(hash(text))
        return labels.logs

    def _count_draws(self, text: str, written: Sequence[str]) -> list[float]:
        """Log-probabilities from how often each label was drawn."""
        drawn = [label_in(each, self._tokens) for each in written]
        counts = [drawn.count(index) for index in range(len(self._tokens))]
        if sum(counts) == 0:
            raise ModelError(
                f"{self.name} answered {quote_text(written[0], 40)} to {quote_text(text)}, and "
                f"none of the labels ({', '.join(self._tokens)}) in {len(written)} draws: say in "
                "the prompt what to answer"
            )
        self._odd_draws[hash(text)] = drawn.count(None)
        total = sum(counts) + _HALF * len(counts)
        return [math.log((count + _HALF) / total) for count in counts]


def _check_prompt(prompt: str | None, tokens: Mapping[str, str]) -> str:
    """The prompt, or one that asks for the labels."""
    if prompt is None:
        meanings = [
            token if token == name else f"{token} ({name})" for name, token in tokens.items()
        ]
        return (
            "Classify the text. Answer with one of these and nothing else: "
            f"{', '.join(meanings)}.\n\nText: {PLACE}\n\nAnswer:"
        )
    if not isinstance(prompt, str) or PLACE not in prompt:
        raise InputError(
            f"the prompt {quote_text(str(prompt))} does not say where the text goes: "
            f"put {PLACE} there"
        )
    return prompt
