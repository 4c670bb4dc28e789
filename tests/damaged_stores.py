"""Stores with jobs and results in them, made without a model, and damage to their pages."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from slalom_xai.app.store.file import Store
from slalom_xai.app.store.jobs import Bound, Jobs
from slalom_xai.app.store.results import Result, as_json

SETTINGS = as_json(
    {
        "method": "slalom",
        "granularity": "token",
        "target": None,
        "removal": "delete",
        "budget": None,
        "seed": 0,
    }
)
MODEL = Bound("none", "nowhere", "f")
PAGE = 4096  # bytes


def filled(path: Path, count: int = 40) -> list[str]:
    """Makes a store of many pages, one file without a log beside it; the keys of its results."""
    store = Store(path)
    jobs = Jobs(store)
    keys = []
    for number in range(count):
        keys.append(f"{number:032x}")
        text = f"Film number {number}. " * 60
        job = jobs.add(MODEL, text, None, SETTINGS, most=10 * count)
        jobs.claim(MODEL, "w", 1)
        content = as_json({"text": text, "numbers": [number * 0.7**k for k in range(300)]})
        known = (keys[-1], "none", "f", SETTINGS, "9 calls", 9, 0.5, "good", 0.9, None)
        jobs.finish(job, Result(*known, content, content))
    store.connection.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return keys


def with_damaged_page(path: Path, number: int) -> None:
    """Overwrites the beginning of a page, counted from 0."""
    content = bytearray(path.read_bytes())
    start = number * PAGE
    content[start : start + 64] = b"\xa5" * 64
    path.write_bytes(content)
