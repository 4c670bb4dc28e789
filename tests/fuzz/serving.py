"""Cases of kind ``api``: models behind servers that mean harm."""

from __future__ import annotations

import json
import logging
import math
import os
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
from api_servers import LABELS, PROMPT, ApiServer, ScoringServer
from hostile_api import Sent, escaped, hostile_server

from fuzz.cases import Outcome
from fuzz.hostile_servers import HARMS, Harm, bombs, drawn_key, drips
from fuzz.promises import broken
from fuzz.words import unclear
from slalom_xai import Explainer
from slalom_xai.errors import SlalomError
from slalom_xai.models.remote import (
    Connection,
    JsonClassifier,
    Price,
    RemoteAnswerModel,
    RemoteClassifier,
    Spending,
    Waiting,
)

logging.getLogger("stamina").setLevel(logging.ERROR)  # it tells of every try
VARIABLE = "SLALOM_FUZZ_KEY"
TEXT = "A slow start. But one warm, wonderful film! I liked the end."
QUESTION = "How was the film?"
KINDS = ("chat", "completions", "samples", "answers", "scores")
MOST_MEMORY = 150 * 2**20  # bytes that a bomb may take: it is seven times the largest answer
SHOWN = 8  # characters of a key: more than every key of a service begins with


class Kept:
    """A store in memory, to see what would be written to the disk."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def find(self, keys: Sequence[str]) -> dict[str, Any]:
        """What is there."""
        return {key: self.answers[key] for key in keys if key in self.answers}

    def keep(self, key: str, answer: Any) -> None:
        """Stores one answer."""
        self.answers[key] = answer


def run(seed: int, outcome: Outcome) -> None:
    """Explains a text by a model whose server does harm: a clear error, or a sound explanation."""
    rng = np.random.default_rng([7, seed])
    kind, harm = KINDS[rng.integers(len(KINDS))], HARMS[rng.integers(len(HARMS))]
    key, late = drawn_key(rng), int(rng.integers(3))  # the first answers may be sound
    outcome.told = f"{kind}, {harm.__name__} from answer {late} on"
    outcome.counts["servers"] += 1
    spending, kept = Spending(price=Price(1.0), max_calls=100), Kept()
    os.environ[VARIABLE] = key
    traced = harm is bombs and not tracemalloc.is_tracing()
    if traced:
        tracemalloc.start()
    try:
        with hostile_server(_responses(kind, harm, key, late, seed, outcome)) as url:
            error = _explained(kind, url, spending, kept, outcome)
        memory = tracemalloc.get_traced_memory()[1] if traced else 0
    finally:
        del os.environ[VARIABLE]
        if traced:
            tracemalloc.stop()
    if harm is drips and error is None:
        outcome.problems.append("api, an answer that drips is waited for")
    if memory > MOST_MEMORY:
        outcome.problems.append(f"api, an answer takes very much memory: {memory // 2**20} MiB")
    outcome.problems += _spent(spending)
    outcome.problems += _leaked(key, error, kept)


def _responses(
    kind: str, harm: Harm, key: str, late: int, seed: int, outcome: Outcome
) -> Callable[[dict[str, Any]], Sent]:
    """What the server sends, request by request."""
    numbers = iter(range(10**9))

    def respond(body: dict[str, Any]) -> Sent:
        answer = _sound(kind, body)
        if next(numbers) < late:
            return Sent.of(answer)
        sent = harm(np.random.default_rng([8, seed]), answer, key)
        outcome.told += f"\n  {sent.status} {sent.headers} {sent.body[:200]!a}"[:600]
        return sent

    return respond


def _sound(kind: str, body: dict[str, Any]) -> Any:
    if kind == "scores":
        return [0.3, 0.7]
    if kind == "answers":
        return ScoringServer()._answer(body)
    return ApiServer(log_odds=lambda text: 0.1 * len(text))._answer(body)


def _explained(
    kind: str, url: str, spending: Spending, kept: Kept, outcome: Outcome
) -> SlalomError | None:
    """Explains the text; the error that ended it."""
    quick = Waiting(first=0.001, longest=0.002, jitter=0.001, patience=0.3)
    connection = Connection(
        concurrency=1, timeout=1.0, retries=1, waiting=quick, key_variable=VARIABLE
    )
    given: dict[str, Any] = {"connection": connection, "spending": spending}
    options: dict[str, Any] = {"granularity": "sentence", "budget": 20, "cache": False}
    asked: dict[str, Any] = {"question": QUESTION} if kind == "answers" else {}
    model: RemoteAnswerModel | RemoteClassifier | JsonClassifier
    if kind == "answers":
        model = RemoteAnswerModel(f"{url}/v1", "fuzz", **given)
    elif kind == "scores":
        model = JsonClassifier(url, {"text": "{text}"}, list(LABELS), **given)
    else:
        of_kind = {"samples": {"samples": 2}, "completions": {"kind": "completions"}}.get(kind, {})
        model = RemoteClassifier(f"{url}/v1", "fuzz", LABELS, PROMPT, **of_kind, **given)
    model.use(kept)
    try:
        explanation = Explainer(model, show_progress=False, **options)(TEXT, **asked)
    except SlalomError as error:
        outcome.told += f"\n  {type(error).__name__}: {error}"
        outcome.counts["servers refused"] += 1
        problem = unclear(error)
        outcome.problems += [f"api, {problem}: {str(error)[:250]!r}"] if problem else []
        return error
    outcome.counts["servers explained"] += 1
    outcome.problems += [f"api, {problem}" for problem in broken(explanation)]
    return None


def _spent(spending: Spending) -> Iterator[str]:
    """What was booked must be possible, or no cap holds."""
    if not spending.calls <= spending.read or spending.written < 0:
        yield "api, fewer tokens are booked than were sent"
    if spending.cost is None or not math.isfinite(spending.cost) or spending.cost < 0:
        yield "api, the cost is no number"


def _leaked(key: str, error: BaseException | None, kept: Kept) -> Iterator[str]:
    """Where the key can be read."""
    if _holds(json.dumps(kept.answers, ensure_ascii=False), key):
        yield "api, a store holds the key"
    while error is not None:
        if isinstance(error, httpx.HTTPError):
            yield "api, an exception carries the request"
        if _holds(f"{error} {error!r}", key):
            yield "api, an exception tells the key"
        error = error.__cause__ or error.__context__


def _holds(text: str, key: str) -> bool:
    """Whether a text holds the beginning of a key, plainly or in escapes."""
    plain = text.replace("\\\\", "\\")
    return key[:SHOWN] in plain or escaped(key[:SHOWN]) in plain
