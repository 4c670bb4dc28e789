"""The rows of a file, and what can be asked of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slalom_xai.errors import InputError, shortened

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
            there = listed(self.fields)
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


def listed(names: Sequence[str]) -> str:
    """The first names of a list, quoted, for a message."""
    shown = ", ".join(shortened(name, 40) for name in names[:_MOST_FIELDS_NAMED])
    if len(names) > _MOST_FIELDS_NAMED:
        shown += ", ..."
    return shown
