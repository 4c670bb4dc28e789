"""Sends one request and gets its JSON back, however often that takes."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeGuard

import httpx
import stamina

from slalom_xai.errors import ServiceError, quote_text
from slalom_xai.models.remote.failures import (
    PACKED,
    Failed,
    Refusal,
    Unreadable,
    Unusable,
    own_words,
    parse_json,
    read,
)
from slalom_xai.models.remote.settings import Connection, EnvironmentKey
from slalom_xai.models.remote.spending import Reservation, Spending

_LONGEST_MESSAGE = 100_000  # bytes of an error that are looked at
_SHOWN = 200  # characters of an error of the network in a message
_MOST_TOKENS = 10_000_000  # of one request: no model reads or writes more


class Pace:
    """Keeps requests apart, and holds all of them back while the server asks for a pause."""

    def __init__(self, rate: float | None) -> None:
        self._gap = 0.0 if rate is None else 60.0 / rate
        self._next = 0.0

    async def turn(self) -> None:
        """Waits until the next request may be sent."""
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._gap
        if start > now:
            await asyncio.sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Sends nothing for a while."""
        self._next = max(self._next, time.monotonic() + seconds)


class Tries:
    """The tries of one request: how many more there are.

    A server that only says that it is busy is asked again for as long as we have patience: that is
    how it makes many clients take turns.
    """

    def __init__(self, connection: Connection, pace: Pace) -> None:
        self._retries, self._patience = connection.retries, connection.waiting.patience
        self._pace = pace
        self._began = time.monotonic()
        self._failures = 0

    def before_the_next(self, error: Exception) -> bool | float:
        """Whether to try again, or the seconds to wait until then."""
        if not isinstance(error, Failed):
            return False
        self._failures += not error.busy
        if self._failures > self._retries or self._is_too_long(error):
            return False
        if error.wait is None:
            return True
        self._pace.pause(error.wait)
        return error.wait

    def final_error(self, failure: Failed, model: str) -> ServiceError:
        """The error after the last try."""
        if self._is_too_long(failure):
            asked = "" if failure.wait is None else f" and asks to wait {failure.wait:.0f} seconds"
            return ServiceError(
                f"{model} is busy{asked}, which takes more than {self._patience:.0f} seconds in "
                "all: run this again later, or ask for less at once"
            )
        return ServiceError(
            f"{model} did not answer in {self._failures} tries (the last time: {failure.reason}): "
            "see whether the server runs, and run this again"
        )

    def _is_too_long(self, failure: Failed) -> bool:
        wait = failure.wait or 0.0
        waited = time.monotonic() - self._began if failure.busy else 0.0
        return waited + wait > self._patience


class Sender:
    """Posts JSON to one address.

    Args:
        url: the address.
        name: of the model, for messages.
        connection: how to ask.
        key: what the server knows us by.
        spending: what it may cost.
        transport: takes the place of the network, in tests.
    """

    def __init__(
        self,
        url: str,
        name: str,
        connection: Connection,
        key: EnvironmentKey,
        spending: Spending,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._url, self._name = url, name
        self._connection, self._key, self._spending = connection, key, spending
        self._transport = transport
        self._pace = Pace(connection.rate)
        self._verify: ssl.SSLContext | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client for the requests of one round."""
        if self._verify is None:  # reading the certificates takes a while
            self._verify = httpx.create_ssl_context()
        limits = httpx.Limits(max_connections=self._connection.concurrency)
        seconds = self._connection.timeout
        async with httpx.AsyncClient(
            # Half for the connection: what fails there was not sent, and costs nothing.
            timeout=httpx.Timeout(seconds, connect=seconds / 2),
            headers={"Accept-Encoding": PACKED},
            limits=limits,
            transport=self._transport,
            verify=self._verify,
        ) as client:
            yield client

    async def post(
        self, client: httpx.AsyncClient, body: dict[str, Any], prompt: str, most_written: int
    ) -> Any:
        """The JSON that the server answers.

        Args:
            client: an open one.
            body: what is asked.
            prompt: all that the server reads of it.
            most_written: tokens that it may write.

        Raises:
            CapError: a cap is reached.
            ModelError: the server refuses this request.
            ServiceError: it does not answer at all.
        """
        waiting, failure = self._connection.waiting, Failed("nothing was sent")
        tries = Tries(self._connection, self._pace)
        attempts = stamina.retry_context(
            tries.before_the_next,
            attempts=None,
            timeout=None,
            wait_initial=waiting.first,
            wait_max=waiting.longest,
            wait_jitter=waiting.jitter,
        )
        try:
            async for attempt in attempts:
                with attempt:
                    self._spending.retries += attempt.num > 1
                    await self._pace.turn()
                    reserved = await self._spending.reserve(prompt, most_written)
                    return await self._try(client, body, reserved)
        except Failed as last:
            failure = last
        raise tries.final_error(failure, self._name)

    async def _try(
        self, client: httpx.AsyncClient, body: dict[str, Any], reserved: Reservation
    ) -> Any:
        """Sends a request once. Whatever happens, the reservation is settled or released."""
        outcome: Any = Failed("cancelled")  # by Ctrl-C; it may be billed
        try:
            outcome = await self._outcome(client, body)
        finally:
            self._account(outcome, reserved)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _account(self, outcome: Any, reserved: Reservation) -> None:
        if isinstance(outcome, (Failed, Unusable)) and outcome.billed:
            self._spending.settle(reserved, None)
        elif isinstance(outcome, Exception):
            self._spending.release(reserved)
        else:
            self._spending.settle(reserved, _usage(outcome))

    async def _outcome(self, client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
        """The JSON of an answer, or what went wrong.

        Errors are returned and not raised, so that none is raised while one of httpx is handled:
        those refer to the request, and the request to the key.
        """
        seconds, key = self._connection.timeout, self._key
        try:
            async with (
                asyncio.timeout(seconds),  # for all of it: those of httpx are for each read
                client.stream("POST", self._url, json=body, headers=key.headers()) as response,
            ):
                if not response.is_success:
                    return await self._refused(response)
                content = await read(response, self._connection.most_bytes)
        except TimeoutError:
            return Failed(f"no complete answer in {seconds:g} seconds")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return Failed(self._describe(error), billed=False)
        except httpx.RequestError as error:
            return Failed(self._describe(error))
        except Unreadable as error:
            return Failed(f"an answer that is {error}")
        return self._parse(content)

    def _parse(self, content: bytes) -> Any:
        """The JSON in an answer, without the key, or what is wrong with it."""
        most = self._connection.most_bytes
        if len(content) > most:
            return Unusable(
                f"{self._name} returned more than {most} bytes: check the address, or allow more "
                "with Connection(most_bytes=...)"
            )
        try:
            return self._key.without(parse_json(content))
        except RecursionError:
            return Failed("an answer that is JSON that is nested too deep")
        except Unreadable as error:
            text = self._key.hidden(content[:_LONGEST_MESSAGE].decode("utf-8", errors="replace"))
            return Failed(f"an answer that is {error}, {quote_text(text, 60)}")

    async def _refused(self, response: httpx.Response) -> Exception:
        """What a response that is no answer means."""
        variable = self._key.variable
        if variable is None:
            key = "no key was sent; name the environment variable that holds it"
        elif not self._key.is_set:
            key = f"the environment variable {variable} is not set; put the key there"
        else:
            key = f"check the key in the environment variable {variable}"
        try:
            content = await read(response, _LONGEST_MESSAGE)
        except Unreadable:
            content = b""  # the status says enough
        said = self._key.hidden(own_words(content))
        headers = {name.lower(): self._key.hidden(text) for name, text in response.headers.items()}
        refusal = Refusal(response.status_code, said, headers, self._name, key)
        return refusal.may_pass() or refusal.error()

    def _describe(self, error: Exception) -> str:
        said = " ".join(self._key.hidden(str(error)).split())[:_SHOWN]
        return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _usage(answer: Any) -> tuple[int, int] | None:
    """Tokens read and written, as most servers say; None where they say less, or nonsense."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if _is_count(read, 1) and _is_count(written, 0):  # no prompt has no token
        return read, written
    return None


def _is_count(given: Any, least: int) -> TypeGuard[int]:
    return type(given) is int and least <= given <= _MOST_TOKENS  # True and False are none
