"""The folder of a corpus: what is where, and which parts are there.

::

    manifest.json      what decides results: another run must have the same
    plan.json          how many rows and parts the table has
    staged/            the texts of parts that are not explained yet
    parts/             explained parts: read this folder with pandas, polars or DuckDB
    errors.jsonl       the texts that failed, and why
    spending.jsonl     what a model behind an API has cost so far
    summary.json       what the last run did
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slalom_xai.data.corpus.schema import (
    FAILED,
    FORMAT,
    VERSION,
    VERSION_KEY,
    Record,
    arrow,
    damage_error,
)
from slalom_xai.errors import InputError
from slalom_xai.system.files import lock, read_json, write_file
from slalom_xai.system.shards import Shard

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Plan:
    """What a table is split into.

    Attributes:
        rows: of the table.
        parts: of the corpus.
    """

    rows: int
    parts: int


@dataclass(frozen=True)
class CorpusFolder:
    """The places in the folder of a corpus.

    Attributes:
        path: of the folder.
    """

    path: Path

    def part(self, number: int) -> Path:
        """The file of an explained part."""
        return self.path / "parts" / f"part-{number:06d}.parquet"

    def staged(self, number: int) -> Path:
        """The file of a part that waits."""
        return self.path / "staged" / f"part-{number:06d}.parquet"

    @property
    def errors(self) -> Path:
        """The file of the texts that failed."""
        return self.path / "errors.jsonl"

    @property
    def ledger(self) -> Path:
        """The file of what a model behind an API has cost."""
        return self.path / "spending.jsonl"

    def make(self) -> None:
        """Makes the folders inside.

        Raises:
            InputError: they cannot be made.
        """
        for name in ("parts", "staged"):
            try:
                (self.path / name).mkdir(exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"cannot make {self.path / name} ({error.strerror or error}): "
                    "give --out a folder that you may write to"
                ) from error

    def parts(self) -> list[int]:
        """The numbers of the explained parts."""
        return _numbers(self.path / "parts")

    def tidy(self) -> None:
        """Removes texts that wait though they are explained, as a kill can leave them."""
        for part in set(_numbers(self.path / "staged")) & set(self.parts()):
            self.staged(part).unlink(missing_ok=True)

    def plan(self) -> Plan | None:
        """What the table was split into; None before that is known."""
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        content = read_json(path, "slalom corpus")
        try:
            return Plan(int(content["rows"]), int(content["parts"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} does not say how many rows and parts there are: "
                "remove it, and the same command makes it again"
            ) from error

    def write_plan(self, plan: Plan) -> None:
        """Says that the table was split."""
        content = {"rows": plan.rows, "parts": plan.parts}
        write_file(self.path / "plan.json", json.dumps(content) + "\n")

    def is_staged(self, shard: Shard) -> bool:
        """Whether all parts of a shard wait or are explained."""
        plan = self.plan()
        if plan is None:
            return False
        there = set(self.parts())
        ours = (part for part in range(plan.parts) if shard.has(part))
        return all(part in there or self.staged(part).is_file() for part in ours)

    @contextmanager
    def held(self, shard: Shard) -> Iterator[None]:
        """Keeps other processes from the same shard.

        Raises:
            InputError: another one is at work on it.
        """
        path = self.path / f".lock-{shard.number}-of-{shard.count}"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.path} ({error.strerror or error}): "
                "give --out a folder that you may write to"
            ) from error
        try:
            if lock(handle) is False:
                raise InputError(
                    f"another process is filling {self.path}: wait for it, or give both a --shard"
                )
            yield
        finally:
            os.close(handle)


def _numbers(folder: Path) -> list[int]:
    """The numbers of the parts in a folder."""
    return sorted(int(path.stem[5:]) for path in folder.glob("part-*.parquet"))


# Reads the folder that ``slalom corpus`` fills.


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
                raise damage_error(path, error) from error

    @staticmethod
    def statuses(folder: CorpusFolder, part: int) -> list[str]:
        """Of the texts of a part: EXPLAINED or FAILED."""
        path = folder.part(part)
        try:
            table = arrow().parquet.read_table(path, columns=["status"])
        except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
            raise damage_error(path, error) from error
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
        raise damage_error(path, error) from error
    found = metadata.get(VERSION_KEY, b"none").decode()
    if found != str(VERSION):
        raise InputError(
            f"{path} has version {found} of the columns, and this is version {VERSION}: "
            "make the corpus again, or use the version of slalom-xai that made it"
        )
