"""How a server is asked: how many requests at once, how fast, and what happens when it fails."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from urllib.parse import SplitResult, urlsplit

from slalom_xai.errors import InputError, one_of, quote_number, quote_text

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
            raise InputError(f"{name} is {quote_number(given)}: give at most {_MOST:.0f}")
    what = "a whole number" if whole else "a number"
    bound = f"above {least:g}" if above else f"of at least {least:g}"
    raise InputError(f"{name} is {quote_number(given)}: give {what} {bound}")


# Addresses of servers: checked before anything is sent there.


_HERE = ("localhost", "127.0.0.1", "::1")
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}  # of OpenAI's protocol


def parse_address(url: str) -> SplitResult:
    """The parts of an address.

    Raises:
        InputError: no address of a server, or one with a password in it.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # a wrong one is refused here
    except (ValueError, AttributeError, TypeError):
        valid = False
    if not valid:
        raise InputError(
            f"the address is {quote_text(str(url))}: give that of a server, "
            "such as http://localhost:8000/v1"
        )
    if parts.username or parts.password:
        raise InputError(
            "the address has a name or password in it: leave them out, and put the key into an "
            "environment variable"
        )
    return parts


def check_secrecy(parts: SplitResult, variable: str | None) -> None:
    """Refuses to send a key over a network that anybody can read along."""
    if parts.scheme == "https" or parts.hostname in _HERE:
        return
    raise InputError(
        f"the key in {variable} would be sent to {parts.hostname} unencrypted: give an address "
        "with https, or name no variable for the key"
    )


def endpoint(url: str, kind: str | None) -> tuple[str, str]:
    """The address of an endpoint of OpenAI's protocol, and its kind.

    Args:
        url: of the server, with the path of the endpoint or without.
        kind: "chat" or "completions"; None: as the address ends, else "chat".
    """
    if kind is not None and kind not in _PATHS:
        raise one_of("kind", kind, _PATHS)
    parts = parse_address(url)
    path = parts.path.rstrip("/")
    for known, ending in _PATHS.items():
        if path.endswith(ending):
            if kind not in (None, known):
                raise InputError(
                    f"kind is {kind!r}, but the address ends in {ending}: leave one of them out"
                )
            return parts.geturl(), known
    kind = kind or "chat"
    return parts._replace(path=path + _PATHS[kind]).geturl(), kind


# Keys: read from the environment when a request is sent, and held nowhere else.


HIDDEN = "[key]"
_STARS = "***"  # how servers repeat a part of a key that they refuse
_WORD = re.compile(r"\S+")
_ESCAPED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/]))')  # a character as JSON writes it
_WRAPPED = 3  # a message may be JSON in JSON in JSON
# Characters that the beginning of a key has at least. In messages few, because nothing is lost with
# them; in answers more, because a word of a text may begin as a key does.
_IN_MESSAGES, _IN_ANSWERS = 4, 8
_HALF = re.compile("[\ud800-\udfff]")  # of a character, which no file can hold


class EnvironmentKey:
    """A key in an environment variable. The object knows the variable's name, not the key.

    Args:
        variable: its name; None: there is no key.
        header: that carries the key.
    """

    def __init__(self, variable: str | None, header: str) -> None:
        self.variable = variable
        self.header = header

    @property
    def is_set(self) -> bool:
        """Whether there is a key."""
        return bool(self._key())

    def check(self) -> None:
        """Refuses a key that no header can hold, without repeating it."""
        if not all("!" <= character <= "~" for character in self._key()):
            raise InputError(
                f"the key in {self.variable} has characters that a header cannot hold, such as "
                "spaces or line breaks: set it again"
            )

    def headers(self) -> dict[str, str]:
        """What a request carries."""
        key = self._key()
        if not key:
            return {}
        return {self.header: f"Bearer {key}" if self.header == "Authorization" else key}

    def without(self, answer: Any) -> Any:
        """The JSON of an answer, in which no string holds the key or a beginning of it.

        Halves of characters (lone surrogates) become U+FFFD. A key of fewer than 8 characters, such
        as "EMPTY" for a server of one's own, is no secret, and may be a word of the text.

        Raises:
            RecursionError: it is nested too deep.
        """
        key = self._key()
        return _clean(answer, key if len(key) >= _IN_ANSWERS else "")

    def hidden(self, text: str) -> str:
        """A message of a server without the key and beginnings of it, also where it is escaped."""
        for _ in range(_WRAPPED):
            text = _ESCAPED.sub(_unescape, text)
        text = _mask_key(text, self._key(), _IN_MESSAGES)
        return _WORD.sub(lambda word: HIDDEN if _STARS in word[0] else word[0], text)

    def _key(self) -> str:
        return os.environ.get(self.variable, "").strip() if self.variable else ""


def _clean(answer: Any, key: str) -> Any:
    if isinstance(answer, str):
        return _HALF.sub("\ufffd", _mask_key(answer, key, _IN_ANSWERS))
    if isinstance(answer, list):
        return [_clean(each, key) for each in answer]
    if isinstance(answer, dict):
        return {_clean(name, key): _clean(each, key) for name, each in answer.items()}
    return answer


def _mask_key(text: str, key: str, least: int) -> str:
    """A text in which a key, and a beginning of it of at least so many characters, is hidden."""
    if not key:
        return text
    start, rest = key[:least], key[least:]
    before, *others = text.split(start)
    return HIDDEN.join([before, *(each[_count_equal(each, rest) :] for each in others)])


def _count_equal(one: str, other: str) -> int:
    """How many characters two texts begin with both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]
