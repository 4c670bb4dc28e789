"""The texts of a corpus: the rows of a table, of several, or of a saved data set, one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slalom_xai.data.tables.streams import (
    SPLITS,
    STATE,
    ArrowStream,
    StreamedRow,
    TableStream,
    broken_characters,
    is_absent,
    known_kind,
    open_saved_dataset,
    open_stream,
)
from slalom_xai.errors import InputError, quote_text

_READ = 1 << 20  # bytes that are hashed at once


@dataclass(frozen=True)
class CorpusFields:
    """Which columns of a table hold what.

    Attributes:
        text: the texts.
        id: what names a row; None: its number, from 1.
        pair: the second text of each pair; None for single texts.
    """

    text: str = "text"
    id: str | None = None
    pair: str | None = None

    @property
    def named(self) -> list[str]:
        """The columns that are read."""
        return [field for field in (self.text, self.id, self.pair) if field is not None]


class CorpusRow(NamedTuple):
    """A row of the table.

    Attributes:
        row: its number, from 1.
        place: where it is, as a person counts.
        id: what names it; empty where it cannot be read.
        text: empty where it cannot be read.
        pair: the second text; None for single texts.
        problem: why it cannot be explained; None where nothing is known against it.
    """

    row: int
    place: str
    id: str
    text: str
    pair: str | None
    problem: str | None


@dataclass(frozen=True)
class CorpusSource:
    """A table that was looked at and can be read.

    Attributes:
        path: as given.
        fields: which columns hold what.
        streams: the files of the table, in order.
    """

    path: Path
    fields: CorpusFields
    streams: tuple[TableStream | ArrowStream, ...]

    def rows(self) -> Generator[CorpusRow, None, None]:
        """All rows in order; those that cannot be read say why.

        Raises:
            InputError: a file is damaged, so that the rows after it cannot be told.
        """
        number = 0
        for stream in self.streams:
            with closing(stream.rows(self.fields.named)) as rows:
                for row in rows:
                    number += 1
                    yield self._row(number, row)

    def sha256(self) -> str:
        """The fingerprint of all its bytes."""
        digest = hashlib.sha256()
        for file in _files(self.streams):
            with file.open("rb") as content:
                while chunk := content.read(_READ):
                    digest.update(chunk)
        return digest.hexdigest()

    def _row(self, number: int, row: StreamedRow) -> CorpusRow:
        if row.problem is not None:
            return self._make_broken_row(number, row.place, str(row.problem))
        fields = self.fields
        cells = dict(zip(fields.named, row.cells, strict=True))
        name = str(number)
        if fields.id is not None:
            name = _name(cells[fields.id])
            if not name:
                return self._make_broken_row(
                    number, row.place, f"there is no id in column {fields.id!r}"
                )
        texts: list[str | None] = []
        problem = None
        for field in (fields.text, fields.pair):
            if field is None:
                texts.append(None)
                continue
            found = _problem(cells[field], field)
            texts.append("" if found else str(cells[field]))
            problem = problem or found
        return CorpusRow(number, row.place, name, texts[0] or "", texts[1], problem)

    def _make_broken_row(self, number: int, place: str, problem: str) -> CorpusRow:
        name = str(number) if self.fields.id is None else ""
        pair = None if self.fields.pair is None else ""
        return CorpusRow(number, place, name, "", pair, problem)


def open_source(path: Path, fields: CorpusFields) -> CorpusSource:
    """Looks at a table: a file, a folder of files of one kind, or a data set saved to disk.

    Raises:
        InputError: it cannot be read, or has no such columns.
    """
    streams = tuple(_streams(path))
    for stream in streams:
        for field in fields.named:
            stream.check_field(field)
    return CorpusSource(path, fields, streams)


def _streams(path: Path) -> Iterator[TableStream | ArrowStream]:
    if not path.is_dir():
        yield open_stream(path)
        return
    if (path / STATE).is_file() or (path / SPLITS).is_file():
        yield open_saved_dataset(path)
        return
    files = [file for file in sorted(path.iterdir()) if _is_table(file)]
    if not files:
        raise InputError(
            f"{path} is a folder without tables: give a file, a folder of CSV, JSON lines or "
            "Parquet files, or a data set that was saved with save_to_disk"
        )
    kinds = {known_kind(file) for file in files}
    if len(kinds) > 1:
        raise InputError(
            f"{path} holds tables of several kinds ({', '.join(sorted(kinds))}): "
            "give a folder with one kind"
        )
    for file in files:
        yield open_stream(file)


def _is_table(file: Path) -> bool:
    if file.name.startswith((".", "_")) or not file.is_file():
        return False
    try:
        known_kind(file)
    except InputError:
        return False
    return True


def _files(streams: Sequence[TableStream | ArrowStream]) -> Iterator[Path]:
    for stream in streams:
        if isinstance(stream, ArrowStream):
            yield from stream.files
        else:
            yield stream.path


def _name(cell: object) -> str:
    """An id as text; empty where there is none."""
    if is_absent(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    name = str(cell).strip()
    return "" if broken_characters(name) else name


def _problem(cell: object, field: str) -> str | None:
    """Why a cell holds no text; None if it does."""
    if is_absent(cell):
        return f"there is no text in column {field!r}"
    if not isinstance(cell, str):
        return (
            f"column {field!r} holds the {type(cell).__name__} {quote_text(str(cell))}, not a text"
        )
    problem = broken_characters(cell)
    return None if problem is None else f"the text in column {field!r} {problem}"
