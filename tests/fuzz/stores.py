"""Cases of kind ``store``: the server on a store with damaged pages or contents."""

from __future__ import annotations

import functools
import logging
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from damaged_stores import PAGE, filled
from starlette.testclient import TestClient

from fuzz.cases import Outcome
from fuzz.mutations import STRINGS, anything
from fuzz.words import unclear
from slalom_xai.errors import InputError
from slalom_xai.serve.guard import Access
from slalom_xai.serve.server import application
from slalom_xai.serve.service import Service
from slalom_xai.serve.store.file import Store
from slalom_xai.serve.work.spec import WorkerSpec

ASK = {"model": "none", "text": "A fine film."}
FEW = 24  # jobs and results
LATER = 0.5  # of the cases: the damage comes when the store is open already
COLUMNS = {
    "jobs": ("settings", "text", "state", "key", "prediction", "model", "created", "id"),
    "explanations": ("settings", "file", "view", "summary", "calls", "model", "key"),
}


@functools.cache
def sound() -> tuple[bytes, tuple[str, ...]]:
    """The file of a store as it should be, and the keys in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        keys = filled(path, FEW)
        return path.read_bytes(), tuple(keys)


def damaged_pages(rng: np.random.Generator, content: bytes) -> tuple[str, bytes]:
    """The file after damage to its bytes, and what was done."""
    pages = len(content) // PAGE
    way = str(rng.choice(["heads", "bytes", "swap", "cut", "zeros", "noise"]))
    changed = bytearray(content)
    for page in rng.integers(pages, size=int(rng.integers(1, 5))):
        start = int(page) * PAGE
        other = int(rng.integers(pages)) * PAGE
        if way == "heads":
            changed[start + 100 * (start == 0) : start + 160] = rng.bytes(160 - 100 * (start == 0))
        elif way == "bytes":
            for spot in rng.integers(PAGE, size=8):
                changed[start + int(spot)] ^= 1 << int(rng.integers(8))
        elif way == "swap":
            changed[start : start + PAGE] = content[other : other + PAGE]
        elif way == "zeros":
            changed[start : start + PAGE] = bytes(PAGE)
        elif way == "noise":
            changed[start : start + PAGE] = rng.bytes(PAGE)
    if way == "cut":
        del changed[int(rng.integers(len(changed))) :]
    return way, bytes(changed)


def damage_contents(rng: np.random.Generator, path: Path) -> str:
    """Puts something else into a column, in some rows; what was done."""
    table = str(rng.choice(list(COLUMNS)))
    column = str(rng.choice(COLUMNS[table]))
    value = _storable(anything(rng)) if rng.random() < 0.7 else rng.bytes(int(rng.integers(40)))
    put = "CAST(? AS TEXT)" if rng.random() < 0.3 else "?"
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {put}", (value,))
            connection.commit()
        except sqlite3.Error:  # the column takes no such thing
            return "nothing"
    return f"{table}.{column} = {put} of {str(value)[:40]!r}"


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    return value if isinstance(value, int) and abs(value) < 2**63 else STRINGS[1]


def run(seed: int, outcome: Outcome) -> None:
    """Opens a damaged store: a clear line at once, or only JSON from then on."""
    logging.getLogger("slalom").setLevel(logging.CRITICAL)  # the traces of what is looked for
    rng = np.random.default_rng([7, seed])
    content, keys = sound()
    outcome.counts["stores"] += 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        path.write_bytes(content)
        opened = Store(path) if rng.random() < LATER else None
        if rng.random() < 0.6:
            way, changed = damaged_pages(rng, content)
            path.write_bytes(changed)
        else:
            way = damage_contents(rng, path)
        outcome.told = f"{way}, {'at the start' if opened is None else 'later'}"
        try:
            store = opened or Store(path)
        except InputError as error:
            outcome.told += f"\n  {error}"
            outcome.counts["stores refused"] += 1
            problem = unclear(error)
            outcome.problems += [f"store, {problem}: {str(error)[:250]!r}"] if problem else []
            return
        outcome.counts["stores served"] += 1
        if opened is None and not _hangs_together(path):
            outcome.problems.append(f"store, damaged pages are not found at the start: {way}")
        _ask_everything(store, keys, outcome)


def _hangs_together(path: Path) -> bool:
    """Whether SQLite finds nothing wrong with a file."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            return bool(connection.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok")
        except sqlite3.Error:
            return False


def _ask_everything(store: Store, keys: tuple[str, ...], outcome: Outcome) -> None:
    """Every answer is JSON or what it should be, and every error is one clear line."""
    spec = WorkerSpec("none", "nowhere", str(store.path))
    service = Service([spec], store, Access(frozenset({"testserver"})))
    paths = ["/api/jobs", "/api/jobs?limit=3&before=9", "/metrics", "/api/models"]
    paths += [f"/api/jobs/{number}{end}" for number in (1, 3, FEW) for end in ("", "/view")]
    paths += [
        f"/api/explanations/{key}{end}" for key in keys[::9] for end in ("", "/view", "/snippet")
    ]
    # Without its lifespan: no worker is started.
    client = TestClient(application(service), raise_server_exceptions=False)
    replies = [(path, client.get(path)) for path in paths]
    replies.append(("POST /api/jobs", client.post("/api/jobs", json=ASK)))
    replies.append(("DELETE /api/jobs/3", client.delete("/api/jobs/3")))
    for path, reply in replies:
        outcome.counts["requests to damaged stores"] += 1
        problem = _wrong(reply)
        if problem:
            outcome.problems.append(
                f"{problem}: {path} gave {reply.status_code} {reply.text[:80]!r}"
            )


def _wrong(reply: Any) -> str | None:
    """What is wrong with an answer."""
    if reply.status_code < 400:
        return None
    if reply.headers.get("content-type") != "application/json":
        return "store, an error is not told in JSON"
    line = reply.json().get("error", "")
    found = unclear(InputError(line)) if line else "no message"
    return f"store, {found}" if found else None
