"""Stores with jobs and results in them, made without a model, and damage to their pages."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from slalom_xai.serve.store.file import Store, as_json

SETTINGS = as_json(
    {
        "method": "slalom",
        "granularity": "word",
        "target": None,
        "removal": "auto",
        "budget": None,
        "seed": 0,
    }
)
PAGE = 4096  # bytes
STATES = ("done", "done", "queued", "failed", "cancelled")


def filled(path: Path, count: int = 40) -> list[str]:
    """Makes a store of many pages, one file without a log beside it; the keys of its results."""
    Store(path).connection.close()
    keys = [f"{number:032x}" for number in range(count)]
    with closing(sqlite3.connect(path)) as connection:
        for number, key in enumerate(keys):
            text = f"Film number {number}. " * 60
            content = {"text": text, "text_pair": None, "model": "none"}
            content["numbers"] = [number * 0.7**k for k in range(300)]
            packed = zlib.compress(json.dumps(content).encode(), 3)
            connection.execute(
                "INSERT INTO explanations (key, created, model, settings, summary, calls, "
                "prediction, file, view) VALUES (?, 1.0, 'none', ?, '9 calls', 9, 0.5, ?, ?)",
                (key, SETTINGS, packed, packed),
            )
            state = STATES[number % len(STATES)]
            known = (key, 0.5) if state == "done" else (None, None)
            connection.execute(
                "INSERT INTO jobs (model, settings, text, state, created, key, prediction) "
                "VALUES ('none', ?, ?, ?, 1.0, ?, ?)",
                (SETTINGS, text, state, *known),
            )
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return keys


def with_damaged_page(path: Path, number: int) -> None:
    """Overwrites the beginning of a page, counted from 0."""
    content = bytearray(path.read_bytes())
    start = number * PAGE
    content[start : start + 64] = b"\xa5" * 64
    path.write_bytes(content)
