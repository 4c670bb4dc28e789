"""What a visitor may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on requests and on the work that they cause.

    Attributes:
        connections: that are open at the same time; more are refused.
        head_seconds: a request's first line and headers must arrive within so many seconds.
        body: bytes of a request.
        body_seconds: a request's body must arrive within so many seconds.
        text: characters of a text.
        budget: model calls for an explanation.
        seconds: of work on one job; a group of jobs has so many each.
        queue: jobs that may wait for one model; more are refused.
        together: jobs with the same settings that a worker takes at once, as a list call would.
        watchers: connections that follow a job at the same time.
        rows: of edited texts in one question to a model.
        keys: explanations in one report.
        asked: quick questions that may wait for one worker; more are refused.
        ask_seconds: how long a request waits for a model's quick answer.
        attempts: how often a job is begun before it is given up, because its worker died.
        lease: seconds after which a job without a sign of its worker is taken from it.
    """

    connections: int = 500
    head_seconds: float = 10.0
    body: int = 1_000_000
    body_seconds: float = 20.0
    text: int = 100_000
    budget: int = 20_000
    seconds: float = 600.0
    queue: int = 256
    together: int = 32
    watchers: int = 200
    rows: int = 64
    keys: int = 8
    asked: int = 64
    ask_seconds: float = 60.0
    attempts: int = 3
    lease: float = 15.0
