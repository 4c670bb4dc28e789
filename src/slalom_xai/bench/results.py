"""The results of a benchmark as numbers: a tidy frame, and means over texts with intervals."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import pandas as pd

from slalom_xai.bench.log import Log
from slalom_xai.bench.options import BenchOptions, base_method
from slalom_xai.errors import InputError
from slalom_xai.estimators import GaussianProcess
from slalom_xai.metrics import Comparison, Measured, against_best, bootstrap, catalogue

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
