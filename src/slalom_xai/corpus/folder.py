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
