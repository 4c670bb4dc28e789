"""Servers of models, in this process: what they answer is known, and they fail as they are told."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
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


def _text(body: dict[str, Any]) -> str:
    prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    found = TEXT.search(prompt)
    return found[1] if found else prompt
