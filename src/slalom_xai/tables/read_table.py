"""Reads a whole table by the ending of its name, which training needs.

The rows are those of ``lines`` and ``parquet_rows``; the first that cannot be read is an error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from slalom_xai.errors import InputError
from slalom_xai.tables.lines import (
    SEPARATORS,
    Lines,
    StreamLimits,
    as_record,
    check_readable,
    json_records,
    separated_rows,
)
from slalom_xai.tables.packing import JSON, PARQUET, kind_of, name_in_zip
from slalom_xai.tables.parquet_rows import ParquetRows
from slalom_xai.tables.table import Table

_LIMITS = StreamLimits(utf8_only=True)
_LIMITS_OF_A_LIST = StreamLimits(row_bytes=1 << 60, utf8_only=True)

Row = TypeVar("Row")


def read_table(path: str | Path) -> Table:
    """Reads a table by the ending of its name.

    Raises:
        InputError: the file is not there, damaged, or not what its name says.
    """
    path = Path(path)
    check_readable(path)
    name = path.name
    if path.suffix.lower() == ".zip" and not Path(path.stem).suffix:
        name = f"{name_in_zip(path)}.zip"  # the file inside says the kind
    kind, unit = kind_of(name, path), "line"
    fields: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int]
    if kind == PARQUET:
        with ParquetRows(path) as parquet:
            fields, rows, unit = parquet.fields, list(parquet.cells()), "row"
        numbers = range(1, len(rows) + 1)
    elif kind in JSON:
        listed = _json_list(path) if kind == ".json" else None
        unit = "line" if listed is None else "row"
        records = _readable(json_records(path, _LIMITS) if listed is None else listed)
        fields = tuple(dict.fromkeys(field for _, record in records for field in record))
        rows = [[record.get(field) for field in fields] for _, record in records]
        numbers = [number for number, _ in records]
    else:
        (_, header), *body = _readable(separated_rows(path, kind, _LIMITS))
        fields = tuple(field.strip() for field in header)
        rows, numbers = [row for _, row in body], [number for number, _ in body]
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Table(fields, rows, numbers, unit, path, sha256, SEPARATORS.get(kind, ""))


def _readable(rows: Iterable[tuple[int, Row | InputError]]) -> list[tuple[int, Row]]:
    """The rows with their numbers, all of which can be read."""
    readable = []
    for number, row in rows:
        if isinstance(row, InputError):
            raise row
        readable.append((number, row))
    return readable


def _json_list(path: Path) -> list[tuple[int, dict[str, Any] | InputError]] | None:
    """The records of a file that is one list, with their numbers; None if it is none."""
    with closing(Lines(path, _LIMITS_OF_A_LIST)) as lines:
        text = "".join(lines)
    if not text.lstrip().startswith("["):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"cannot read {path}: not JSON ({error}); "
            "give a list of records, or one record per line"
        ) from error
    return [
        (number, as_record(value, f"row {number} of {path}"))
        for number, value in enumerate(values, start=1)
    ]
