"""What went wrong with a request: whether to try again, and how to say it in one line."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import ModelError, ServiceError, quote_text

if TYPE_CHECKING:
    import httpx

# What a server sends back: read up to a size, unpacked and parsed, whatever it holds.


PACKED = "gzip"  # what servers may pack answers with
_GZIP = zlib.MAX_WBITS | 16


class Unreadable(ValueError):
    """Bytes that are not what they should be; says what they are."""


async def read(response: httpx.Response, most: int) -> bytes:
    """The body of a response, unpacked: all of it, or the first ``most + 1`` bytes.

    httpx unpacks as much as there is: a few bytes may become more than there is memory.

    Raises:
        Unreadable: it is packed in a way that was not asked for, or damaged.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", PACKED):
        raise Unreadable(f"packed as {encoding[:40]!r}, although {PACKED} was asked for")
    unpacker = zlib.decompressobj(_GZIP) if encoding == PACKED else None
    content = bytearray()
    async for chunk in response.aiter_raw():
        left = most + 1 - len(content)
        try:
            content += chunk[:left] if unpacker is None else unpacker.decompress(chunk, left)
        except zlib.error:
            raise Unreadable(f"damaged {PACKED}") from None
        if len(content) > most:
            return bytes(content)
        if unpacker is not None and unpacker.eof:
            break
    if unpacker is not None and not unpacker.eof:
        raise Unreadable(f"{PACKED} that is cut off")
    return bytes(content)


def parse_json(content: bytes) -> Any:
    """The JSON in some bytes.

    Raises:
        Unreadable: it is none, or none that can be worked with.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise Unreadable("JSON that is nested too deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise Unreadable("not JSON") from None
    except ValueError:
        raise Unreadable("JSON with a number of thousands of digits") from None


# What went wrong with a request: whether to try again, and how to say it in one line.


_TRY_AGAIN = (408, 409, 425, 429)
_OUT_OF_MONEY = ("insufficient_quota", "exceeded your current quota")
_TOO_LONG = ("context length", "context_length", "context window", "too long", "too large")
_ECHO = re.compile(r"\becho\b", re.IGNORECASE)
_NO_SUCH_MODEL = ("does not exist", "not found", "unknown model", "no such model")


class Failed(Exception):
    """A try that failed and may be made again. It never refers to the request and its headers.

    Args:
        reason: in a few words.
        wait: seconds that the server asks to wait; None where it does not say.
        billed: whether it may have to be paid.
        busy: whether the server only said that it has too much to do.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait: float | None = None,
        billed: bool = True,
        busy: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason, self.wait, self.billed, self.busy = reason, wait, billed, busy


class Unusable(ServiceError):
    """An answer that no further try would mend. It may have to be paid."""

    billed = True


@dataclass(frozen=True)
class Refusal:
    """A response that is no answer.

    Attributes:
        status: of HTTP.
        said: the server's own words, without a key.
        headers: of the response, names in lower case.
        model: how the model is called, for messages.
        key: says whether there is a key, for messages: "the key in NAME".
    """

    status: int
    said: str
    headers: Mapping[str, str]
    model: str
    key: str

    def may_pass(self) -> Failed | None:
        """The failure, where trying again may help."""
        if self.status == 429 and _says(self.said, _OUT_OF_MONEY):
            return None
        if self.status not in _TRY_AGAIN and self.status < 500:
            return None
        if self._refuses_echo():  # llama.cpp does so with a status of 500
            return None
        wait = seconds_to_wait(self.headers.get("retry-after"), datetime.now(UTC))
        reason = f"status {self.status}{self._quote()}"
        busy = self.status == 429
        return Failed(reason, wait=wait, billed=self.status >= 500, busy=busy)

    def error(self) -> ModelError:
        """The error, where trying again does not help."""
        said = self._quote()
        if self.status in (401, 403):
            return ServiceError(f"{self.model} refused the request: {self.key}{said}")
        if self.status in (402, 429):
            return ServiceError(f"{self.model}: the account is used up{said}")
        if self.status == 404 or ("model" in self.said.lower() and self._says(_NO_SUCH_MODEL)):
            return ServiceError(
                f"{self.model} was not found{said}: check the address and the name of the model"
            )
        if self._says(_TOO_LONG) or self.status == 413:
            return ModelError(
                f"{self.model} does not read so long a text{said}: use a shorter text or prompt"
            )
        if self._refuses_echo():
            return cannot_score(self.model, said)
        if "logprob" in self.said.lower():
            return ServiceError(
                f"{self.model} gives no log-probabilities{said}: choose a model that does "
                "(reasoning models do not), or estimate those of labels with samples=20"
            )
        if 300 <= self.status < 400:
            where = quote_text(self.headers.get("location", "nowhere"))
            return ServiceError(f"{self.model} has moved to {where}: give that address")
        return ModelError(f"{self.model} refused the request (status {self.status}){said}")

    def _refuses_echo(self) -> bool:
        return _ECHO.search(self.said) is not None

    def _says(self, words: tuple[str, ...]) -> bool:
        return _says(self.said, words)

    def _quote(self) -> str:
        return f" (it says {quote_text(self.said, 200)})" if self.said else ""


def cannot_score(model: str, said: str = "") -> ServiceError:
    """The error for a server that does not say how likely a given text is."""
    return ServiceError(
        f"{model} does not score given text{said}: it returns no log-probabilities of a prompt "
        "(echo), which an answer needs; vLLM does, and llama.cpp's server does not"
    )


def not_the_protocol(model: str, response: Any, text: str) -> ModelError:
    """The error for a response that is none of OpenAI's protocol."""
    return ModelError(
        f"{model} returned {quote_text(str(response))} for {quote_text(text)}, which has no "
        '"choices" as the protocol of OpenAI has them: check the address'
    )


def _says(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text.lower() for word in words)


def seconds_to_wait(header: str | None, now: datetime) -> float | None:
    """What ``Retry-After`` asks for, as seconds or as a date; None where it asks for nothing."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - now).total_seconds())
    except (ValueError, OverflowError):
        return None


def own_words(body: bytes) -> str:
    """The message of an error, in whichever of the usual places it stands."""
    try:
        found = parse_json(body)
    except Unreadable:
        return " ".join(body.decode("utf-8", errors="replace").split())
    for _ in range(3):
        if isinstance(found, dict):
            found = _first(found, ("error", "message", "detail", "msg"))
        elif isinstance(found, list) and found:
            found = found[0]
    return " ".join(str(found).split())


def _first(found: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in found:
            return found[name]
    return found
