"""What a benchmark has done so far, on disk: a second run goes on where the first stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError, shortened
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.saving import read_json
from slalom_xai.metrics import Measured
from slalom_xai.system.files import append_line, is_draft, write_file
from slalom_xai.system.writable import make_folder

Cell = tuple[str, str]  # a text and a method


@dataclass
class Log:
    """The folder of a benchmark.

    Attributes:
        folder: where everything is.
        made: seconds and calls of every explanation that was made.
        failed: why a cell has none.
        measured: what each metric found for a cell.
    """

    folder: Path
    made: dict[Cell, dict[str, float]] = field(default_factory=dict)
    failed: dict[Cell, str] = field(default_factory=dict)
    measured: dict[Cell, dict[str, Measured]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, settings: Mapping[str, Any]) -> Log:
        """The log in a folder, new or from an earlier run.

        Raises:
            InputError: the folder holds something else, or a benchmark with other settings.
        """
        log, stated = cls(folder), folder / "settings.json"
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: give a folder for the results")
        make_folder("--out", folder)
        names = [file.name for file in folder.iterdir()]
        if not stated.is_file():
            if not all(map(_is_beginning, names)):
                raise InputError(
                    f"{folder} is not empty and is not a benchmark: give another folder"
                )
            # Before anything else: other processes may be opening the same folder.
            write_file(stated, json.dumps(settings, ensure_ascii=False, indent=1) + "\n")
        _check_same(folder, _settings(stated), settings)
        # A run may have been killed before it made this one.
        make_folder("--out", folder / "explanations")
        log._replay()
        return log

    def add_explanation(self, cell: Cell, explanation: Explanation, seconds: float) -> None:
        """An explanation was made."""
        explanation.save(self._file(cell))
        self.failed.pop(cell, None)
        self.made[cell] = {
            "seconds": seconds,
            "calls": float(explanation.calls + explanation.passes),
        }
        self._write(cell, {"made": self.made[cell]})

    def add_failure(self, cell: Cell, reason: str) -> None:
        """A cell has no explanation."""
        self.failed[cell] = reason
        self._write(cell, {"failed": reason})

    def add_measured(self, cell: Cell, metric: str, found: Measured) -> None:
        """A metric was computed; an infinite number counts as none."""
        values = {
            name: value if math.isfinite(value) else None for name, value in found.values.items()
        }
        reason = found.reason or (
            "It is infinite." if any(map(math.isinf, found.values.values())) else ""
        )
        record = {
            "text": cell[0],
            "method": cell[1],
            "metric": metric,
            "values": values,
            "reason": reason,
        }
        self._take(record)
        self._write(cell, record)

    def explanation(self, cell: Cell) -> Explanation:
        """An explanation that was made before.

        Raises:
            InputError: its file is gone or damaged.
        """
        return Explanation.load(self._file(cell))

    def _file(self, cell: Cell) -> Path:
        return self.folder / "explanations" / f"{cell[0]}-{cell[1]}.json"

    def _write(self, cell: Cell, record: Mapping[str, Any]) -> None:
        line = json.dumps(
            {"text": cell[0], "method": cell[1], **record}, ensure_ascii=False, allow_nan=False
        )
        append_line(self.folder / "log.jsonl", line)

    def _replay(self) -> None:
        """Reads what earlier runs wrote; a line that an interruption cut short is left out, and its work done again."""
        path = self.folder / "log.jsonl"
        try:
            lines = path.read_bytes().split(b"\n") if path.is_file() else []
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        for line in lines:
            try:
                self._take(json.loads(line.decode("utf-8")))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue

    def _take(self, record: Any) -> None:
        """Takes in one record of an earlier run; one that is not as this writes them raises before anything is changed."""
        cell = (_text(record["text"]), _text(record["method"]))
        if "made" in record:
            made = {name: float(record["made"][name]) for name in ("seconds", "calls")}
            self.failed.pop(cell, None)
            self.made[cell] = made
        elif "failed" in record:
            self.failed[cell] = _text(record["failed"])
        else:
            values = {
                name: math.nan if value is None else float(value)
                for name, value in record["values"].items()
            }
            found = Measured(values, _text(record["reason"]))
            self.measured.setdefault(cell, {})[_text(record["metric"])] = found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is not a text")
    return value


def _is_beginning(name: str) -> bool:
    """Whether a file can be from a run that was killed before it had written its settings."""
    return name.startswith("settings.json") or is_draft(name)


def _settings(stated: Path) -> dict[str, Any]:
    """The settings of an earlier run."""
    found = read_json(stated, "slalom bench")
    if not isinstance(found, dict) or not found:
        raise InputError(
            f"{stated} holds no benchmark settings: give another --out, or delete this folder to start again"
        )
    return found


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    other = [
        f"{name} {_short(before.get(name))}, now {_short(value)}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if other:
        raise InputError(
            f"{folder} holds a benchmark with other settings ({'; '.join(other)}): give another folder"
        )


def _short(value: Any) -> str:
    return shortened(value, 80) if isinstance(value, str) else shortened(repr(value), 80)[1:-1]
