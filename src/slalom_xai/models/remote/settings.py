"""How a server is asked: how many requests at once, how fast, and what happens when it fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from slalom_xai.errors import InputError, shown_number

_MOST = 1e15  # of any number here


@dataclass(frozen=True)
class Waiting:
    """How long to wait between two tries of one request.

    The pauses double from ``first`` to ``longest``, with a random part of up to ``jitter``. If the
    server says itself how long to wait (``Retry-After``), that is what is waited.

    Attributes:
        first: seconds before the second try.
        longest: seconds between two tries, at most.
        jitter: seconds added at random, at most, so that many clients do not return at once.
        patience: seconds that a request may wait for a server that is busy; then the run ends.
    """

    first: float = 0.5
    longest: float = 30.0
    jitter: float = 1.0
    patience: float = 300.0


@dataclass(frozen=True)
class Connection:
    """How a server is asked.

    Attributes:
        concurrency: requests in flight, at most.
        rate: requests a minute, at most; None: as fast as the server answers.
        timeout: seconds that a try may take in all, up to the last byte of the answer; half of it
            to connect.
        retries: how often a request is tried again after a time-out, a dropped connection, an
            answer that is cut off, or a failure of the server (5xx). "Too many requests" (429)
            does not count: it is tried again for as long as ``waiting`` has patience.
        most_bytes: the largest answer that is read, unpacked; a larger one ends the run.
        waiting: how long to wait between two tries.
        key_variable: name of the environment variable that holds the key; None sends no key. If
            the variable is not set, no key is sent.
        key_header: the header that carries the key. ``Authorization`` carries it as
            ``Bearer KEY``, any other header as it is.
    """

    concurrency: int = 8
    rate: float | None = None
    timeout: float = 60.0
    retries: int = 6
    most_bytes: int = 20_000_000
    waiting: Waiting = field(default_factory=Waiting)
    key_variable: str | None = "OPENAI_API_KEY"
    key_header: str = "Authorization"

    def __post_init__(self) -> None:
        check_number("concurrency", self.concurrency, 1, whole=True)
        check_number("retries", self.retries, 0, whole=True)
        check_number("most_bytes", self.most_bytes, 1, whole=True)
        check_number("timeout", self.timeout, 0, above=True)
        if self.rate is not None:
            check_number("rate", self.rate, 0, above=True)


def check_number(
    name: str, given: object, least: float, *, whole: bool = False, above: bool = False
) -> None:
    """Refuses an option that is not a number in its range."""
    kinds = (int,) if whole else (int, float)
    if isinstance(given, kinds) and not isinstance(given, bool):
        if least < given <= _MOST or (given == least and not above):
            return
        if given > _MOST:
            raise InputError(f"{name} is {shown_number(given)}: give at most {_MOST:.0f}")
    what = "a whole number" if whole else "a number"
    bound = f"above {least:g}" if above else f"of at least {least:g}"
    raise InputError(f"{name} is {shown_number(given)}: give {what} {bound}")
