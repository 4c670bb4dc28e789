"""Who may ask, from where, and how much: everything that is checked before a request is read.

- The Host must be one of the server's names. Another name that points to this machine (DNS
  rebinding) is refused.
- A request that changes something must come from the page itself: its Origin is the Host.
- Where there is a token, every request but the sign of life must bring it: as a bearer token, as
  the cookie, or once in the page's address, which sets the cookie and is then taken out of it.
- Bodies are JSON, of a bounded size, and arrive in bounded time.

Every answer gets the headers that keep a browser strict, and whatever goes wrong is told in one
line, without paths or traces.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from slalom_xai.serve import logs
from slalom_xai.serve.work.spec import Limits

# Who may ask: by which name, from which site, with which token.


_YEAR = 31_536_000  # seconds
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+?)\.?)(?::([0-9]{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"https?://(.+)", re.ASCII)
_LAST_PORT = 65_535


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        hosts: names of this server, in lower case and without ports.
        proxied: names that a proxy has for this server, which may be other than the Host it sends.
        numbers: whether any number (IP address) may stand for the name, which no other site can
            point to this machine.
        token: what every visitor must know; None: nobody is asked for one.
        base_path: what a proxy may leave before every path.
    """

    hosts: frozenset[str]
    proxied: frozenset[str] = frozenset()
    numbers: bool = False
    token: str | None = None
    base_path: str = ""

    def knows(self, host: str) -> bool:
        """Whether this server goes by the name in a header Host."""
        name = host_name(host)
        if name is None:
            return False
        return name in self.hosts | self.proxied or (self.numbers and _is_number(name))

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a request comes from the page of this server.

        Args:
            origin: the header, such as "http://localhost:8765".
            host: the header, such as "localhost:8765".
        """
        place = _ORIGIN.fullmatch(origin.lower())
        if place is None:
            return False
        name = host_name(place[1])
        return name is not None and (place[1] == host.lower() or name in self.proxied)

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def has_token(self, headers: dict[str, str]) -> bool:
        """Whether a request brings the token, as a bearer token or as the cookie."""
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(bearer.strip()):
            return True
        # Each cookie by itself: other programs on this machine set some that no parser takes.
        pairs = (cookie.partition("=") for cookie in headers.get("cookie", "").split(";"))
        return any(
            name.strip() == self._cookie_name and self.is_token(value.strip())
            for name, _, value in pairs
        )

    def cookie(self, *, https: bool) -> str:
        """The cookie that keeps the token.

        A browser sends it along with links from elsewhere, so that these open; nothing changes by
        following a link.
        """
        place = self.base_path or "/"
        kept = f"{self._cookie_name}={self.token}; HttpOnly; SameSite=Lax; Path={place}"
        return f"{kept}; Max-Age={_YEAR}{'; Secure' if https else ''}"

    @property
    def _cookie_name(self) -> str:
        """Servers on other ports of this machine have others."""
        return "slalom_" + hashlib.sha256((self.token or "").encode()).hexdigest()[:8]


def host_name(host: str) -> str | None:
    """A host without its port, in lower case; None where it is not a host with perhaps a port."""
    found = _HOST.fullmatch(host.lower())
    if found is None or int(found[3] or 0) > _LAST_PORT:
        return None
    number, name, _ = found.groups()
    if number is None:
        return str(name)
    try:
        return f"[{ipaddress.IPv6Address(number)}]"
    except ValueError:
        return None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


# Who may ask, from where, and how much: everything that is checked before a request is read.


log = logging.getLogger("slalom.serve")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz",)  # what is told to everybody
FAULT = "an error in slalom-xai itself; the server's log has more"
_PAGE = "/"
_SAFE = ("GET", "HEAD")
_ONCE = ("host", "origin", "authorization")  # headers that mean nothing twice
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class _Refusal(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """Checks requests before the application sees them, and adds headers to its answers.

    Args:
        app: the application.
        access: who may ask.
        limits: how much.
        log_texts: whether the log may quote what visitors write.
    """

    def __init__(self, app: App, access: Access, limits: Limits, *, log_texts: bool) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._log_texts = log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with_headers(message["headers"])
            await send(message)

        try:
            await self._handle(scope, receive, answer)
        except _Refusal as refusal:
            await _refuse(refusal, answer)
        except Exception as error:
            shown = logs.trace(error, texts=self._log_texts)
            log.error("%s %s failed: %s", scope["method"], ascii(scope["path"]), shown)
            if not started:
                await _refuse(_Refusal(500, FAULT), answer)

    async def _handle(self, scope: Scope, receive: Receive, answer: Send) -> None:
        headers = _headers(scope)
        self._check_host(headers)
        self._check_origin(scope, headers)
        base = self._access.base_path
        if base and scope["path"] == base and scope["method"] in _SAFE:
            query = scope["query_string"].decode("latin-1")  # the token may be in it
            return await _move(f"{base}/{'?' if query else ''}{query}", answer)
        if base and scope["path"].startswith(f"{base}/"):
            scope = {**scope, "path": scope["path"][len(base) :]}
        if scope["path"] not in OPEN and await self._check_token(scope, headers, answer):
            return
        body = await self._body(scope, headers, receive)
        await self._app(scope, _again(body, receive), answer)

    def _check_host(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self._access.knows(host):
            raise _Refusal(
                421,
                f"this server is not called {host[:100]!r}: "
                "open it by a name that it was given with --allow-host",
            )

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        """A page of another site may neither change anything nor read answers by a trick."""
        if scope["method"] in _SAFE:
            return
        origin = headers.get("origin")
        other = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if origin is not None:
            other = other or not self._access.is_own_page(origin, headers["host"])
        if other:
            raise _Refusal(403, "this request comes from another site: use the page of this server")

    async def _check_token(self, scope: Scope, headers: dict[str, str], answer: Send) -> bool:
        """Whether the request is answered already: by the address without the token in it."""
        if self._access.token is None:
            return False
        if scope["path"] == _PAGE and scope["method"] == "GET":
            asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if any(name == "token" and self._access.is_token(value) for name, value in asked):
                rest = urlencode([(name, value) for name, value in asked if name != "token"])
                https = headers.get("x-forwarded-proto", scope.get("scheme")) == "https"
                place = f"./?{rest}" if rest else "./"
                await _move(place, answer, self._access.cookie(https=https))
                return True
        if self._access.has_token(headers):
            return False
        raise _Refusal(
            401,
            "this server asks for a token: open the address that slalom serve printed, "
            "or send the header Authorization: Bearer TOKEN",
        )

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        """The whole body, where it is small enough and comes in time."""
        if scope["method"] in _SAFE:
            return b""
        most = self._limits.body
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise _too_large(most)
        try:
            body = await asyncio.wait_for(_read(receive, most), self._limits.body_seconds)
        except TimeoutError as error:
            raise _Refusal(408, "the request took too long to arrive: send it again") from error
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            raise _Refusal(
                415, f"the body is {kind[:60]!r}: send JSON, as Content-Type: application/json"
            )
        return body


def _headers(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key in _ONCE and key in found:
            raise _Refusal(400, f"the request has the header {key} twice: send it once")
        if key == "cookie" and key in found:
            text = f"{found[key]}; {text}"
        found[key] = text
    return found


def _with_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with those that every answer has."""
    own = {name.lower() for name, _ in headers}
    added = [
        (name.encode(), value.encode())
        for name, value in HEADERS.items()
        if name.encode() not in own
    ]
    return [*headers, *added]


async def _read(receive: Receive, most: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refusal(400, "the request was cut off: send it again")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(most: int) -> _Refusal:
    return _Refusal(413, f"the request is larger than {most:,} bytes: send a shorter text")


def _again(body: bytes, receive: Receive) -> Receive:
    """Hands out a body that was read already, and then what else comes."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _move(place: str, answer: Send, cookie: str | None = None) -> None:
    """Sends a browser to another address, perhaps with a cookie to keep."""
    headers = [(b"location", place.encode()), (b"content-length", b"0")]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    await answer({"type": "http.response.start", "status": 303, "headers": headers})
    await answer({"type": "http.response.body", "body": b""})


async def _refuse(refusal: _Refusal, answer: Send) -> None:
    body = json.dumps({"error": str(refusal)}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # the rest of its body is not read
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await answer({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await answer({"type": "http.response.body", "body": body})
