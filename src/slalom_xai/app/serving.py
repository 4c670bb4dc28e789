"""Opens the port and serves until told to stop."""

from __future__ import annotations

import errno
import ipaddress
import logging
import secrets
import socket
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from slalom_xai.app.guard import Access
from slalom_xai.app.service import Service
from slalom_xai.errors import InputError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_STILL = 5  # seconds that a connection may stay open without a request
_FAREWELL = 3  # seconds that requests have when the server stops
_BACKLOG = 256  # connections that wait to be taken


@dataclass(frozen=True)
class Address:
    """Where the server listens.

    Attributes:
        host: name or number of the network interface.
        port: 0: any free one.
        base_path: what a proxy puts before every address.
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
    """Who may ask: off the loopback interface, only those who know a token."""
    hosts = set(LOOPBACK) | {name.lower() for name in allowed}
    if address.host not in ("0.0.0.0", "::"):
        hosts.add(_bracketed(address.host))
    if token is None and not address.is_local:
        token = secrets.token_urlsafe(24)
    return Access(frozenset(hosts), token)


def default_store() -> Path:
    """Where jobs and results are kept unless told otherwise."""
    return Path.home() / ".local" / "share" / "slalom-xai" / "serve.sqlite"


def listening(address: Address) -> socket.socket:
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
    except (OSError, OverflowError) as error:
        found.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise InputError(
                f"port {address.port} is in use: give another with --port, or --port 0 for a free one"
            ) from error
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {address.host}, port {address.port}: {reason}; "
            "give another --host or --port"
        ) from error
    return found


def serve(
    service: Service, address: Address, port: socket.socket, *, open_page: bool, out: TextIO
) -> None:
    """Serves until it is interrupted or terminated."""
    import uvicorn

    from slalom_xai.app.server import application

    class Server(uvicorn.Server):
        """Tells the service of the end before it waits for open connections."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            service.end_soon()
            await super().shutdown(sockets)

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    place = page_address(service.access, address, port.getsockname()[1])
    config = uvicorn.Config(
        application(service),
        log_config=None,
        log_level="warning",
        access_log=False,
        root_path=address.base_path,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_STILL,
        timeout_graceful_shutdown=_FAREWELL,
    )
    out.write(f"Slalom serves {place}\nCtrl-C stops it; jobs and results stay in {service.store.path}\n")
    out.flush()
    if open_page:
        threading.Timer(0.5, webbrowser.open, [place]).start()
    Server(config).run(sockets=[port])


def page_address(access: Access, address: Address, port: int) -> str:
    """What to type into a browser."""
    host = "localhost" if address.host in ("0.0.0.0", "::") else _bracketed(address.host)
    token = "" if access.token is None else f"?token={access.token}"
    return f"http://{host}:{port}{address.base_path}/{token}"


def _bracketed(host: str) -> str:
    host = host.lower().strip("[]")
    return f"[{host}]" if ":" in host else host
