"""What a benchmark has done so far, on disk: a second run goes on where the first stopped."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.files import write_file
from slalom_xai.metrics import Measured

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
        log = cls(folder)
        stated = folder / "settings.json"
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: give a folder for the results")
        if folder.is_dir() and not stated.is_file() and any(not file.name.startswith(stated.name) for file in folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no benchmark: give another folder")
        if stated.is_file():
            before = json.loads(stated.read_text(encoding="utf-8"))
            other = [f"{name} {before.get(name)!r}, now {value!r}" for name, value in settings.items() if before.get(name) != value]
            if other:
                raise InputError(f"{folder} holds a benchmark with other settings ({'; '.join(other)}): give another folder")
            log._replay()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            # Whole at once and before anything else: other processes may be opening the same folder.
            draft = write_file(folder / f"{stated.name}.{os.getpid()}", json.dumps(settings, ensure_ascii=False, indent=1) + "\n")
            draft.replace(stated)
            (folder / "explanations").mkdir(exist_ok=True)
        return log

    def add_explanation(self, cell: Cell, explanation: Explanation, seconds: float) -> None:
        """An explanation was made."""
        explanation.save(self._file(cell))
        self.failed.pop(cell, None)
        self.made[cell] = {"seconds": seconds, "calls": float(explanation.calls)}
        self._write(cell, {"made": self.made[cell]})

    def add_failure(self, cell: Cell, reason: str) -> None:
        """A cell has no explanation."""
        self.failed[cell] = reason
        self._write(cell, {"failed": reason})

    def add_measured(self, cell: Cell, metric: str, found: Measured) -> None:
        """A metric was computed."""
        self.measured.setdefault(cell, {})[metric] = found
        values = {name: None if math.isnan(value) else value for name, value in found.values.items()}
        self._write(cell, {"metric": metric, "values": values, "reason": found.reason})

    def explanation(self, cell: Cell) -> Explanation:
        """An explanation that was made before."""
        return Explanation.load(self._file(cell))

    def _file(self, cell: Cell) -> Path:
        return self.folder / "explanations" / f"{cell[0]}-{cell[1]}.json"

    def _write(self, cell: Cell, record: Mapping[str, Any]) -> None:
        line = json.dumps({"text": cell[0], "method": cell[1], **record}, ensure_ascii=False, allow_nan=False)
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _replay(self) -> None:
        """Reads what earlier runs wrote; a line that an interruption cut short is left out, and its work done again."""
        path = self.folder / "log.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                record = json.loads(line)
                cell = (record["text"], record["method"])
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
            if "made" in record:
                self.failed.pop(cell, None)
                self.made[cell] = record["made"]
            elif "failed" in record:
                self.failed[cell] = record["failed"]
            else:
                values = {name: math.nan if value is None else value for name, value in record["values"].items()}
                self.measured.setdefault(cell, {})[record["metric"]] = Measured(values, record["reason"])
