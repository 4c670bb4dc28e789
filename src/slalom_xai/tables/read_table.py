"""Reads a table by the ending of its name."""

from __future__ import annotations

import hashlib
from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.tables.packing import JSON, PARQUET, unpacked
from slalom_xai.tables.records import read_json_records, read_parquet
from slalom_xai.tables.separated import SEPARATORS, read_separated
from slalom_xai.tables.table import Cells, Table


def read_table(path: str | Path) -> Table:
    """Reads a table by the ending of its name.

    Raises:
        InputError: the file is not there, damaged, or not what its name says.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; give a file with a table"
        ) from error
    kind, content = unpacked(path, raw)
    cells = _cells(path, content, kind)
    return Table(
        cells.fields,
        cells.rows,
        cells.numbers,
        cells.unit,
        path=path,
        sha256=hashlib.sha256(raw).hexdigest(),
        separator=SEPARATORS.get(kind, ""),
    )


def _cells(path: Path, content: bytes, kind: str) -> Cells:
    if kind == PARQUET:
        return read_parquet(path, content)
    text = _decoded(path, content)
    if kind in JSON:
        return read_json_records(path, text, kind)
    return read_separated(path, text, kind)


def _decoded(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error
    if not text:
        raise InputError(f"{path} is empty: give a table with a text and a label in each row")
    return text
