"""The comparison as a table and as targets that are met or missed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from research.benchmarks.published.compare import TextComparison
from research.benchmarks.published.texts import Array

LEAST_RANKS = {"values": 0.95, "importances": 0.9}  # mean rank correlations that are aimed at
LARGEST_RATIO = 1.1  # of the errors of fidel on any text


def table(comparisons: Sequence[TextComparison]) -> str:
    """Markdown, a line per text and the mean, least and greatest of each field."""
    names = [field.name for field in fields(TextComparison)]
    lines = [_line([name.replace("_", " ") for name in names]), _line(["---"] * len(names))]
    for comparison in comparisons:
        lines.append(_line([f"{number:.4g}" for number in asdict(comparison).values()]))
    for label, function in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        numbers = [float(function(entries(comparisons, name))) for name in names[1:]]
        lines.append(_line([f"**{label}**", *(f"{number:.4g}" for number in numbers)]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def entries(comparisons: Sequence[TextComparison], name: str) -> Array:
    """One field of all texts."""
    return np.array([getattr(comparison, name) for comparison in comparisons], dtype=np.float64)


def verdicts(comparisons: Sequence[TextComparison]) -> list[str]:
    """One line per target."""
    worst = float(entries(comparisons, "fidel_ratio").max())
    return [
        *_rank_verdicts(comparisons, "", "as shipped"),
        *_rank_verdicts(comparisons, "_trained", "on the same rows, trained for long"),
        *(_error_verdict(comparisons, name) for name in ("eff_short", "eff_deletions", "fidel")),
        _verdict(
            f"fidel: no text above {LARGEST_RATIO} times the published error",
            f"at most {worst:.3g} times",
            worst <= LARGEST_RATIO,
        ),
    ]


def _rank_verdicts(comparisons: Sequence[TextComparison], suffix: str, how: str) -> list[str]:
    lines = []
    for score, least in LEAST_RANKS.items():
        ranks = entries(comparisons, f"{score}_rank{suffix}")
        if np.isnan(ranks).any():  # left out
            continue
        target = f"eff, {score}: rank correlation with the published {how} at least {least}"
        measured = f"mean {ranks.mean():.3f}, least {ranks.min():.3f}"
        lines.append(_verdict(target, measured, bool(ranks.mean() >= least)))
    return lines


def _error_verdict(comparisons: Sequence[TextComparison], name: str) -> str:
    ours = float(entries(comparisons, name).mean())
    theirs = float(entries(comparisons, f"{name}_published").mean())
    target = f"{name.replace('_', ', ')}: mean error at most the published"
    return _verdict(target, f"{ours:.4g} against {theirs:.4g}", ours <= theirs)


def _verdict(target: str, measured: str, met: bool) -> str:
    verdict = "MISSED"
    if met:
        verdict = "met"
    return f"- {target}: {measured}: {verdict}"


def save(comparisons: Sequence[TextComparison], path: Path) -> None:
    """Writes a CSV file, a line per text."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(TextComparison)])
        writer.writeheader()
        writer.writerows(asdict(comparison) for comparison in comparisons)
