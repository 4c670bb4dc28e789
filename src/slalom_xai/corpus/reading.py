"""Reads the folder that ``slalom corpus`` fills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.corpus.folder import MANIFEST, CorpusFolder, Plan
from slalom_xai.corpus.schema import FAILED, FORMAT, VERSION, VERSION_KEY, Record, arrow, damaged
from slalom_xai.errors import InputError
from slalom_xai.system.files import read_json

_BATCH = 256  # rows at once


@dataclass(frozen=True)
class Corpus:
    """The explained texts of a folder.

    Attributes:
        folder: of the corpus.
        manifest: what decided its results.
        plan: what its table was split into.
    """

    folder: CorpusFolder
    manifest: dict[str, Any]
    plan: Plan

    @classmethod
    def open(cls, path: str | Path) -> Corpus:
        """Looks at a folder.

        Raises:
            InputError: it holds no corpus, or one of another version.
        """
        folder = CorpusFolder(Path(path))
        file = folder.path / MANIFEST
        manifest = read_json(file, "slalom corpus") if file.is_file() else None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise InputError(
                f"{path} holds no corpus: give the folder that slalom corpus --out filled"
            )
        plan = folder.plan()
        if plan is None:
            raise InputError(
                f"{path} holds a corpus that has hardly begun: "
                "give the same slalom corpus command again, and it goes on"
            )
        corpus = cls(folder, manifest, plan)
        for part in folder.parts()[:1]:
            _check_version(folder.part(part))
        return corpus

    @property
    def is_complete(self) -> bool:
        """Whether all parts are there."""
        return len(self.folder.parts()) == self.plan.parts

    def records(self, columns: list[str] | None = None) -> Iterator[Record]:
        """The texts in the order of the table, as plain data.

        Args:
            columns: only these; None: all.

        Raises:
            InputError: a file is damaged.
        """
        parquet = arrow().parquet
        for part in self.folder.parts():
            path = self.folder.part(part)
            try:
                with parquet.ParquetFile(path) as file:
                    for batch in file.iter_batches(_BATCH, columns=columns):
                        yield from batch.to_pylist()
            except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
                raise damaged(path, error) from error

    @staticmethod
    def statuses(folder: CorpusFolder, part: int) -> list[str]:
        """Of the texts of a part: EXPLAINED or FAILED."""
        path = folder.part(part)
        try:
            table = arrow().parquet.read_table(path, columns=["status"])
        except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
            raise damaged(path, error) from error
        statuses: list[str] = table.column("status").to_pylist()
        return statuses

    def failures(self) -> Iterator[Record]:
        """The texts that failed: row, id and problem."""
        for record in self.records(["row", "id", "status", "problem"]):
            if record["status"] == FAILED:
                yield {name: record[name] for name in ("row", "id", "problem")}


def _check_version(path: Path) -> None:
    """Refuses files with other columns than ours."""
    try:
        metadata = arrow().parquet.read_schema(path).metadata or {}
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    found = metadata.get(VERSION_KEY, b"none").decode()
    if found != str(VERSION):
        raise InputError(
            f"{path} has version {found} of the columns, and this is version {VERSION}: "
            "make the corpus again, or use the version of slalom-xai that made it"
        )
