"""What a benchmark has done so far, on disk: a second run goes on where the first stopped.

The folder holds settings.json, which says what must not change between runs; explanations/, a file
for each; and log.jsonl, a line for each explanation that was made, each that failed and each
metric that was computed. Several processes may add lines at the same time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slalom_xai.explanation import Explanation
from slalom_xai.metrics import Measured
from slalom_xai.system.files import append_line
from slalom_xai.system.result_folder import open_folder, read_lines
from slalom_xai.system.writable import make_folder

Cell = tuple[str, str]  # the name of a text, and that of a method


@dataclass(frozen=True)
class Made:
    """What it took to make an explanation.

    Attributes:
        seconds: wall-clock time.
        calls: rows that the model computed, passes inside it included.
    """

    seconds: float
    calls: float


@dataclass
class Log:
    """The folder of a benchmark.

    Attributes:
        folder: where everything is.
        made: what every explanation took that was made.
        failed: why a cell has no explanation.
        measured: what each metric measured in a cell.
    """

    folder: Path
    made: dict[Cell, Made] = field(default_factory=dict)
    failed: dict[Cell, str] = field(default_factory=dict)
    measured: dict[Cell, dict[str, Measured]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, settings: Mapping[str, Any]) -> Log:
        """The log in a folder, new or from an earlier run.

        Raises:
            InputError: the folder holds something else, or a benchmark with other settings.
        """
        log = cls(folder)
        open_folder(folder, settings)
        # A run may have been killed before it made this one.
        make_folder("--out", folder / "explanations")
        log._replay()
        return log

    def add_explanation(self, cell: Cell, explanation: Explanation, seconds: float) -> None:
        """An explanation was made."""
        explanation.save(self._file(cell))
        self.failed.pop(cell, None)
        made = Made(seconds, float(explanation.calls + explanation.passes))
        self.made[cell] = made
        self._write(cell, {"made": asdict(made)})

    def add_failure(self, cell: Cell, reason: str) -> None:
        """A cell has no explanation."""
        self.failed[cell] = reason
        self._write(cell, {"failed": reason})

    def add_measured(self, cell: Cell, metric: str, measured: Measured) -> None:
        """A metric was computed; an infinite number counts as none."""
        values: dict[str, float | None] = {}
        reason = measured.reason
        for name, value in measured.values.items():
            values[name] = None
            if math.isfinite(value):
                values[name] = value
            elif math.isinf(value):
                reason = reason or "It is infinite."
        text, method = cell
        record = {
            "text": text,
            "method": method,
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
        text, method = cell
        return self.folder / "explanations" / f"{text}-{method}.json"

    def _write(self, cell: Cell, record: Mapping[str, Any]) -> None:
        text, method = cell
        whole = {"text": text, "method": method, **record}
        line = json.dumps(whole, ensure_ascii=False, allow_nan=False)
        append_line(self.folder / "log.jsonl", line)

    def _replay(self) -> None:
        """Reads what earlier runs wrote.

        A line that an interruption cut short is left out, and its work is done again.
        """
        for record in read_lines(self.folder / "log.jsonl"):
            try:
                self._take(record)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue

    def _take(self, record: Any) -> None:
        """Takes in one record of an earlier run.

        A record that is not as this class writes them raises before anything is changed.
        """
        cell = (_text(record["text"]), _text(record["method"]))
        if "made" in record:
            made = Made(float(record["made"]["seconds"]), float(record["made"]["calls"]))
            self.failed.pop(cell, None)
            self.made[cell] = made
        elif "failed" in record:
            self.failed[cell] = _text(record["failed"])
        else:
            values = {}
            for name, value in record["values"].items():
                values[name] = _number(value)
            measured = Measured(values, _text(record["reason"]))
            self.measured.setdefault(cell, {})[_text(record["metric"])] = measured


def _number(value: Any) -> float:
    """A number of the log, which has null for NaN."""
    if value is None:
        return math.nan
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is not a text")
    return value
