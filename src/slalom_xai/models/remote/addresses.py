"""Addresses of servers: checked before anything is sent there."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from slalom_xai.errors import InputError, one_of, shortened

_HERE = ("localhost", "127.0.0.1", "::1")
_PATHS = {"chat": "/chat/completions", "completions": "/completions"}  # of OpenAI's protocol


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


def endpoint(url: str, kind: str | None) -> tuple[str, str]:
    """The address of an endpoint of OpenAI's protocol, and its kind.

    Args:
        url: of the server, with the path of the endpoint or without.
        kind: "chat" or "completions"; None: as the address ends, else "chat".
    """
    if kind is not None and kind not in _PATHS:
        raise one_of("kind", kind, _PATHS)
    parts = checked_address(url)
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
