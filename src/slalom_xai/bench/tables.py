"""The results of a benchmark as a tidy frame and as tables for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from slalom_xai.bench.log import Cell, Log
from slalom_xai.bench.options import BenchOptions, base_method
from slalom_xai.errors import InputError
from slalom_xai.metrics import Interval, against_best, bootstrap, catalogue

_SHOWN = 5  # methods, or rows, in one line
LEVEL = 0.05  # a method is marked as worse than the best below this p


def tidy(log: Log, texts: Sequence[str], options: BenchOptions) -> pd.DataFrame:
    """One row per text, method and number.

    Columns: text (its row in the data file, counted from 1, the header left out), method, metric, number, value (NaN where there
    is none), direction (empty for a number that is only context), why (a value is missing).
    """
    rows = []
    for text in texts:
        for method in options.methods:
            for name in options.metrics:
                gives = catalogue()[name].gives
                found = log.measured.get((text, method), {}).get(name)
                failed = log.failed.get((text, base_method(method)), "")
                for number, about in gives.items():
                    value = (
                        math.nan if found is None or failed else found.values.get(number, math.nan)
                    )
                    why = failed or (
                        "" if found is None else found.reason if math.isnan(value) else ""
                    )
                    rows.append((text, method, name, number, value, about.direction or "", why))
    return pd.DataFrame(
        rows, columns=["text", "method", "metric", "number", "value", "direction", "why"]
    )


def summary_table(frame: pd.DataFrame, metric: str, number: str, seed: int = 0) -> pd.DataFrame:
    """For each method the mean of a number over texts, its interval, and the test against the best.

    Columns: method, mean, low, high, texts, best (whether it is the best), p (Holm-corrected, against the best; NaN where it cannot be tested).
    """
    chosen = frame[(frame["metric"] == metric) & (frame["number"] == number)]
    wide = chosen.pivot(index="text", columns="method", values="value")[
        list(dict.fromkeys(chosen["method"]))
    ]
    direction = str(chosen["direction"].iloc[0])
    intervals: dict[str, Interval] = {
        name: bootstrap(wide[name].to_numpy(), seed=seed) for name in wide.columns
    }
    answered = {name: wide[name].to_numpy() for name in wide.columns if intervals[name].texts}
    try:
        compared = against_best(answered, direction, seed=seed) if answered and direction else {}
    except InputError:  # no text has a number for every method
        compared = {}
    rows = []
    for name, interval in intervals.items():
        comparison = compared.get(name)
        best = comparison is not None and comparison.best == name
        rows.append(
            (
                name,
                interval.mean,
                interval.low,
                interval.high,
                interval.texts,
                best,
                comparison.p_holm if comparison else math.nan,
            )
        )
    return pd.DataFrame(rows, columns=["method", "mean", "low", "high", "texts", "best", "p"])


def markdown(frame: pd.DataFrame, log: Log, options: BenchOptions) -> str:
    """The results for people: one table of the first number of every metric, then one per metric with all its numbers."""
    heads = {name: next(iter(catalogue()[name].gives)) for name in options.metrics}
    lines = [
        f"# Benchmark: {len(options.methods)} methods, {len(options.metrics)} metrics, {frame['text'].nunique()} texts",
        "",
        _settings(options),
        "",
        "Means over texts with 95% bootstrap intervals. The best is **bold**; a method marked ° is not significantly worse (paired "
        f"bootstrap over the texts that all methods have, Holm-corrected, p ≥ {LEVEL}). A number in round brackets says how many texts were measured, where it was not all. "
        "Texts are named by their row in the data file, counted from 1 and without the header.",
        "",
        *_table(frame, list(heads.items())),
    ]
    for name in options.metrics:
        about = catalogue()[name]
        lines += [
            "",
            f"## {name}",
            "",
            f"{about.summary[:1].upper()}{about.summary[1:]}. Reference: {about.reference}.",
            "",
        ]
        lines += [
            f"- {number} ({_better(info.direction)}{info.range}): {info.says}"
            for number, info in about.gives.items()
        ]
        lines += ["", *_table(frame, [(name, number) for number in about.gives])]
    return "\n".join([*lines, *_failures(frame, log), ""])


def summary(frame: pd.DataFrame) -> str:
    """The results in a few lines: for each metric its first number, the best methods first, and what has no number at all."""
    heads = frame.drop_duplicates("metric")
    counts = [_counted(frame[column].nunique(), column) for column in ("method", "metric", "text")]
    lines = [
        ", ".join(counts),
        *(_line(frame, row["metric"], row["number"]) for _, row in heads.iterrows()),
    ]
    empty = without_numbers(frame)
    if len(empty):
        first = empty.iloc[0]
        which = f"{_counted(len(empty), 'pair')} of a text and a method {'has' if len(empty) == 1 else 'have'} no number"
        lines.append(
            f"{which}; the first is row {first['text']}, {first['method']}: {first['why']}"
        )
    return "\n".join(lines)


def without_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The first row of each text and method for which no metric has a number."""
    cells = frame.groupby(["text", "method"], sort=False)["value"].transform("count")
    return frame[cells == 0].drop_duplicates(["text", "method"])


def _line(frame: pd.DataFrame, metric: str, number: str) -> str:
    direction = _direction(frame, metric, number)
    table = summary_table(frame, metric, number).dropna(subset=["mean"])
    if direction:
        table = table.sort_values("mean", ascending=direction == "lower", kind="stable")
    found = [f"{row['method']} {_short(row['mean'])}" for _, row in table.head(_SHOWN).iterrows()]
    more = len(table) - len(found)
    shown = (
        ", ".join(found) + (f" and {more} more" if more else "")
        if found
        else "no text has a number"
    )
    return f"{metric}: {number}{f' ({direction} is better)' if direction else ''}: {shown}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _better(direction: str | None) -> str:
    return f"{direction} is better, " if direction else ""


def _settings(options: BenchOptions) -> str:
    budget = "chosen from the text" if options.budget is None else str(options.budget)
    cut = ", long texts cut" if options.truncation else ""
    return f"Budget {budget} calls, units: {options.granularity}, removal: {options.removal}, seed {options.seed}{cut}."


def _table(frame: pd.DataFrame, numbers: Sequence[tuple[str, str]]) -> list[str]:
    columns = {pair: summary_table(frame, *pair).set_index("method") for pair in numbers}
    texts = frame["text"].nunique()
    arrows = {"higher": " ↑", "lower": " ↓", "": ""}
    titles = [
        f"{metric}: {number}{arrows[_direction(frame, metric, number)]}"
        for metric, number in numbers
    ]
    lines = [f"| method | {' | '.join(titles)} |", "| --- |" + " --- |" * len(numbers)]
    for method in dict.fromkeys(frame["method"]):
        cells = [_cell(columns[pair].loc[method], texts) for pair in numbers]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def _direction(frame: pd.DataFrame, metric: str, number: str) -> str:
    return str(
        frame[(frame["metric"] == metric) & (frame["number"] == number)]["direction"].iloc[0]
    )


def _cell(row: pd.Series, texts: int) -> str:
    """A mean with its interval; the number of texts in round brackets where some have no number."""
    if not row["texts"]:
        return "–"
    mean = _short(row["mean"])
    shown = f"**{mean}**" if row["best"] else f"{mean}°" if row["p"] >= LEVEL else mean
    if not math.isnan(row["low"]):
        shown += f" [{_short(row['low'])}, {_short(row['high'])}]"
    return shown if row["texts"] == texts else f"{shown} ({row['texts']})"


def _short(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _failed(frame: pd.DataFrame, log: Log) -> dict[Cell, str]:
    """Why explanations of these texts by these methods could not be made, in the order of the rows."""
    texts, methods = set(frame["text"]), set(map(base_method, frame["method"]))
    found = {
        cell: reason
        for cell, reason in log.failed.items()
        if cell[0] in texts and cell[1] in methods
    }
    return dict(sorted(found.items(), key=lambda entry: int(entry[0][0])))


def _failures(frame: pd.DataFrame, log: Log) -> list[str]:
    """What has no explanation, and why: the most frequent reasons first, each with its rows."""
    failed = _failed(frame, log)
    if not failed:
        return []
    rows: dict[str, list[str]] = {}
    for (row, method), reason in failed.items():
        rows.setdefault(f"{method}: {reason}", []).append(row)
    lines = [
        "",
        "## Failures",
        "",
        f"{_counted(len(failed), 'explanation')} could not be made.",
        "",
    ]
    frequent = sorted(rows.items(), key=lambda entry: -len(entry[1]))[:20]
    return [*lines, *(f"- {len(where)} × {reason} ({_rows(where)})" for reason, where in frequent)]


def _rows(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"row{'s' if len(names) > 1 else ''} {shown}"
