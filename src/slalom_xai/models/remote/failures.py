"""What went wrong with a request: whether to try again, and how to say it in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from slalom_xai.errors import ModelError, ServiceError, shortened
from slalom_xai.models.remote.receiving import Unreadable, parsed

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
        reason = f"status {self.status}{self._quoted()}"
        busy = self.status == 429
        return Failed(reason, wait=wait, billed=self.status >= 500, busy=busy)

    def error(self) -> ModelError:
        """The error, where trying again does not help."""
        said = self._quoted()
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
            where = shortened(self.headers.get("location", "nowhere"))
            return ServiceError(f"{self.model} has moved to {where}: give that address")
        return ModelError(f"{self.model} refused the request (status {self.status}){said}")

    def _refuses_echo(self) -> bool:
        return _ECHO.search(self.said) is not None

    def _says(self, words: tuple[str, ...]) -> bool:
        return _says(self.said, words)

    def _quoted(self) -> str:
        return f" (it says {shortened(self.said, 200)})" if self.said else ""


def cannot_score(model: str, said: str = "") -> ServiceError:
    """The error for a server that does not say how likely a given text is."""
    return ServiceError(
        f"{model} does not score given text{said}: it returns no log-probabilities of a prompt "
        "(echo), which an answer needs; vLLM does, and llama.cpp's server does not"
    )


def not_the_protocol(model: str, response: Any, text: str) -> ModelError:
    """The error for a response that is none of OpenAI's protocol."""
    return ModelError(
        f"{model} returned {shortened(str(response))} for {shortened(text)}, which has no "
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
        found = parsed(body)
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
