"""Damage to JSON and to bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from fuzz.promises import MARKER

DEEP, HUGE, ENDLESS = "@deep@", "@huge@", "@endless@"  # what json cannot write, put in afterwards
STRINGS = [
    "",
    f"{MARKER}>",
    f"</script>{MARKER}>",
    f'" onload="x">{MARKER}>',
    f"</title></style>{MARKER} http-equiv='refresh' content='0;url=x'>",
    f"-->]]>{MARKER}>",
    "\x1b]0;owned\x07\x1b[2J",
    "\x00",
    "a\nb\r\nc\u2028d",
    "\ud800",
    "x" * 20_000,
    "\u202e\u2066abc",
    "[bold red]x[/]",
    "[/nothing]",
    "你好",
    "1",
    "{}",
    "%s%n",
    "token",
    "slalom",
]
NUMBERS: list[Any] = [
    0, 1, -1, 2, 7, 10**6, 2**31, 2**63, -(2**70), 10**400,
    0.0, -0.0, 0.5, -2.5, 1e-320, 1e100, 1e160, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), True, False, HUGE,
]  # fmt: skip
THINGS: list[Any] = [
    None,
    [],
    {},
    [[]],
    [None],
    [1],
    ["x"],
    {"a": 1},
    [[1.0], [2.0, 3.0]],
    DEEP,
    ENDLESS,
]


def damaged(rng: np.random.Generator, data: Any) -> bytes:
    """Valid data after some mutations, as bytes of a file; some are damaged bytewise, too."""
    way = rng.random()
    if way < 0.8:
        for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
            data = mutated(rng, data)
    content = _spelled(data)
    return content if way < 0.8 else damaged_bytes(rng, content)


def _spelled(data: Any) -> bytes:
    """JSON, with what the json module cannot write put in."""
    text = json.dumps(data, ensure_ascii=False)
    text = text.replace(f'"{DEEP}"', "[" * 200_000 + "]" * 200_000)
    text = text.replace(f'"{HUGE}"', "9" * 5000)
    text = text.replace(f'"{ENDLESS}"', '{"a":' * 100_000 + "1" + "}" * 100_000)
    return text.encode("utf-8", "surrogatepass")


def mutated(rng: np.random.Generator, data: Any) -> Any:
    """One change at a place that is found by walking down at random."""
    places: list[tuple[Any, Any]] = []
    node = data
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = keys[int(rng.integers(len(keys)))]
        places.append((node, key))
        node = node[key]
        if rng.random() < 0.25:
            break
    if not places or rng.random() < 0.01:
        return anything(rng)
    holder, key = places[-1]
    _CHANGES[int(rng.integers(len(_CHANGES)))](rng, holder, key)
    return data


def anything(rng: np.random.Generator) -> Any:
    """A value of any type; a copy, as later changes may go into it."""
    kind = (STRINGS, NUMBERS, THINGS)[int(rng.integers(3))]
    return deepcopy(kind[int(rng.integers(len(kind)))])


def _replace(rng: np.random.Generator, holder: Any, key: Any) -> None:
    holder[key] = anything(rng)


def _same_type(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """A hostile value of the type that stands there."""
    old = holder[key]
    if isinstance(old, str):
        holder[key] = STRINGS[int(rng.integers(len(STRINGS)))]
    elif isinstance(old, int | float):
        holder[key] = NUMBERS[int(rng.integers(len(NUMBERS)))]
    elif isinstance(old, list) and old:
        holder[key] = old[: int(rng.integers(len(old)))]
    else:
        holder[key] = anything(rng)


def _remove(_: np.random.Generator, holder: Any, key: Any) -> None:
    del holder[key]


def _double(_: np.random.Generator, holder: Any, key: Any) -> None:
    """Once more: another entry of a list, or a list around it."""
    if isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = [holder[key]]


def _rename(rng: np.random.Generator, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[STRINGS[int(rng.integers(len(STRINGS)))]] = holder.pop(key)
    else:
        holder.reverse()


def _add(rng: np.random.Generator, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[f"{key}x"] = anything(rng)
    else:
        holder.append(anything(rng))


def _swap(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """Two neighbours change places."""
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = keys[int(rng.integers(len(keys)))]
    holder[key], holder[other] = holder[other], holder[key]


def _scale(rng: np.random.Generator, holder: Any, key: Any) -> None:
    """Every number below, by a large or a small factor."""
    factor = float(rng.choice([-1, 0, 1e-200, 1e3, 1e150, 1e300]))
    holder[key] = _scaled(holder[key], factor)


def _scaled(node: Any, factor: float) -> Any:
    if isinstance(node, dict):
        return {key: _scaled(entry, factor) for key, entry in node.items()}
    if isinstance(node, list):
        return [_scaled(entry, factor) for entry in node]
    return node * factor if isinstance(node, float) else node


_CHANGES: tuple[Callable[[np.random.Generator, Any, Any], None], ...] = (
    _replace, _replace, _same_type, _same_type, _same_type,
    _remove, _double, _rename, _add, _swap, _scale,
)  # fmt: skip


def damaged_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """A file cut short, with bytes changed, put in or taken out, or in another encoding."""
    way = int(rng.integers(7))
    place = int(rng.integers(len(content) + 1))
    other = int(rng.integers(len(content) + 1))
    low, high = min(place, other), max(place, other)
    if way == 0:
        return content[:place]
    if way == 1:
        changed = bytearray(content)
        for spot in rng.integers(len(content), size=int(rng.integers(1, 6))) if content else ():
            changed[int(spot)] ^= 1 << int(rng.integers(8))
        return bytes(changed)
    if way == 2:
        return content[:place] + rng.bytes(int(rng.integers(1, 20))) + content[place:]
    if way == 3:
        return content[:low] + content[min(high, low + 200) :]
    if way == 4:
        return content[:low] + content[low : low + 100] * 2 + content[low + 100 :]
    if way == 5:
        return b"\xef\xbb\xbf" + content
    encoding = str(rng.choice(["utf-16", "utf-32", "latin-1", "cp1252"]))
    return content.decode("utf-8", "replace").encode(encoding, "replace")
