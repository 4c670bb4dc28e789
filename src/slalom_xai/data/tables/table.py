"""The rows of a file, and what can be asked of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slalom_xai.data.tables.formats import (
    JSON,
    PARQUET,
    SEPARATORS,
    Lines,
    ParquetRows,
    StreamLimits,
    as_record,
    check_readable,
    json_records,
    kind_of,
    name_in_zip,
    separated_rows,
)
from slalom_xai.errors import InputError, quote_text

_MOST_ROWS_NAMED = 5  # in one message
_MOST_FIELDS_NAMED = 12


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    Attributes:
        fields: the names of the fields.
        rows: the cells of each row; None where a record has no such field.
        numbers: where each row begins, as a person counts.
        unit: what ``numbers`` count: "line" or "row".
        path: the file.
        sha256: the fingerprint of the file as it is on disk.
        separator: what stands between two fields, for a message; empty where the format leaves no
            doubt.
    """

    fields: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int]
    unit: str
    path: Path
    sha256: str
    separator: str = ""

    def cells(self, field: str) -> list[object]:
        """The cells of a field, one for each row.

        Raises:
            InputError: several fields have this name.
        """
        matches = [index for index, name in enumerate(self.fields) if name == field]
        if len(matches) > 1:
            raise InputError(
                f"{self.path} has {len(matches)} columns called {field!r}: give each its own name"
            )
        return [row[matches[0]] for row in self.rows]

    def where(self, indices: Sequence[int]) -> str:
        """Names some rows by their numbers, such as ``lines 3, 4``.

        Args:
            indices: which of the rows, counted from 0.
        """
        shown = ", ".join(str(self.numbers[index]) for index in indices[:_MOST_ROWS_NAMED])
        if len(indices) > _MOST_ROWS_NAMED:
            shown += ", ..."
        if len(indices) > 1:
            return f"{self.unit}s {shown}"
        return f"{self.unit} {shown}"

    def check_fields(self, wanted: Mapping[str, str | None]) -> None:
        """Refuses a table without the fields that options name.

        Args:
            wanted: the field that each option names; None where an option was not given.

        Raises:
            InputError: a field is missing.
        """
        missing = {}
        for option, field in wanted.items():
            if field is not None and field not in self.fields:
                missing[option] = field
        if not missing:
            return
        there = "none at all"
        if self.fields:
            there = quote_names(self.fields)
        lacks = " and ".join(f"no column {field!r}" for field in missing.values())
        problem = f"{self.path} has {lacks}, only {there}"
        if self._has_another_separator():
            raise InputError(
                f"{problem}: its columns are not separated by {self.separator}; "
                f"save it with {self.separator} between them"
            )
        options = " and ".join(f"{option} COLUMN" for option in missing)
        raise InputError(f"{problem}: say which to use with {options}")

    def _has_another_separator(self) -> bool:
        """Whether the one field looks like several that something else separates."""
        if not self.separator or len(self.fields) != 1:
            return False
        return re.search(r"[;,|\t]", self.fields[0]) is not None


def quote_names(names: Sequence[str]) -> str:
    """The first names of a list, quoted, for a message."""
    shown = ", ".join(quote_text(name, 40) for name in names[:_MOST_FIELDS_NAMED])
    if len(names) > _MOST_FIELDS_NAMED:
        shown += ", ..."
    return shown


# Reads a whole table by the ending of its name, which training needs.
#
# The rows are those of ``formats``; the first that cannot be read is an error.


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
