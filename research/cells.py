"""What an experiment has finished, on disk: a run that was killed goes on where it stopped.

A cell is a piece of work with a name, such as one trained model, and what was measured in it. The
folder is kept as that of ``slalom bench``: settings.json, and one line per cell.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from research.base import Settings
from slalom_xai.data.training.saving import versions
from slalom_xai.errors import InputError
from slalom_xai.models.load import choose_device
from slalom_xai.system.files import append_line
from slalom_xai.system.result_folder import open_folder, read_lines

Numbers = dict[str, Any]  # what a cell holds: numbers and lists of numbers by name
Work = Callable[[], Mapping[str, Any]]  # measures a cell


class ShardDone(Exception):
    """The shard of the cells that was asked for is finished; the others may not be."""


@dataclass
class Cells:
    """The finished cells of a study.

    Attributes:
        file: where they are kept; None keeps them in memory only.
        finished: what was measured, by the cell's name.
    """

    file: Path | None = None
    finished: dict[str, Numbers] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path | None, settings: Mapping[str, Any]) -> Cells:
        """The cells in a folder, of this run or of earlier ones.

        Args:
            folder: where they are; None for none.
            settings: what must not change between runs.

        Raises:
            InputError: the folder holds something else, or cells with other settings.
        """
        if folder is None:
            return cls()
        open_folder(folder, _as_read(settings), kind="study", maker="python -m research")
        cells = cls(folder / "cells.jsonl")
        for record in read_lines(folder / "cells.jsonl"):
            if _is_cell(record):
                cells.finished[record["cell"]] = _with_nan(record["numbers"])
        return cells

    def fill(self, work: Mapping[str, Work], settings: Settings, label: str) -> dict[str, Numbers]:
        """What was measured in all cells of a study, now or earlier, by their names.

        Args:
            work: what measures each cell, in order.
            settings: whether only a shard is wanted, or only what is finished.
            label: what the work is, for the progress bar.

        Raises:
            ShardDone: a shard was wanted, and it is finished.
            InputError: only what is finished is wanted, and nothing is.
        """
        if settings.finished:
            return self._so_far(work)
        shard = settings.shard
        names = [name for place, name in enumerate(work) if shard.has(place)]
        for name in settings.track(names, label):
            self.get(name, work[name])
        if shard.count > 1:
            raise ShardDone(f"shard {shard} is finished, {len(names)} cells of {len(work)}")
        return {name: self.finished[name] for name in work}

    def _so_far(self, work: Mapping[str, Work]) -> dict[str, Numbers]:
        """The cells that are finished."""
        found = {name: self.finished[name] for name in work if name in self.finished}
        if not found:
            raise InputError(
                "--finished wants the tables of what is finished, and nothing is: "
                "leave it out, or give the --out of an earlier run"
            )
        return found

    def get(self, name: str, measure: Work) -> Numbers:
        """What was measured in a cell, now or earlier.

        Args:
            name: of the cell.
            measure: does the work if nobody did before.
        """
        if name not in self.finished:
            began = time.perf_counter()
            found = dict(measure()) | {"seconds": time.perf_counter() - began}
            numbers = _without_nan(found)
            if self.file is not None:
                record = {"cell": name, "numbers": numbers, "made": made_here()}
                append_line(self.file, json.dumps(record, allow_nan=False))
            self.finished[name] = _with_nan(_as_read(numbers))
        return self.finished[name]


@dataclass(frozen=True)
class Origin:
    """Where the cells of a study come from.

    Attributes:
        seconds: what they took, in all runs together.
        made: with which device and versions, each once, in order.
    """

    seconds: float
    made: tuple[dict[str, str], ...]

    @classmethod
    def of(cls, folder: Path) -> Origin:
        """That of the cells in a folder."""
        records = list(filter(_is_cell, read_lines(folder / "cells.jsonl")))
        seconds = sum(record["numbers"].get("seconds", 0.0) for record in records)
        made = [record["made"] for record in records if isinstance(record.get("made"), dict)]
        return cls(float(seconds), tuple(dict(each) for each in dict.fromkeys(map(_key, made))))


def _key(made: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(made.items()))


def made_here() -> dict[str, str]:
    """The device and the versions of this process."""
    device = choose_device(None)
    name = f"{platform.machine()}, {torch.get_num_threads()} threads"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "device": f"{device.type} ({name})",
        **versions(),
        "python": platform.python_version(),
    }


def manifest(settings: Settings, seconds: float) -> dict[str, Any]:
    """How an experiment was run: seed, size, versions, device and time.

    Args:
        settings: as it was run with.
        seconds: what this run took. Where cells are kept, their time, devices and versions are
            given instead: those of all runs, and of all experiments that share them.
    """
    origin = Origin(seconds, (made_here(),))
    if settings.store is not None:
        origin = Origin.of(settings.store)
    size = "small"
    if settings.full:
        size = "full"
    return {
        "seed": settings.seed,
        "size": size,
        "made": list(origin.made),
        "seconds": round(origin.seconds, 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _as_read(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """As they come back from a file, so that a first run and a second see the same."""
    read: dict[str, Any] = json.loads(json.dumps(numbers))
    return read


def _without_nan(value: Any) -> Any:
    """The same for JSON, which has no NaN, with None in its place."""
    if isinstance(value, Mapping):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _with_nan(value: Any) -> Any:
    """The reverse of ``_without_nan``."""
    if isinstance(value, dict):
        return {name: _with_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_nan(each) for each in value]
    if value is None:
        return math.nan
    return value


def _is_cell(record: Any) -> bool:
    """Whether a line is as this class writes them."""
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("cell"), str) and isinstance(record.get("numbers"), dict)
