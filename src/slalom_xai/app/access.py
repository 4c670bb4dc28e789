"""Who may ask: by which name, from which site, with which token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

_YEAR = 31_536_000  # seconds


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

    def knows(self, name: str) -> bool:
        """Whether this server goes by a name."""
        return name in self.hosts | self.proxied or (self.numbers and _is_number(name))

    def is_own_page(self, origin: str, host: str) -> bool:
        """Whether a request comes from the page of this server.

        Args:
            origin: the header, such as "http://localhost:8765".
            host: the header, such as "localhost:8765".
        """
        place = origin.lower().partition("://")[2]
        return place == host.strip().lower() or host_name(place) in self.proxied

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def has_token(self, headers: dict[str, str]) -> bool:
        """Whether a request brings the token, as a bearer token or as the cookie."""
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(bearer.strip()):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie_name)
        except CookieError:
            return False
        return found is not None and self.is_token(found.value)

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


def host_name(host: str) -> str:
    """A host without its port, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):  # an IPv6 address
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
