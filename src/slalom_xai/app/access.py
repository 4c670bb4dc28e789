"""Who may ask: by which name, from which site, with which token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass

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
