"""Addresses of servers: checked before anything is sent there."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from slalom_xai.errors import InputError, shortened

_HERE = ("localhost", "127.0.0.1", "::1")


def checked_address(url: str) -> SplitResult:
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
            f"the address is {shortened(str(url))}: give that of a server, "
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
