"""Reads a data set that Hugging Face's ``datasets`` saved to disk; needs pyarrow, not ``datasets``.

Such a folder has a file state.json, which lists files in Arrow's streaming format.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.tables.streams import StreamedRow, check_field

STATE = "state.json"
SPLITS = "dataset_dict.json"
_BATCH = 1024  # rows at once


@dataclass(frozen=True)
class ArrowStream:
    """A saved data set that can be read row by row.

    Attributes:
        path: the folder.
        files: its files, in order.
        fields: the names of its columns.
    """

    path: Path
    files: tuple[Path, ...]
    fields: tuple[str, ...]

    def check_field(self, field: str) -> None:
        """Refuses a column that is not there, or that is there twice."""
        check_field(self.path, self.fields, field)

    def rows(self, wanted: Sequence[str]) -> Generator[StreamedRow, None, None]:
        """The rows in order.

        Args:
            wanted: columns that are there.

        Raises:
            InputError: a file is damaged.
        """
        number = 0
        for file in self.files:
            for batch in _batches(file):
                columns = [batch.column(field).to_pylist() for field in wanted]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield StreamedRow(f"row {number} of {self.path}", cells, None)


def open_saved_dataset(folder: Path) -> ArrowStream:
    """Looks at a folder that ``Dataset.save_to_disk`` wrote.

    Raises:
        InputError: it holds several splits, a selection, or nothing that can be read.
    """
    if (folder / SPLITS).is_file():
        splits = ", ".join(sorted(_json(folder / SPLITS).get("splits", [])))
        raise InputError(
            f"{folder} holds several splits ({splits}): give the folder of one, such as "
            f"{folder / 'train'}"
        )
    state = _json(folder / STATE)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InputError(
            f"{folder} holds a selection of rows: call flatten_indices() and save it again"
        )
    files = tuple(folder / str(entry["filename"]) for entry in state.get("_data_files", []))
    if not files:
        raise InputError(f"{folder} has no rows: give a data set with a text in each row")
    with _damage(files[0]):
        fields = tuple(_opened(files[0]).schema.names)
    return ArrowStream(folder, files, fields)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}): save the data set again") from error
    return content if isinstance(content, dict) else {}


def _batches(file: Path) -> Iterator[Any]:
    with _damage(file):
        reader = _opened(file)
    while True:
        with _damage(file):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        for start in range(0, batch.num_rows, _BATCH):
            yield batch.slice(start, _BATCH)


def _opened(file: Path) -> Any:
    try:
        arrow = import_module("pyarrow")
    except ImportError as error:
        raise InputError(
            f"reading {file} needs the package pyarrow: pip install pyarrow"
        ) from error
    return arrow.ipc.open_stream(arrow.memory_map(str(file)))


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{file} is damaged ({reason}): save the data set again") from error
