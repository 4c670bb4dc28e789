"""Tables of results."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.speed.measure import ratio


def tables(records: list[dict[str, Any]]) -> str:
    """Everything, as Markdown."""
    return "\n".join(calls_table([record for record in records if record["part"] == "calls"]))


def calls_table(records: list[dict[str, Any]]) -> list[str]:
    """The same number of calls."""
    lines = [
        "| model | tokens | method | calls | distinct | seconds | floor | over the floor | local error | wide error |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in records:
        lines.append(
            f"| {one['model']} | {one['tokens']} | `{one['method']}` | {one['calls']} | {one['distinct']} "
            f"| {statistics.median(one['seconds']):.3g} | {statistics.median(one['floor']):.3g} | {ratio(one['seconds'], one['floor']):.2f} "
            f"| {one['local']:.3g} | {one['wide']:.3g} |"
        )
    return lines
