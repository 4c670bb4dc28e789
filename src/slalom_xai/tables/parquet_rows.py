"""Streams the rows of Parquet files; needs the package pyarrow, which is imported here only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import TracebackType

from slalom_xai.errors import InputError

_BATCH_BYTES = 4 << 20  # about so many are read at once
_BATCH_ROWS = 1024  # at most


class ParquetRows:
    """The rows of a Parquet file.

    Args:
        path: the file.

    Attributes:
        fields: the names of its columns.
        rows: how many it has.
        unpacked_bytes: their size without packing.

    Raises:
        InputError: pyarrow is missing, or the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._arrow = import_module("pyarrow")
            parquet = import_module("pyarrow.parquet")
        except ImportError as error:
            raise InputError(
                f"reading {path} needs the package pyarrow: "
                "pip install pyarrow, or give the table as CSV or JSON lines"
            ) from error
        with self._damage():
            self._file = parquet.ParquetFile(path, pre_buffer=False, memory_map=False)
        metadata = self._file.metadata
        self.rows: int = metadata.num_rows
        self._group_rows = []
        self.unpacked_bytes = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            self._group_rows.append(group.num_rows)
            self.unpacked_bytes += group.total_byte_size
        self.fields = tuple(str(name) for name in self._file.schema_arrow.names)

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def cells(
        self, wanted: Sequence[str] | None = None, skip: int = 0
    ) -> Iterator[tuple[object, ...]]:
        """The cells of some columns, row by row.

        Args:
            wanted: the columns; None: all.
            skip: so many rows are passed over.
        """
        first, skip = self._first_group(skip)
        groups = list(range(first, len(self._group_rows)))
        if not groups:
            return
        batches = self._file.iter_batches(
            self._batch_rows(),
            row_groups=groups,
            columns=None if wanted is None else list(wanted),
            use_threads=False,
        )
        while True:
            with self._damage():
                batch = next(batches, None)
                if batch is None:
                    return
                batch, skip = batch.slice(skip), max(0, skip - batch.num_rows)
                named = batch.columns if wanted is None else map(batch.column, wanted)
                columns = [cells.to_pylist() for cells in named]
            yield from zip(*columns, strict=True)

    def _first_group(self, skip: int) -> tuple[int, int]:
        """The row group to begin with, and how many of its rows to pass over."""
        for index, rows in enumerate(self._group_rows):
            if skip < rows:
                return index, skip
            skip -= rows
        return len(self._group_rows), 0

    def _batch_rows(self) -> int:
        bytes_per_row = max(1, self.unpacked_bytes // max(1, self.rows))
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES // bytes_per_row))

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{self.path} is damaged or not a Parquet file ({reason}): "
                "write it again, or give the table as CSV or JSON lines"
            ) from error
