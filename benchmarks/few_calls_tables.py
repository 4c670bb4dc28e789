"""Tables of ``benchmarks/few_calls.py``, from the lines that it wrote.

Ratios are of geometric means over texts. Shares are of variances summed over texts. Intervals hold
90%, from drawing texts with replacement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

REGIMES = {"local": "few", "wide": "any"}  # deletions, as a table names them
YARDSTICKS = {"linear": "linear", "gp": "gp", "gp_all": "gp, all", "places": "gp with places"}
BOOTSTRAPS = 2000  # draws of texts
ENDS = (0.05, 0.95)
BY = ["model", "group", "budget"]

Numbers = NDArray[np.float64]


def print_tables(paths: Sequence[Path]) -> None:
    """Prints all tables."""
    lines = [line for path in paths for line in path.read_text().splitlines()]
    rows = pd.json_normalize([json.loads(line) for line in lines])
    if "failed" in rows:
        errors = rows[rows["kind"] == "errors"]
        for reason, count in errors["failed"].value_counts().items():
            print(f"left out: {count} texts at a budget, {reason}")
    else:
        rows["failed"] = None
    measured = rows[(rows["kind"] == "errors") & rows["failed"].isna()]
    if len(measured):
        _print_ratios(measured)
        _print_shares(measured)
    race = rows[rows["kind"] == "race"]
    if len(race):  # a race that was stopped is begun anew
        once = ["model", "seed", "group", "text", "method", "budget"]
        _print_race(race.drop_duplicates(once, keep="last"))


def _print_ratios(rows: pd.DataFrame) -> None:
    """Errors of ``slalom`` over those of the yardsticks."""
    print("\nError of `slalom` over that of a yardstick on as many calls, few deletions and any:\n")
    names = [f"{regime} / {name}" for name in YARDSTICKS.values() for regime in REGIMES.values()]
    _print_head(["model", "texts", "number", "calls", *names])
    for (model, group, budget), some in rows.groupby(BY, sort=False):
        cells = [model, group, len(some), budget]
        for name in YARDSTICKS:
            for regime in REGIMES:
                ratios = some[f"slalom.{regime}"] / some[f"{name}.{regime}"]
                cells.append(_geometric(ratios.to_numpy()))
        _print_line(cells)


def _print_shares(rows: pd.DataFrame) -> None:
    """What is explained, and what the two scores explain of it; the time."""
    print("\nVariance of changes that `slalom` explains, and how much of that its two scores do:\n")
    names = [*REGIMES.values(), *(f"{name}, two scores" for name in REGIMES.values())]
    _print_head(["model", "texts", "number", "calls", *names, "seconds"])
    for (model, group, budget), some in rows.groupby(BY, sort=False):
        shares, parts = [], []
        for regime in REGIMES:
            variance = some[f"variance.{regime}"].to_numpy()
            explained = variance - some[f"slalom.{regime}"].to_numpy()
            shares.append(_share(explained, variance))
            parts.append("")
            if f"two_scores.{regime}" in some:
                there = some[f"two_scores.{regime}"].notna().to_numpy()
                alone = variance - some[f"two_scores.{regime}"].to_numpy()
                parts[-1] = _share(alone[there], explained[there])
        seconds = f"{some['seconds'].mean():.2f}"
        _print_line([model, group, len(some), budget, *shares, *parts, seconds])


def _print_race(rows: pd.DataFrame) -> None:
    """The fewest calls with which a method reaches the wide error of LIME, and both times."""
    print("\nThe fewest calls with which a method reaches the error of LIME, any deletions:\n")
    columns = ["model", "texts", "number", "`lime`: calls", "error", "seconds"]
    _print_head([*columns, "method", "calls", "error", "seconds", "times faster"])
    racers = [method for method in rows["method"].unique() if method != "lime"]
    for method in racers:
        for (model, group), some in rows.groupby(["model", "group"], sort=False):
            _print_line([model, group, *_race_cells(some, method)])
        for model, some in rows.groupby("model", sort=False):
            _print_line([model, "all", *_race_cells(some, method)])


def _race_cells(rows: pd.DataFrame, method: str) -> list[object]:
    """Only texts that LIME explained count, and budgets that all of them allow."""
    lime = rows[(rows["method"] == "lime") & rows["failed"].isna()]
    if not len(lime):
        return [0, *[""] * 3, f"`{method}`", "no result of `lime`", *[""] * 3]
    aim = _mean_error(lime)
    cells: list[object] = [len(lime), lime["budget"].iloc[0], f"{aim:.3g}"]
    cells.append(f"{lime['seconds'].mean():.2f}")
    texts = pd.MultiIndex.from_frame(lime[["seed", "group", "text"]])
    cells.append(f"`{method}`")
    ours = rows[(rows["method"] == method) & rows["failed"].isna()]
    ours = ours[pd.MultiIndex.from_frame(ours[["seed", "group", "text"]]).isin(texts)]
    for budget, some in ours.groupby("budget"):
        error = _mean_error(some)
        if len(some) == len(lime) and error <= aim:
            times = lime["seconds"].mean() / some["seconds"].mean()
            return [*cells, budget, f"{error:.3g}", f"{some['seconds'].mean():.2f}", f"{times:.1f}"]
    return [*cells, "none of them", *[""] * 3]


def _mean_error(rows: pd.DataFrame) -> float:
    """The geometric mean of wide errors."""
    return float(np.exp(np.log(rows["wide"]).mean()))


def _geometric(ratios: Numbers) -> str:
    """The geometric mean of ratios, which is the ratio of geometric means."""
    logs = np.log(ratios)
    low, high = np.exp(np.quantile(logs[_drawn(len(logs))].mean(axis=1), ENDS))
    return f"{np.exp(logs.mean()):.2f} [{low:.2f}, {high:.2f}]"


def _share(part: Numbers, whole: Numbers) -> str:
    """One sum over another."""
    if not len(part):
        return ""
    drawn = _drawn(len(part))
    low, high = np.quantile(part[drawn].sum(axis=1) / whole[drawn].sum(axis=1), ENDS)
    return f"{part.sum() / whole.sum():.0%} [{low:.0%}, {high:.0%}]"


def _drawn(texts: int) -> NDArray[np.int64]:
    """Texts drawn with replacement, (draws, texts)."""
    return np.random.default_rng(0).integers(texts, size=(BOOTSTRAPS, texts))


def _print_head(names: Sequence[str]) -> None:
    _print_line(names)
    _print_line(["---"] * len(names))


def _print_line(cells: Sequence[object]) -> None:
    print(f"| {' | '.join(map(str, cells))} |")
