"""Reads JSON and Parquet, whose rows are records with named fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, shortened
from slalom_xai.tables.table import Cells

_EXAMPLE = '{"text": "a fine film", "label": "good"}'


def read_json_records(path: Path, text: str, kind: str) -> Cells:
    """Reads a record on each line, or, in a .json file, a list of records.

    Args:
        path: the file, for messages.
        text: its content.
        kind: its ending.
    """
    if kind == ".json" and text.lstrip().startswith("["):
        return _json_list(path, text)
    values = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"cannot read line {number} of {path}: not JSON ({error}); give one record per line"
            ) from error
    return _records(path, values, "line")


def _json_list(path: Path, text: str) -> Cells:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"cannot read {path}: not JSON ({error}); "
            "give a list of records, or one record per line"
        ) from error
    return _records(path, list(enumerate(values, start=1)), "row")


def _records(path: Path, values: Sequence[tuple[int, Any]], unit: str) -> Cells:
    """Records with their numbers as rows; a field that any record has is a field of all."""
    fields: dict[str, None] = {}
    for number, value in values:
        if not isinstance(value, dict):
            raise InputError(
                f"{unit} {number} of {path} is {shortened(str(value))}: "
                f"give a record like {_EXAMPLE}"
            )
        fields.update(dict.fromkeys(value))
    rows = [[value.get(field) for field in fields] for _, value in values]
    return Cells(tuple(fields), rows, [number for number, _ in values], unit)


def read_parquet(path: Path, content: bytes) -> Cells:
    """Reads a Parquet file; needs the package pyarrow."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(
            f"reading {path} needs the package pyarrow: "
            "pip install pyarrow, or give the table as CSV or JSON lines"
        ) from error
    try:
        content_table = parquet.ParquetFile(arrow.BufferReader(content)).read()
        cells_by_field = [cells.to_pylist() for cells in content_table.columns]
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} is damaged or not a Parquet file ({reason}): "
            "write it again, or give the table as CSV or JSON lines"
        ) from error
    fields = tuple(str(name) for name in content_table.column_names)
    rows = list(zip(*cells_by_field, strict=True))
    return Cells(fields, rows, range(1, content_table.num_rows + 1), "row")
