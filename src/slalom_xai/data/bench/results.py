"""The results of a benchmark as numbers: a tidy frame, and means over texts with intervals."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from slalom_xai.data.bench.options import BenchOptions, base_method
from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.methods import GaussianProcess
from slalom_xai.metrics import Comparison, Measured, against_best, bootstrap, catalogue
from slalom_xai.system.files import append_line, make_folder
from slalom_xai.system.result_folder import open_folder, read_lines

# What a benchmark has done so far, on disk: a second run resumes where the first stopped.
#
# The folder holds settings.json, which says what must not change between runs; explanations/, a
# file for each; and log.jsonl, a line for each explanation that was made, each that failed and
# each metric that was computed. Several processes may add lines at the same time.


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


# The results of a benchmark as numbers: a tidy frame, and means over texts with intervals.


_FIELDS = ("text", "method", "metric", "number", "value", "direction", "why")
_SUMMARY_FIELDS = ("method", "mean", "low", "high", "texts", "best", "p")


def tidy(log: Log, texts: Sequence[str], options: BenchOptions) -> pd.DataFrame:
    """One row per text, method and number.

    The fields are text (its row in the data file, counted from 1, the header left out), method,
    metric, number, value (NaN where there is none), direction (empty for a number that is only
    context), and why (a value is missing).

    Args:
        log: what was measured.
        texts: the names of the texts, in the order of the rows.
        options: settled ones.
    """
    rows = []
    for text in texts:
        for method in options.methods:
            for metric in options.metrics:
                for number, value, why in _values(log, text, method, metric):
                    direction = catalogue()[metric].gives[number].direction or ""
                    rows.append((text, method, metric, number, value, direction, why))
    return pd.DataFrame(rows, columns=list(_FIELDS))


def _values(log: Log, text: str, method: str, metric: str) -> Iterator[tuple[str, float, str]]:
    """Each number of a metric: its name, its value, and why it has none."""
    failed = log.failed.get((text, base_method(method)), "")
    measured = log.measured.get((text, method), {}).get(metric)
    if measured is None or failed:
        measured = Measured({}, failed)
    for number in catalogue()[metric].gives:
        value = measured.values.get(number, math.nan)
        why = ""
        if math.isnan(value):
            why = measured.reason
        yield number, value, why


def summary_table(frame: pd.DataFrame, metric: str, number: str, seed: int = 0) -> pd.DataFrame:
    """For each method the mean of a number over texts, its interval, and the test against the best.

    The fields are method, mean, low, high, texts (how many have a number), best (whether it is the
    best), and p (Holm-corrected, against the best; NaN where it cannot be tested).
    """
    chosen = frame[(frame["metric"] == metric) & (frame["number"] == number)]
    methods = list(dict.fromkeys(chosen["method"]))
    wide = chosen.pivot(index="text", columns="method", values="value")
    numbers = {method: wide[method].to_numpy() for method in methods}  # (texts,) each
    intervals = {method: bootstrap(numbers[method], seed=seed) for method in methods}
    answered = {method: numbers[method] for method in methods if intervals[method].texts}
    direction = str(chosen["direction"].iloc[0])
    compared: dict[str, Comparison] = {}
    if answered and direction:
        with contextlib.suppress(InputError):  # no text has a number for every method
            compared = against_best(answered, direction, seed=seed)
    rows = []
    for method, interval in intervals.items():
        is_best, p = False, math.nan
        if method in compared:
            is_best = compared[method].best == method
            p = compared[method].p_holm
        rows.append(
            (method, interval.mean, interval.low, interval.high, interval.texts, is_best, p)
        )
    return pd.DataFrame(rows, columns=list(_SUMMARY_FIELDS))


def ceiling_shares(frame: pd.DataFrame, metric: str) -> dict[str, float]:
    """What each method explains of what the ceiling explains, the median over texts.

    Of r2, on the texts of which the ceiling explains something. Empty where the ceiling (``gp``)
    was not measured, or the metric has no r2.

    Args:
        frame: results as ``tidy`` gives them.
        metric: such as fidelity-wide.
    """
    chosen = frame[(frame["metric"] == metric) & (frame["number"] == "r2")]
    ceiling = GaussianProcess.name
    if ceiling not in set(chosen["method"]):
        return {}
    wide = chosen.pivot(index="text", columns="method", values="value")
    shares = {}
    for method in dict.fromkeys(chosen["method"]):
        share = (wide[method] / wide[ceiling])[wide[ceiling] > 0].median()
        if method != ceiling and not math.isnan(share):
            shares[method] = float(share)
    return shares


def without_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The first row of each text and method for which no metric has a number."""
    counts = frame.groupby(["text", "method"], sort=False)["value"].transform("count")
    return frame[counts == 0].drop_duplicates(["text", "method"])


def direction_of(frame: pd.DataFrame, metric: str, number: str) -> str:
    """Which is better of a number, "higher" or "lower"; empty for context."""
    rows = frame[(frame["metric"] == metric) & (frame["number"] == number)]
    return str(rows["direction"].iloc[0])
