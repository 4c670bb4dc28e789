"""Cases of kind ``door``: odd cookies, hostile hosts and origins at the server's guard."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

import numpy as np
from loops import run_apart

from fuzz.cases import Outcome
from slalom_xai.serve.guard import Access, Guard
from slalom_xai.serve.work.spec import Limits

TOKEN = "a-token-of-the-fuzz"
HOSTS = ("localhost", "127.0.0.1", "[::1]")
PROXIED = "explain.example.org"
ACCESS = Access(frozenset(HOSTS), frozenset({PROXIED}), token=TOKEN, base_path="/slalom")
EVIL = ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]", "192.0.2.7", "")
# What hostile values are put together from.
PIECES = (
    *(
        "@",
        ":",
        "::",
        ":80",
        ":8765",
        ":99999",
        ":x",
        ".",
        "..",
        "/",
        "//",
        "\\",
        "?",
        "#",
        "[",
        "]",
    ),
    *(
        " ",
        "\t",
        ",",
        ";",
        "%00",
        "%40",
        "\x00",
        "\x7f",
        "\xe4",
        "\xc3\xb6",
        "user:pass@",
        "http://",
    ),
    *("https://", "evil://", "file://", "null", "-", "_", "0", "%lo", *EVIL, *HOSTS, PROXIED),
)
CHARACTERS = " \t\"'()[]{}<>@,:\\/?=%\x00\x01\x7f\x80\xc3\xb6\xe4\xffabc123$&*~|^`"
# What is ours, by its letters: a name, perhaps with its last point, perhaps with a port.
OURS = re.compile(
    r"(?:(?:localhost|127\.0\.0\.1|explain\.example\.org)\.?|\[([0-9a-f:.]+)\])(?::(\d{1,5}))?",
    re.I | re.A,
)


async def _fine(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def sent(
    method: str, path: str, query: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """What the guard lets through or answers: status, headers and body."""
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    given = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    guard = Guard(_fine, ACCESS, Limits(), log_texts=False)
    run_apart(guard({**scope, "headers": given, "scheme": "http"}, receive, send))
    found = {name.decode(): value.decode("latin-1") for name, value in messages[0]["headers"]}
    return messages[0]["status"], found, messages[-1]["body"]


def run(seed: int, outcome: Outcome) -> None:
    """Several requests of each sort: what is ours comes in, and nothing else does."""
    rng = np.random.default_rng([8, seed])
    for _ in range(10):
        for check in (_cookies, _host, _origin, _address):
            outcome.counts["requests at the door"] += 1
            told, problem = check(rng)
            outcome.told += f"{told}\n"
            if problem:
                outcome.problems.append(f"door, {problem}: {told}")


def _pick(rng: np.random.Generator, choices: Any) -> str:
    return str(choices[int(rng.integers(len(choices)))])


def _junk(rng: np.random.Generator, longest: int = 12) -> str:
    return "".join(_pick(rng, CHARACTERS) for _ in range(int(rng.integers(longest))))


def _cookies(rng: np.random.Generator) -> tuple[str, str | None]:
    """Our cookie among those of other programs lets its owner in; those of others let nobody in."""
    own = ACCESS.cookie(https=False).partition(";")[0]
    others = [f"{_junk(rng)}{_pick(rng, ('=', '', ' = '))}{_junk(rng)}" for _ in range(3)]
    place, ours = int(rng.integers(4)), bool(rng.random() < 0.7)
    cookies = [*others[:place], *([own] if ours else []), *others[place:]]
    header = _pick(rng, ("; ", ";")).join(cookies)
    status, _, body = sent("GET", "/api/models", host="localhost", cookie=header)
    told = f"cookies {header!r} gave {status}"
    if status != (200 if ours else 401):
        return told, "the user is locked out" if ours else "cookies of others let in"
    return told, _not_a_line(status, body)


def _name(rng: np.random.Generator) -> str:
    """A host: ours, or one that is made to look like ours."""
    name = _pick(rng, (*HOSTS, PROXIED, *EVIL))
    for _ in range(int(rng.integers(4))):
        piece = _pick(rng, PIECES)
        place = _pick(rng, ("before", "after", "after", "within"))
        cut = int(rng.integers(len(name) + 1)) if place == "within" else 0
        if place == "after":
            name += piece
        else:
            name = name[:cut] + piece + name[cut:]
    return name.upper() if rng.random() < 0.2 else name


def _is_ours(host: str) -> bool:
    found = OURS.fullmatch(host)
    if found is None or int(found[2] or 0) > 65535:
        return False
    try:
        return found[1] is None or ipaddress.IPv6Address(found[1]).is_loopback
    except ValueError:
        return False


def _host(rng: np.random.Generator) -> tuple[str, str | None]:
    host = _name(rng)
    status, _, body = sent("GET", "/healthz", host=host)
    told = f"Host {host!r} gave {status}"
    if status == 200 and not _is_ours(host):
        return told, "a host that is not ours is let in"
    if status != 200 and _is_ours(host):
        return told, "a host that is ours is refused"
    return told, _not_a_line(status, body)


def _origin(rng: np.random.Generator) -> tuple[str, str | None]:
    """A request that changes something comes from our page, whose address is known to a letter."""
    host = f"{_pick(rng, HOSTS)}:8765"
    near = _pick(rng, (host, PROXIED, _name(rng)))
    origin = _pick(rng, ("http://", "https://", "evil://", "", "//", "HTTP://", "http:/")) + near
    if rng.random() < 0.3:
        origin += _pick(rng, PIECES)
    bearer = f"Bearer {TOKEN}"
    status, _, body = sent("POST", "/api/jobs", host=host, origin=origin, authorization=bearer)
    scheme, _, place = origin.lower().partition("://")
    proxied = _is_ours(place) and place.startswith(PROXIED)
    own = scheme in ("http", "https") and (place == host or proxied)
    told = f"Origin {origin!r} to Host {host!r} gave {status}"
    if (status == 200) != own:
        return told, "our own page is refused" if own else "another site is let in"
    return told, _not_a_line(status, body)


def _address(rng: np.random.Generator) -> tuple[str, str | None]:
    """The address with the token in it leads to the cookie, with or without its last slash."""
    more = _pick(
        rng, ("", "&tab=history", "&text=a%26b", "&token=wrong", "&x=%0d%0aSet-Cookie:%20y")
    )
    path, query = _pick(rng, ("/slalom", "/slalom/", "/")), f"token={TOKEN}{more}"
    for _ in range(2):
        status, headers, _ = sent("GET", path, query, host="localhost")
        if status != 303 or "set-cookie" in headers:
            break
        path, _, query = headers["location"].partition("?")
    told = f"the address with {query!r} gave {status}"
    if status != 303 or TOKEN not in headers.get("set-cookie", ""):
        return told, "the token is lost on the way"
    return told, None


def _not_a_line(status: int, body: bytes) -> str | None:
    """Whether a refusal is anything but one line of JSON."""
    if status == 200:
        return None
    try:
        (line,) = json.loads(body).values()
    except ValueError:
        return "a refusal is not JSON"
    return None if len(str(line).splitlines()) == 1 and len(line) < 400 else "a refusal is no line"
