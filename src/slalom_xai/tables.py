"""Reads tables: CSV, TSV, JSON and Parquet, packed or not."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, shortened
from slalom_xai.system.switches import Switch

# Lets the csv module read texts of any length.
_LONG_FIELDS = Switch(csv.field_size_limit, csv.field_size_limit, 2**31 - 1)
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".ndjson", ".json")
_PACKED = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
_RECORD = '{"text": "a fine film", "label": "good"}'


@dataclass(frozen=True)
class Table:
    """The rows of a file.

    Attributes:
        path: the file.
        columns: names of the columns.
        rows: the cells of each row; None where a record has none.
        numbers: where each row begins, as a person counts.
        unit: what is counted: lines or rows.
        sha256: of the file as it is.
        separator: what stands between two columns, for a message; empty where the format leaves no doubt.
    """

    path: Path
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int]
    unit: str
    sha256: str
    separator: str = ""

    def column(self, name: str) -> list[object]:
        """The cells of a column.

        Raises:
            InputError: several columns have this name.
        """
        places = [place for place, column in enumerate(self.columns) if column == name]
        if len(places) > 1:
            raise InputError(
                f"{self.path} has {len(places)} columns called {name!r}: give each its own name"
            )
        return [row[places[0]] for row in self.rows]

    def where(self, places: Sequence[int]) -> str:
        """Some rows by their numbers, such as ``lines 3, 4``."""
        shown = ", ".join(str(self.numbers[place]) for place in places[:5]) + (
            ", ..." if len(places) > 5 else ""
        )
        return f"{self.unit}{'s' if len(places) > 1 else ''} {shown}"


@dataclass(frozen=True)
class _Cells:
    """What a format holds: names of columns, rows, and where they begin."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    numbers: Sequence[int]
    unit: str


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
    kind, content = _unpacked(path, raw)
    if kind == ".parquet":
        cells = _parquet(path, content)
    else:
        text = _decoded(path, content)
        cells = _json(path, text, kind) if kind in _JSON else _separated(path, text, kind)
    separator = {".csv": "commas", ".tsv": "tabs"}.get(kind, "")
    return Table(
        path,
        cells.columns,
        cells.rows,
        cells.numbers,
        cells.unit,
        hashlib.sha256(raw).hexdigest(),
        separator,
    )


def _kind(name: str, given: Path) -> str:
    """The ending that says what a file holds, without that of its packing.

    Raises:
        InputError: an ending that is not known, or packed where that is no use.
    """
    whole = Path(name.lower())
    packed = whole.suffix in (*_PACKED, ".zip")
    kind = Path(whole.stem).suffix if packed else whole.suffix
    if kind in (*_DELIMITERS, *_JSON) or (kind == ".parquet" and not packed):
        return kind
    raise InputError(
        f"unknown kind of table {given.name!r}: give a file that ends in {', '.join((*_DELIMITERS, *_JSON))} or .parquet; "
        "all except .parquet may be packed as .gz, .xz, .bz2 or .zip"
    )


def _unpacked(path: Path, raw: bytes) -> tuple[str, bytes]:
    """The kind of table and its bytes; a zip file may leave it to the file inside to say the kind."""
    packing = path.suffix.lower()
    open_zip = packing == ".zip" and not Path(path.stem).suffix
    kind = "" if open_zip else _kind(path.name, path)
    try:
        if packing == ".zip":
            name, raw = _from_zip(path, raw)
            kind = kind or _kind(name + packing, path)
        elif packing in _PACKED:
            raw = _PACKED[packing](raw)
    except InputError:
        raise
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path} is damaged or not a {packing[1:]} file ({reason}): pack it again, or give it unpacked"
        ) from error
    return kind, raw


def _from_zip(path: Path, raw: bytes) -> tuple[str, bytes]:
    """The name and the bytes of the one file in an archive."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        names = [
            info.filename
            for info in archive.infolist()
            if not info.is_dir() and not info.filename.startswith("__MACOSX/")
        ]
        if len(names) != 1:
            raise InputError(
                f"{path} holds {len(names)} files: give a zip file with one table in it"
            )
        return Path(names[0]).name, archive.read(names[0])


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


def _separated(path: Path, text: str, kind: str) -> _Cells:
    """CSV or TSV. Many TSV files know no quotes, so one in which quotes make no sense is read without them."""
    if kind == ".csv":
        return _lines(path, text, ",", csv.QUOTE_MINIMAL)
    try:
        plain = _lines(path, text, "\t", csv.QUOTE_NONE)
    except InputError:
        return _lines(path, text, "\t", csv.QUOTE_MINIMAL)
    try:
        quoted = _lines(path, text, "\t", csv.QUOTE_MINIMAL)
    except InputError:
        return plain
    return (
        quoted if len(quoted.rows) == len(plain.rows) else plain
    )  # a quote would have swallowed the lines between two texts


def _lines(path: Path, text: str, delimiter: str, quoting: Any) -> _Cells:
    """The rows of a separated file; blank lines are passed over."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    begins = 1
    with _LONG_FIELDS.held():
        reader = csv.reader(
            io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting, strict=True
        )
        try:
            for row in reader:
                if row:
                    _check_width(path, row, rows, begins, delimiter)
                    rows.append(row)
                    numbers.append(begins)
                begins = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"cannot read {path} ({error}) in the row that begins on line {begins}; {_advice(delimiter)}"
            ) from error
    if not rows:
        raise InputError(f"{path} is empty: give a table with a text and a label in each row")
    return _Cells(tuple(name.strip() for name in rows[0]), rows[1:], numbers[1:], "line")


def _check_width(
    path: Path, row: list[str], rows: list[list[str]], begins: int, delimiter: str
) -> None:
    if rows and len(row) != len(rows[0]):
        raise InputError(
            f"line {begins} of {path} has {len(row)} fields, but the first line names {len(rows[0])} columns: {_advice(delimiter)}"
        )


def _advice(delimiter: str) -> str:
    held = "commas" if delimiter == "," else "tabs"
    return f"put quotes around texts that hold {held}, quotes or line breaks, and write a quote inside as two"


def _json(path: Path, text: str, kind: str) -> _Cells:
    """A record on each line, or, in a .json file, a list of records."""
    if kind == ".json" and text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"cannot read {path}: not JSON ({error}); give a list of records, or one record per line"
            ) from error
        return _records(path, list(enumerate(found, start=1)), "row")
    values = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                values.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"cannot read line {number} of {path}: not JSON ({error}); give one record per line"
                ) from error
    return _records(path, values, "line")


def _records(path: Path, values: Sequence[tuple[int, Any]], unit: str) -> _Cells:
    columns: dict[str, None] = {}
    for number, value in values:
        if not isinstance(value, dict):
            raise InputError(
                f"{unit} {number} of {path} is {shortened(str(value))}: give a record like {_RECORD}"
            )
        columns.update(dict.fromkeys(value))
    rows = [[value.get(column) for column in columns] for _, value in values]
    return _Cells(tuple(columns), rows, [number for number, _ in values], unit)


def _parquet(path: Path, content: bytes) -> _Cells:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(
            f"reading {path} needs the package pyarrow: pip install pyarrow, or give the table as CSV or JSON lines"
        ) from error
    try:
        found = parquet.ParquetFile(arrow.BufferReader(content)).read()
        columns = [column.to_pylist() for column in found.columns]
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} is damaged or not a Parquet file ({reason}): write it again, or give the table as CSV or JSON lines"
        ) from error
    names = tuple(str(name) for name in found.column_names)
    return _Cells(names, list(zip(*columns, strict=True)), range(1, found.num_rows + 1), "row")
