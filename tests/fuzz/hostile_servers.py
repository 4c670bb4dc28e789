"""What a server of a model may send to do harm, drawn at random: cases of kind ``api``."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable
from typing import Any

import numpy as np
from hostile_api import Sent, bomb, escaped

from fuzz.mutations import damaged, damaged_bytes

BOMB = 300 * 2**20  # bytes, unpacked
PAUSE = 0.05  # seconds between two bytes: none is late, and all together are
COUNTS: list[Any] = [
    -(10**9), -1, 0, True, False, 10**9, 2**63, 10**400, 0.5, -1e308, math.nan, None, "7", [],
]  # fmt: skip
LOGS: list[Any] = [
    1000, 10**4000, -(10**4000), 710.0, 0.02, 1e308, math.inf, -math.inf, math.nan, True, None,
    "0", -8999.9, -1e300, [],
]  # fmt: skip
PLACE = "@place@"
HEADERS = [
    {"Content-Type": "application/json; charset=zlib"},
    {"Content-Type": "application/json; charset=utf-7"},
    {"Content-Type": "\xff"},
    {"Content-Encoding": "br"},
    {"Content-Encoding": "gzip, gzip"},
    {"Content-Length": "7"},
    {"Content-Length": "99999"},
    {"Content-Length": "-1"},
    {"Transfer-Encoding": "chunked"},
    {"Retry-After": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"},
    {"Retry-After": "-9" * 2000},
    {"Retry-After": "1e400"},
    {"Location": "http://[::1"},
    {"Set-Cookie": "a=b; Max-Age=99999999999999999999999"},
    {"X": "x" * 70_000},
]
STATUSES = [200, 200, 200, 204, 302, 400, 401, 404, 408, 413, 429, 500, 503]


def drawn_key(rng: np.random.Generator) -> str:
    """A key as servers hand them out."""
    letters = list(string.ascii_letters + string.digits + "-_/+=")
    return "sk-" + "".join(rng.choice(letters, size=int(rng.integers(20, 60))))


def usage(rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """Tokens that cannot have been read or written."""
    counts = [COUNTS[place] for place in rng.integers(len(COUNTS), size=2)]
    said = {"prompt_tokens": counts[0], "completion_tokens": counts[1]}
    if rng.random() < 0.3:
        said = {"prompt_tokens": counts[0]}
    if rng.random() < 0.2:  # a name that stands there twice
        twice = json.dumps(answer)[:-1] + f', "usage": {json.dumps(said)}' + json.dumps(answer)[-1]
        return Sent(twice.encode())
    return Sent.of({**answer, "usage": said} if isinstance(answer, dict) else answer)


def numbers(rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """Log-probabilities and scores that are none."""
    log, share = LOGS[int(rng.integers(len(LOGS)))], float(rng.choice([0.2, 1.0]))
    return Sent.of(_with(answer, lambda: rng.random() < share, log))


def _with(node: Any, chosen: Callable[[], bool], log: Any) -> Any:
    if isinstance(node, dict):
        return {name: _with(each, chosen, log) for name, each in node.items()}
    if isinstance(node, list):
        return [_with(each, chosen, log) for each in node]
    return log if isinstance(node, float) and chosen() else node


def damage(rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """JSON with changes, or bytes that are cut and changed."""
    return Sent(damaged(rng, answer), _status(rng))


def brackets(rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """Brackets in brackets, closed or not, somewhere or everywhere."""
    depth = int(rng.choice([300, 900, 5000, 300_000]))
    opening, closing = (b"[", b"]") if rng.random() < 0.5 else (b'{"a":', b"}")
    nested = opening * depth + b"1" + closing * (depth if rng.random() < 0.7 else 0)
    if rng.random() < 0.5 and isinstance(answer, dict):
        whole = json.dumps({**answer, "usage": PLACE}).encode()
        nested = whole.replace(f'"{PLACE}"'.encode(), nested)
    return Sent(nested, _status(rng))


def packed(rng: np.random.Generator, answer: Any, key: str) -> Sent:
    """gzip that is damaged, or none at all."""
    sent = Sent.of({"answer": answer, "key": key}).packed()
    body = key.encode() if rng.random() < 0.3 else damaged_bytes(rng, sent.body)
    return Sent(body, _status(rng), sent.headers)


def bombs(rng: np.random.Generator, _answer: Any, _key: str) -> Sent:
    """Few bytes that become very many."""
    sent = bomb(BOMB, int(rng.integers(1, 3)))
    return Sent(sent.body, _status(rng), sent.headers)


def drips(_rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """A sound answer, a byte at a time."""
    return Sent.of(answer, pause=PAUSE)


def headers(rng: np.random.Generator, answer: Any, _key: str) -> Sent:
    """Odd headers."""
    chosen = HEADERS[int(rng.integers(len(HEADERS)))]
    return Sent(json.dumps(answer).encode(), _status(rng), chosen)


def echoes(rng: np.random.Generator, answer: Any, key: str) -> Sent:
    """The key, or a part of it, in an error, an answer or a header, spelled in several ways."""
    part = key if rng.random() < 0.5 else key[: int(rng.integers(10, len(key)))]
    cut = int(rng.integers(len(part)))
    spelled = [part, escaped(part), escaped(part[:cut]) + part[cut:]][int(rng.integers(3))]
    said = f"{'x' * int(rng.integers(60))} {spelled} "
    bodies = [
        f'{{"error": {{"message": "{said}"}}}}',
        f'{{"detail": [{{"msg": "{said}"}}]}}',
        f'{{"{said}": "{said}"}}',
        f'{{"choices": [{{"message": "{said}',
        said,
        json.dumps(answer).replace('"content": "', f'"content": "1 {said}'),
        json.dumps(answer).replace('"text": "', f'"text": "1 {said}'),
        json.dumps(answer).replace('"choices"', f'"error": "{said}", "choices"'),
    ]
    return Sent(bodies[int(rng.integers(len(bodies)))].encode(), _status(rng), {"Location": said})


def _status(rng: np.random.Generator) -> int:
    return STATUSES[int(rng.integers(len(STATUSES)))]


Harm = Callable[[np.random.Generator, Any, str], Sent]
HARMS: tuple[Harm, ...] = (
    usage, usage, numbers, numbers, damage, damage, brackets, packed, bombs, drips, headers, echoes,
    echoes, echoes,
)  # fmt: skip
