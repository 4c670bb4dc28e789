"""The results of a benchmark for people: the page table.md, and a few lines for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from slalom_xai.data.bench.options import BenchOptions, base_method
from slalom_xai.data.bench.results import (
    Cell,
    Log,
    ceiling_shares,
    direction_of,
    summary_table,
    without_numbers,
)
from slalom_xai.metrics import catalogue
from slalom_xai.reports.figures.canvas import look, new_figure, save
from slalom_xai.system.files import make_folder

LEVEL = 0.05  # a method is marked as worse than the best below this p
_SHOWN = 5  # methods, or rows, in one line
_REASONS = 20  # that the page lists, the most frequent first
_ARROWS = {"higher": " ↑", "lower": " ↓", "": ""}


def markdown(frame: pd.DataFrame, log: Log, options: BenchOptions) -> str:
    """The page: a table of the first number of every metric, then one for each metric."""
    heads = [(name, next(iter(catalogue()[name].gives))) for name in options.metrics]
    lines = [
        f"# Benchmark: {len(options.methods)} methods, {len(options.metrics)} metrics, "
        f"{frame['text'].nunique()} texts",
        "",
        _settings(options),
        "",
        "Means over texts with 95% bootstrap intervals. The best is **bold**; a method marked ° is "
        "not significantly worse (paired bootstrap over the texts that all methods have, "
        f"Holm-corrected, p ≥ {LEVEL}). A number in round brackets says how many texts were "
        "measured, where it was not all. Texts are named by their row in the data file, counted "
        "from 1 and without the header.",
        "",
        *table_lines(frame, heads),
    ]
    for name in options.metrics:
        lines += _section(frame, name)
    return "\n".join([*lines, *_failures(frame, log), ""])


def table_lines(frame: pd.DataFrame, numbers: Sequence[tuple[str, str]]) -> list[str]:
    """A Markdown table with a row for each method.

    Args:
        frame: results as ``tidy`` gives them.
        numbers: the metric and the name of each number.
    """
    tables = {pair: summary_table(frame, *pair).set_index("method") for pair in numbers}
    texts = frame["text"].nunique()
    titles = []
    for metric, number in numbers:
        titles.append(f"{metric}: {number}{_ARROWS[direction_of(frame, metric, number)]}")
    lines = [f"| method | {' | '.join(titles)} |", "| --- |" + " --- |" * len(numbers)]
    for method in dict.fromkeys(frame["method"]):
        cells = [_cell(tables[pair].loc[method], texts) for pair in numbers]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return lines


def summary(frame: pd.DataFrame) -> str:
    """The results in a few lines.

    For each metric its first number, the best methods first; and what has no number at all.
    """
    counts = [
        _format_count(frame[field].nunique(), field) for field in ("method", "metric", "text")
    ]
    lines = [", ".join(counts)]
    for _, row in frame.drop_duplicates("metric").iterrows():
        lines.append(_line(frame, row["metric"], row["number"]))
        shares = _shares(frame, row["metric"])
        if shares:
            lines.append(f"{row['metric']}: share of what the ceiling predicts (median): {shares}")
    empty = without_numbers(frame)
    if len(empty):
        first = empty.iloc[0]
        verb = "have"
        if len(empty) == 1:
            verb = "has"
        lines.append(
            f"{_format_count(len(empty), 'pair')} of a text and a method {verb} no number; "
            f"the first is row {first['text']}, {first['method']}: {first['why']}"
        )
    return "\n".join(lines)


def _section(frame: pd.DataFrame, metric: str) -> list[str]:
    """What one metric says, and all its numbers."""
    about = catalogue()[metric]
    lines = [
        "",
        f"## {metric}",
        "",
        f"{about.summary[:1].upper()}{about.summary[1:]}. Reference: {about.reference}.",
        "",
    ]
    for number, info in about.gives.items():
        better = ""
        if info.direction:
            better = f"{info.direction} is better, "
        lines.append(f"- {number} ({better}{info.range}): {info.says}")
    lines += ["", *table_lines(frame, [(metric, number) for number in about.gives])]
    shares = _shares(frame, metric)
    if shares:
        lines += [
            "",
            "`gp` is a Gaussian process. It explains nothing and shows what can be learnt from as "
            f"many calls. Share of its r2 that the other methods reach (median): {shares}.",
        ]
    return lines


def _shares(frame: pd.DataFrame, metric: str) -> str:
    """What methods explain of what the ceiling explains, the most first; empty without one."""
    shares = ceiling_shares(frame, metric)
    ordered = sorted(shares.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{method} {share:.0%}" for method, share in ordered)


def _line(frame: pd.DataFrame, metric: str, number: str) -> str:
    """The methods with the best means of a number."""
    table = summary_table(frame, metric, number).dropna(subset=["mean"])
    title = f"{metric}: {number}"
    direction = direction_of(frame, metric, number)
    if direction:
        title += f" ({direction} is better)"
        table = table.sort_values("mean", ascending=direction == "lower", kind="stable")
    if table.empty:
        return f"{title}: no text has a number"
    best = [f"{row['method']} {_short(row['mean'])}" for _, row in table.head(_SHOWN).iterrows()]
    line = f"{title}: {', '.join(best)}"
    if len(table) > _SHOWN:
        line += f" and {len(table) - _SHOWN} more"
    return line


def _settings(options: BenchOptions) -> str:
    budget = "chosen from the text"
    if options.budget is not None:
        budget = str(options.budget)
    cut = ""
    if options.truncation:
        cut = ", long texts cut"
    return (
        f"Budget {budget} calls, units: {options.granularity}, removal: {options.removal}, "
        f"seed {options.seed}{cut}."
    )


def _cell(row: pd.Series, texts: int) -> str:
    """A mean with its interval; the number of texts in round brackets where some have none."""
    if not row["texts"]:
        return "–"
    shown = _short(row["mean"])
    if row["best"]:
        shown = f"**{shown}**"
    elif row["p"] >= LEVEL:
        shown += "°"
    if not math.isnan(row["low"]):
        shown += f" [{_short(row['low'])}, {_short(row['high'])}]"
    if row["texts"] != texts:
        shown += f" ({row['texts']})"
    return shown


def _short(number: float) -> str:
    """A number with three digits."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.3g}"


def _format_count(number: int, what: str) -> str:
    """A number and what it counts, such as "1 text" or "3 texts"."""
    if number == 1:
        return f"{number} {what}"
    return f"{number} {what}s"


def _failures(frame: pd.DataFrame, log: Log) -> list[str]:
    """What has no explanation, and why: the most frequent reasons first, each with its rows."""
    failed = _failed(frame, log)
    if not failed:
        return []
    rows_by_reason: dict[str, list[str]] = {}
    for (row, method), reason in failed.items():
        rows_by_reason.setdefault(f"{method}: {reason}", []).append(row)
    lines = [
        "",
        "## Failures",
        "",
        f"{_format_count(len(failed), 'explanation')} could not be made.",
        "",
    ]
    frequent = sorted(rows_by_reason.items(), key=lambda entry: -len(entry[1]))
    for reason, rows in frequent[:_REASONS]:
        lines.append(f"- {len(rows)} × {reason} ({_named_rows(rows)})")
    return lines


def _failed(frame: pd.DataFrame, log: Log) -> dict[Cell, str]:
    """Why explanations could not be made, of these texts by these methods, in the order of rows."""
    texts, methods = set(frame["text"]), set(map(base_method, frame["method"]))
    cells = [cell for cell in log.failed if cell[0] in texts and cell[1] in methods]
    cells.sort(key=lambda cell: int(cell[0]))
    return {cell: log.failed[cell] for cell in cells}


def _named_rows(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += ", …"
    if len(names) > 1:
        return f"rows {shown}"
    return f"row {shown}"


# The results of a benchmark as figures.


BEST, REST = "#2166ac", "#9db8d2"  # colours of the best method and of the others
_WIDTH = 6.4  # of a figure, in inches
_FRAME = 0.6  # what the axis and its label take of the height, in inches
_BAR = 0.34  # what each bar adds to the height, in inches


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """One bar chart for the first number of each metric, as SVG; returns the files.

    Args:
        frame: results as ``tidy`` gives them.
        folder: where to save; created where it is missing.

    Raises:
        InputError: matplotlib is not installed, or a file cannot be written.
    """
    make_folder("--out", folder)
    files = []
    for metric, rows in frame.groupby("metric", sort=False):
        number = str(rows["number"].iloc[0])
        table = summary_table(frame, str(metric), number).dropna(subset=["mean"])
        if table.empty:
            continue
        title = f"{metric}: {number}"
        direction = rows["direction"].iloc[0]
        if direction:
            title += f" ({direction} is better)"
        path = folder / f"{metric}.svg"
        _bar_chart(table, title, path)
        files.append(path)
    return files


def _bar_chart(table: pd.DataFrame, title: str, path: Path) -> None:
    """Draws a bar with its interval for each method.

    Args:
        table: as ``summary_table`` gives it, with a mean in each row.
        title: what the bars show.
        path: where to save.
    """
    means = table["mean"].to_numpy()
    ends = table[["low", "high"]].to_numpy().T  # (2, methods)
    colours = []
    for is_best in table["best"]:
        colours.append(BEST if is_best else REST)
    with look(table["method"]):
        figure = new_figure(title, _WIDTH, _FRAME + _BAR * len(table))
        axes = figure.add_subplot()
        axes.barh(
            table["method"],
            means,
            xerr=np.nan_to_num(np.abs(ends - means)),
            color=colours,
            error_kw={"elinewidth": 1, "capsize": 2},
        )
        axes.invert_yaxis()
        axes.set_xlabel(title)
        save(figure, path)
