"""Tables of ``answers``: means over prompts, and differences prompt by prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.benchmarks.results_file import read
from slalom_xai.metrics.statistics import Interval, bootstrap

BASE = "contextcite"  # what the others are compared with
TITLES = {
    "half rank": "rank correlation, half of the sources kept",
    "half r2": "R², half kept",
    "size rank": "rank correlation, any number kept",
    "size r2": "R², any number kept",
    "drop 1": "fall of the log probability without the top source",
    "drop 3": "without the top 3",
    "drop 5": "without the top 5",
}
# Prompts whose rows differ by little have an R² far below 0 for any prediction that is a bit off.
# They would decide a mean, so R² counts as at least this.
LEAST_R2 = -1.0


def print_tables(paths: list[Path]) -> None:
    """Prints a table for each number that was measured."""
    lines = read(paths)
    kinds = sorted({line["kind"] for line in lines})
    counts = ", ".join(f"{sum(line['kind'] == kind for line in lines)} {kind}" for kind in kinds)
    sources = [line["sources"] for line in lines]
    print(f"{len(lines)} prompts ({counts}) with {min(sources)} to {max(sources)} sources")
    names = {name for line in lines for name in line["numbers"]}
    methods = sorted({name.rsplit(" ", 1)[0] for name in names})
    budgets = sorted({int(name.rsplit(" ", 1)[1]) for name in names})
    for number, title in TITLES.items():
        if not any(number in found for line in lines for found in line["numbers"].values()):
            continue
        floor = f"; a prompt counts as at least {LEAST_R2:g}" if number.endswith("r2") else ""
        print(f"\n{title}; in brackets the difference from {BASE}, 95% interval{floor}")
        print("| method | " + " | ".join(f"{budget} calls" for budget in budgets) + " |")
        print("| --- |" + " --- |" * len(budgets))
        for method in methods:
            cells = [_cell(lines, method, budget, number) for budget in budgets]
            print(f"| {method} | " + " | ".join(cells) + " |")


def _cell(lines: list[dict[str, object]], method: str, budget: int, number: str) -> str:
    """A mean, and how it differs from the base on the same prompts."""
    own, base = (_numbers(lines, f"{name} {budget}", number) for name in (method, BASE))
    if np.isnan(own).all():
        return "–"
    mean = bootstrap(own)
    told = f"{mean.mean:.3f}" if mean.texts == len(lines) else f"{mean.mean:.3f} ({mean.texts})"
    if method == BASE or np.isnan(own - base).all():
        return told
    return f"{told} [{_signed(bootstrap(own - base))}]"


def _signed(difference: Interval) -> str:
    return f"{difference.mean:+.3f}, {difference.low:+.3f} to {difference.high:+.3f}"


def _numbers(lines: list[dict[str, object]], name: str, number: str) -> NDArray[np.float64]:
    """One number per prompt; NaN where the method has none."""
    found = []
    for line in lines:
        numbers = line["numbers"]
        assert isinstance(numbers, dict)
        value = float(numbers.get(name, {}).get(number, np.nan))
        found.append(max(value, LEAST_R2) if number.endswith("r2") else value)
    return np.array(found)
