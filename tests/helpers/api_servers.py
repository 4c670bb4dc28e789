"""Servers of models, in this process: what they answer is known, and they fail as they are told."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from fakes import word_scores
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TEXT = re.compile(r"<(.*)>", re.DOTALL)  # where the prompt of the tests has the text
PROMPT = "Is this review good? Answer 0 or 1. <{text}>"
LABELS = {"bad": "0", "good": "1"}


def planted_log_odds(text: str) -> float:
    """A SLALOM without a sink: the average of the values of words under their weights."""
    values, weights = zip(*(word_scores(word) for word in text.split()), strict=True)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


@dataclass
class Fault:
    """What a server does instead of answering.

    Attributes:
        status: that it answers with.
        headers: of that answer.
        body: of that answer.
        drop: breaks the connection off.
        delay: seconds before it answers as usual.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    drop: bool = False
    delay: float = 0.0


@dataclass
class ApiServer:
    """Answers chats and completions with the log-probabilities of two labels.

    Attributes:
        log_odds: of the second label, from the text.
        faults: what goes wrong, request by request; None: nothing.
        listed: makes the list of likely tokens from the log-probabilities of the labels.
        logprobs: whether it gives any.
        write: what it writes, from the text.
        usage: whether it says how many tokens it took.
        echo: repeats the headers of a request in its errors.
    """

    log_odds: Callable[[str], float] = planted_log_odds
    faults: Iterable[Fault | None] = ()
    listed: Callable[[list[float]], list[tuple[str, float]]] | None = None
    logprobs: bool = True
    write: Callable[[str], str] | None = None
    usage: bool = True
    echo: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    billed: int = 0
    in_flight: int = 0
    most_in_flight: int = 0

    def __post_init__(self) -> None:
        self._faults = iter(self.faults)

    @property
    def transport(self) -> httpx.ASGITransport:
        """Takes the place of the network."""
        return httpx.ASGITransport(self.app)

    @property
    def app(self) -> Starlette:
        paths = ("/v1/chat/completions", "/v1/completions")
        return Starlette(routes=[Route(path, self._serve, methods=["POST"]) for path in paths])

    @property
    def texts(self) -> list[str]:
        """The texts in the prompts that came in."""
        return [_text(body) for body in self.requests]

    async def _serve(self, request: Request) -> Response:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            self.headers.append(dict(request.headers))
            body = await request.json()
            self.requests.append(body)
            await asyncio.sleep(0)  # lets other requests come in
            fault = next(self._faults, None) or Fault()
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if not 400 <= fault.status < 500:
                self.billed += 1
            if fault.drop:
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            if fault.status != 200 or fault.body is not None:
                said = fault.body or json.dumps({"error": {"message": "planted failure"}})
                if self.echo:
                    said = json.dumps({"error": {"message": f"failure: {dict(request.headers)}"}})
                return Response(said, fault.status, fault.headers)
            return JSONResponse(self._answer(body))
        finally:
            self.in_flight -= 1

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        odds = self.log_odds(_text(body))
        # A hundredth of the probability goes to other tokens.
        logs = [math.log(0.99) - math.log1p(math.exp(sign * odds)) for sign in (1, -1)]
        top = self.listed(logs) if self.listed else [("0", logs[0]), ("1", logs[1]), ("\n", -5.0)]
        top = sorted(top, key=lambda pair: -pair[1])
        written = self.write(_text(body)) if self.write else top[0][0]
        choice: dict[str, Any] = {"text": written}
        found: Any = {"top_logprobs": [dict(top)]}
        if "messages" in body:
            entries = [{"token": token, "logprob": log} for token, log in top]
            choice = {"message": {"role": "assistant", "content": written}}
            found = {"content": [{**entries[0], "top_logprobs": entries}]}
        choice["logprobs"] = found if self.logprobs and body.get("logprobs") else None
        answer: dict[str, Any] = {"choices": [choice]}
        if self.usage:
            answer["usage"] = {"prompt_tokens": len(str(body)) // 4, "completion_tokens": 1}
        return answer


_TOKEN = re.compile(r" ?\w+|\s|[^\w\s]")
_ASKED = re.compile(r"Context:\n(.*)\n\nQuestion: (.*)\nAnswer:(.*)", re.DOTALL)


def sentences(context: str) -> list[str]:
    """Sentences that end with a point each."""
    return [f"{part.strip()}." for part in context.split(".") if part.strip()]


def planted_answer(context: str) -> float:
    """The log odds of an answer: a SLALOM of sentences without a sink; -2 without a sentence."""
    if not context.strip():
        return -2.0
    values, weights = zip(*map(word_scores, sentences(context)), strict=True)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


@dataclass
class ScoringServer(ApiServer):
    """Repeats prompts with the log-probabilities of their tokens, and answers questions.

    The log-probability of an answer is known; each of its tokens has the same share of it.

    Attributes:
        own: the answer that it writes itself, and why it ends there.
        repeats: whether it repeats prompts; one that does not lists what it writes.
        tokens: cuts a prompt into tokens.
        spelled: how it writes the tokens that it lists.
        first: a token before the text, that the prompt does not have.
        written: the token behind the prompt; None: none is listed.
        ahead: nats by which the likeliest tokens are likelier than those of the prompt.
    """

    log_odds: Callable[[str], float] = planted_answer
    own: tuple[str, str] = (" It was good.", "stop")
    repeats: bool = True
    tokens: Callable[[str], list[str]] = _TOKEN.findall
    spelled: Callable[[str], str] = str
    first: str | None = None
    written: str | None = " And"
    ahead: float = 0.0

    @property
    def texts(self) -> list[str]:
        """The contexts that were scored."""
        return [_asked(body)[0] for body in self.requests if body.get("echo")]

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        usage = {"prompt_tokens": len(body["prompt"]) // 4, "completion_tokens": 1}
        answer: dict[str, Any] = {"usage": usage} if self.usage else {}
        if not body.get("echo") or not self.repeats:
            written, reason = self.own
            listed = {"tokens": [written], "token_logprobs": [-0.5], "text_offset": [0]}
            choice = {"text": written, "finish_reason": reason}
            return answer | {"choices": [choice | {"logprobs": listed if self.logprobs else None}]}
        context, reply = _asked(body)
        tokens = self.tokens(body["prompt"])
        # Tokens are the answer's from where the rest spells it.
        count = next(n for n in itertools.count(1) if len("".join(tokens[-n:])) >= len(reply))
        log = -float(np.logaddexp(0, -self.log_odds(context)))
        logs = [-1.0] * (len(tokens) - count) + [log / count] * count
        if self.written is not None:
            tokens, logs = [*tokens, self.written], [*logs, -0.7]
        tokens = [self.spelled(token) for token in tokens]
        if self.first is not None:
            tokens, logs = [self.first, *tokens], [-1.0, *logs]
        places = itertools.accumulate(map(len, tokens[:-1]), initial=0)
        listed = {"tokens": tokens, "token_logprobs": [None, *logs[1:]], "text_offset": [*places]}
        listed["top_logprobs"] = [None, *({"likely": log + self.ahead} for log in logs[1:])]
        choice = {"text": body["prompt"] + (self.written or ""), "logprobs": listed}
        return answer | {"choices": [choice]}


def _asked(body: dict[str, Any]) -> tuple[str, str]:
    """The context and the answer of a prompt."""
    found = _ASKED.fullmatch(body["prompt"])
    assert found is not None, body["prompt"]
    return found[1], found[3]


def _text(body: dict[str, Any]) -> str:
    prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    found = TEXT.search(prompt)
    return found[1] if found else prompt
