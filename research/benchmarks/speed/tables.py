"""Tables of results, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from research.benchmarks.speed.measure import ratio
from research.benchmarks.speed.reached import reached_table
from research.benchmarks.speed.targets import targets

Record = dict[str, Any]


def tables(records: list[Record]) -> str:
    """Everything that was measured, as Markdown."""
    parts: dict[str, list[Record]] = {}
    for one in records:
        parts.setdefault(one["part"], []).append(one)
    errors = parts.get("errors", [])
    grown = parts.get("growth", []) + parts.get("memory", [])
    calls = latest(parts.get("calls", []), ("model", "machine", "budget", "tokens", "method"))
    points = latest(grown, ("part", "model", "machine", "method", "axis", "at"))
    sections = {
        "The same number of calls": calls_table(calls, parts.get("calls-memory", [])),
        "The time to an error": reached_table(errors),
        "Growth": growth_table(points),
        "Targets": targets(calls, errors, grown),
    }
    lines = [f"- {where}" for where in sorted({_where(one) for one in records})]
    for title, section in sections.items():
        if section:
            lines += ["", f"## {title}", "", *section]
    return "\n".join(lines)


def _where(one: Record) -> str:
    versions = f"torch {one['torch']}, transformers {one['transformers']}"
    return f"{one['machine']}, {versions}, {one['date']}"


def latest(records: Iterable[Record], keys: Sequence[str]) -> list[Record]:
    """The last of records that measure the same."""
    return list({tuple(one.get(key) for key in keys): one for one in records}.values())


def calls_table(records: list[Record], memory: list[Record]) -> list[str]:
    """The same number of calls; memory on a CPU was measured apart."""
    if not records:
        return []
    peaks = {_case(one): one.get("memory") for one in memory}
    lines = [
        "| model | tokens | method | calls | distinct | seconds | floor | over the floor | "
        "MiB | local error | wide error |",
        _rule(11),
    ]
    lines += [_calls_line(one, peaks.get(_case(one))) for one in records]
    notes = dict.fromkeys(f"{one['model']}: {one['note']}" for one in records)
    return [*lines, "", *(f"- {note}" for note in notes)]


def _case(one: Record) -> tuple[Any, ...]:
    return one["model"], one["budget"], one["tokens"], one["method"]


def _calls_line(one: Record, peak: float | None) -> str:
    start = f"| {one['model']} | {one['tokens']} | `{one['method']}` |"
    if "failed" in one or not one["seconds"]:
        return f"{start} {one['budget']} | {one.get('failed', 'no time left')} |"
    if one["memory"] is not None:
        peak = one["memory"]
    return (
        f"{start} {one['calls']} | {one['distinct']} | {_times(one)} "
        f"| {_mib(peak)} | {one['local']:.3g} | {one['wide']:.3g} |"
    )


def _times(one: Record) -> str:
    """Seconds, the floor's seconds, and the median of their ratios."""
    over = ratio(one["seconds"], one["floor"])
    return f"{median(one['seconds'])} | {median(one['floor'])} | {over:.2f}"


def _mib(memory: float | None) -> str:
    if memory is None:
        return ""
    return f"{memory:.0f}"


def _rule(fields: int) -> str:
    """The line below the names of a table's fields."""
    return "| " + " | ".join(["---"] * fields) + " |"


def median(seconds: Sequence[float]) -> str:
    """The median with three digits."""
    return f"{statistics.median(seconds):.3g}"


def growth_table(records: list[Record]) -> list[str]:
    """Curves, a line each point."""
    if not records:
        return []
    head = "| model | method | | at | rows | seconds | floor | over the floor | MiB |"
    return [head, _rule(9), *(_growth_line(one) for one in records)]


def _growth_line(one: Record) -> str:
    axis, at = one.get("axis", "tokens"), one.get("at", one.get("tokens"))
    start = f"| {one['model']} | `{one['method']}` | {axis} | {at} |"
    memory = _mib(one.get("memory"))
    if one.get("seconds"):
        return f"{start} {one['distinct']} | {_times(one)} | {memory} |"
    once = one.get("once", one.get("failed", ""))
    return f"{start} {one.get('budget', '')} | {once} | | | {memory} |"
