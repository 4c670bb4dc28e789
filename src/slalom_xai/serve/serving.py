"""Opens the port and serves until told to stop."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import re
import secrets
import socket
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import urlencode

from platformdirs import user_data_path
from uvicorn.protocols.http.h11_impl import H11Protocol

from slalom_xai.errors import InputError
from slalom_xai.serve import logs
from slalom_xai.serve.guard import Access, host_name
from slalom_xai.serve.service import Service

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_EVERYWHERE = ("0.0.0.0", "::")
_STILL = 5  # seconds that a connection may stay open without a request
_FAREWELL = 3  # seconds that requests have when the server stops
_BACKLOG = 256  # connections that wait to be taken
_TOKEN = re.compile(r"[A-Za-z0-9_.~-]{8,200}")


@dataclass(frozen=True)
class Address:
    """Where the server listens.

    Attributes:
        host: name or number of the network interface.
        port: 0: any free one.
        base_path: what a proxy puts before every path.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    base_path: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def access(address: Address, token: str | None, allowed: list[str]) -> Access:
    """Who may ask: off the loopback interface, only those who know a token.

    Args:
        address: where the server listens.
        token: as given; None where none was.
        allowed: other names of this server.

    Raises:
        InputError: the token, or another name, cannot be one.
    """
    if token is not None and not _TOKEN.fullmatch(token):
        raise InputError(
            f"the token has {len(token)} characters: "
            "give 8 to 200 letters, digits, points, hyphens and underscores"
        )
    if token is None and not address.is_local:
        token = secrets.token_urlsafe(24)
    hosts = set(LOOPBACK)
    if address.host in _EVERYWHERE:
        hosts.add(socket.gethostname().lower())
    else:
        hosts.add(host_name(_bracket(address.host)) or address.host)
    return Access(
        frozenset(hosts),
        frozenset(map(_check_allowed_host, allowed)),
        numbers=address.host in _EVERYWHERE,
        token=token,
        base_path=address.base_path,
    )


def _check_allowed_host(given: str) -> str:
    """A name as it stands in requests, without its port."""
    name = host_name(_bracket(given))
    if name is None:
        raise InputError(
            f"--allow-host is {given!r}: give a name or a number without scheme, port and path, "
            "such as explain.example.org"
        )
    return name


def default_store() -> Path:
    """Where jobs and results are kept unless told otherwise."""
    return user_data_path("slalom-xai", appauthor=False) / "serve.sqlite"


def open_port(address: Address) -> socket.socket:
    """An open port.

    Raises:
        InputError: it is taken, or the host is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((address.host.strip("[]"), address.port))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {address.port} is in use: "
                "give another with --port, or --port 0 for a free one"
            ) from error
        raise InputError(
            f"cannot listen on {address.host}, port {address.port}: {error.strerror or error}; "
            "give another --host or --port"
        ) from error
    return found


def serve(
    service: Service, address: Address, port: socket.socket, *, open_page: bool, out: TextIO
) -> None:
    """Serves until it is interrupted or terminated."""
    import uvicorn

    from slalom_xai.serve.server import application

    tab = None if service.folder is None else "folder"
    place = page_address(service.access, address, port.getsockname()[1], tab)

    class Server(uvicorn.Server):
        """Says where it is, and tells the service of the end before it waits for connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            out.write(_greeting(place, address, service))
            out.flush()
            if open_page:
                webbrowser.open(place)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.end_soon()
            await super().shutdown(sockets)

    logs.set_up()
    config = uvicorn.Config(
        application(service),
        http=make_timed_protocol(service.limits.head_seconds),
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=service.limits.connections,
        timeout_keep_alive=_STILL,
        timeout_graceful_shutdown=_FAREWELL,
    )
    Server(config).run(sockets=[port])


def page_address(access: Access, address: Address, port: int, tab: str | None = None) -> str:
    """What to type into a browser.

    Args:
        access: who may ask.
        address: where the server listens.
        port: that it got.
        tab: of the page; None: the first.
    """
    host = "localhost" if address.host in _EVERYWHERE else _bracket(address.host)
    asked = {"token": access.token, "tab": tab}
    query = urlencode({name: said for name, said in asked.items() if said is not None})
    return f"http://{host}:{port}{address.base_path}/{'?' if query else ''}{query}"


def _greeting(place: str, address: Address, service: Service) -> str:
    lines = [f"Slalom serves {place}"]
    if address.host in _EVERYWHERE:
        lines.append("From other machines, use the name or number of this one, not localhost.")
    lines.append(f"Ctrl-C stops it; jobs and results stay in {service.store.path}")
    return "\n".join(lines) + "\n"


def _bracket(host: str) -> str:
    host = host.lower().strip("[]")
    return f"[{host}]" if ":" in host else host


# Connections that must say what they want in time.
#
# uvicorn waits for ever for the first line and the headers of a request, so that a few hundred
# slow connections would keep everybody else out.


def make_timed_protocol(seconds: float) -> type[H11Protocol]:
    """A protocol that closes connections whose requests do not begin in time.

    Args:
        seconds: from the first byte, or from the beginning of the connection, to the end of the
            headers.
    """

    class Timed(H11Protocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop_waiting()
            elif self.cycle is None or self.cycle.response_complete:
                self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _expect(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Timed
