"""Tables of results, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.speed.measure import ratio
from benchmarks.speed.reached import reached_table
from benchmarks.speed.targets import targets

Record = dict[str, Any]


def tables(records: list[Record]) -> str:
    """Everything that was measured, as Markdown."""
    parts = {
        part: [one for one in records if one["part"] == part]
        for part in ("calls", "calls-memory", "errors", "growth", "memory")
    }
    calls = latest(parts["calls"], ("model", "machine", "budget", "tokens", "method"))
    sections = [
        ("The same number of calls", calls_table(calls, parts["calls-memory"])),
        ("The time to an error", reached_table(parts["errors"])),
        (
            "Growth",
            growth_table(
                latest(
                    parts["growth"] + parts["memory"],
                    ("part", "model", "machine", "method", "axis", "at"),
                )
            ),
        ),
        ("Targets", targets(calls, parts["errors"], parts["growth"] + parts["memory"])),
    ]
    wheres = sorted(
        {
            (
                f"{one['machine']}, torch {one['torch']}, transformers {one['transformers']}, "
                f"{one['date']}"
            )
            for one in records
        }
    )
    return "\n".join(
        [
            *(f"- {where}" for where in wheres),
            *(
                line
                for title, lines in sections
                if lines
                for line in ("", f"## {title}", "", *lines)
            ),
        ]
    )


def latest(records: Iterable[Record], keys: Sequence[str]) -> list[Record]:
    """The last of records that measure the same."""
    return list({tuple(one.get(key) for key in keys): one for one in records}.values())


def calls_table(records: list[Record], memory: list[Record]) -> list[str]:
    """The same number of calls."""
    if not records:
        return []
    peaks = {
        (one["model"], one["budget"], one["tokens"], one["method"]): one.get("memory")
        for one in memory
    }
    lines = [
        (
            "| model | tokens | method | calls | distinct | seconds | floor | over the floor | "
            "MiB | local error | wide error |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in records:
        if "failed" in one or not one["seconds"]:
            lines.append(
                f"| {one['model']} | {one['tokens']} | `{one['method']}` | {one['budget']} | "
                f"{one.get('failed', 'no time left')} |"
            )
            continue
        peak = (
            one["memory"]
            if one["memory"] is not None
            else peaks.get((one["model"], one["budget"], one["tokens"], one["method"]))
        )
        lines.append(
            f"| {one['model']} | {one['tokens']} | `{one['method']}` | {one['calls']} | "
            f"{one['distinct']} "
            f"| {median(one['seconds'])} | {median(one['floor'])} | "
            f"{ratio(one['seconds'], one['floor']):.2f} "
            f"| {'' if peak is None else f'{peak:.0f}'} | {one['local']:.3g} | {one['wide']:.3g} |"
        )
    notes = dict.fromkeys(f"{one['model']}: {one['note']}" for one in records)
    return [*lines, "", *(f"- {note}" for note in notes)]


def median(seconds: Sequence[float]) -> str:
    """The median with three digits."""
    return f"{statistics.median(seconds):.3g}"


def growth_table(records: list[Record]) -> list[str]:
    """Curves, a line each point."""
    if not records:
        return []
    lines = [
        "| model | method | | at | rows | seconds | floor | over the floor | MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in records:
        peak = "" if one.get("memory") is None else f"{one['memory']:.0f}"
        start = (
            f"| {one['model']} | `{one['method']}` | {one.get('axis', 'tokens')} | "
            f"{one.get('at', one.get('tokens'))} "
        )
        if one.get("seconds"):
            middle = (
                f"| {one['distinct']} | {median(one['seconds'])} | {median(one['floor'])} | "
                f"{ratio(one['seconds'], one['floor']):.2f} "
            )
        else:
            middle = f"| {one.get('budget', '')} | {one.get('once', one.get('failed', ''))} | | "
        lines.append(f"{start}{middle}| {peak} |")
    return lines
