"""One table of results, and the targets beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from research.benchmarks.speed.measure import ratio

Record = dict[str, Any]
RATIOS = (  # part, model, whether on a GPU, most times the forward passes
    ("one", "bundled", False, 1.2),
    ("deep", "minilm", False, 1.05),
    ("list", "bundled", False, 1.5),
    ("list", "minilm", True, 3.0),
    ("one", "minilm", True, 1.5),
    ("one", "llama7b", True, 1.3),
)
SECONDS = (  # of part one, on a GPU: model, method, most seconds
    ("minilm", "slalom", 0.1),
    ("distil2", "slalom-eff", 0.04),
    ("distil2", "slalom-fidel", 0.25),
)
A_SECOND = 300  # least explanations of sentences on a GPU
OUTSIDE_SECONDS = 1.5  # outside of the thin model
MIB = 300  # of memory
TIMES_SOONER = 20  # than other libraries are with 5,000 calls
SHARE_OF_USERS = 0.2  # of the time of other libraries with their defaults
DIFFERENCE = 1e-6  # between a GPU and a CPU


def report(records: list[Record]) -> str:
    """The table and the targets, as Markdown."""
    records = latest(records)
    where = {
        f"- {one['machine']}, torch {one['torch']}, transformers {one['transformers']}, "
        f"{one['date']}"
        for one in records
    }
    head = ("on", "model", "setting", "method", "calls", "seconds", "× forward passes", "error")
    lines = [*sorted(where), "", _line(*head), _line(*["---"] * len(head))]
    shown = [
        one for one in records if one["part"] != "agreement" and not _superfluous(one, records)
    ]
    lines += [_row(one) for one in shown]
    notes = [
        f"- {_setting(one)}: {', '.join(f'{part} {value:.2f} s' for part, value in _parts(one))}"
        for one in shown
        if one["part"] in ("list", "thin") and "parts" in one
    ]
    lines += ["", *notes, "", _line("target", "measured", ""), _line(*["---"] * 3)]
    for target, measured, met in targets(records):
        lines.append(_line(target, measured, "met" if met else "MISSED"))
    return "\n".join(lines)


def latest(records: list[Record]) -> list[Record]:
    """The last of records that measure the same, but none that failed where one did not."""
    keys = ("machine", "part", "model", "setting", "method")
    kept: dict[tuple[Any, ...], Record] = {}
    for one in records:
        key = (*(one[name] for name in keys), one["part"] == "sooner" and one.get("calls"))
        if "failed" not in one or "failed" in kept.get(key, one):
            kept[key] = one
    return list(kept.values())


def on_gpu(one: Record) -> bool:
    """Whether something was measured on a GPU."""
    return "threads" not in str(one["machine"])


def median(one: Record) -> float:
    """Seconds."""
    return float(statistics.median(one["seconds"]))


def sooner(records: list[Record]) -> Iterator[tuple[Record, Record | None]]:
    """Other libraries, each with ours with the fewest calls that errs no more, if there is one."""
    part = [one for one in records if one["part"] == "sooner" and "any" in one]
    for rival in part:
        same = [one for one in part if all(one[key] == rival[key] for key in ("model", "machine"))]
        better = [one for one in same if one["method"] == "slalom" and one["any"] <= rival["any"]]
        if rival["method"] != "slalom":
            yield rival, min(better, key=lambda one: int(one["calls"]), default=None)


def _superfluous(one: Record, records: list[Record]) -> bool:
    """Whether ours was tried with calls that are not the fewest to beat another library."""
    if one["part"] != "sooner" or one["method"] != "slalom":
        return False
    return all(one is not ours for _, ours in sooner(records))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _setting(one: Record) -> str:
    machine = str(one["machine"]).split()[-1] if on_gpu(one) else "CPU"
    return f"{one['model']} on {machine}, {one['setting']}"


def _parts(one: Record) -> list[tuple[str, float]]:
    rest = median(one) - sum(one["parts"].values())
    return [*one["parts"].items(), ("rest", rest)]


def _row(one: Record) -> str:
    machine = str(one["machine"]).split()[-1] if on_gpu(one) else "CPU"
    start = (machine, one["model"], one["setting"], f"`{one['method']}`")
    if "failed" in one:
        return _line(*start, "", "failed", "", one["failed"].replace("|", "/")[:80])
    over = f"{ratio(one['seconds'], one['forward']):.2f}" if "forward" in one else ""
    error = f"{one['any']:.3g}" if "any" in one else ""
    if "r2" in one:
        error = f"R² {one['r2']:.2f}"
    if "mib" in one:
        error = f"{one['mib']:.0f} MiB"
    return _line(*start, str(one.get("calls", "")), f"{median(one):.3g}", over, error)


def targets(records: list[Record]) -> Iterator[tuple[str, str, bool]]:
    """What was aimed at, what was measured, and whether that is enough."""
    records = [one for one in records if "failed" not in one]
    for one in records:
        yield from _targets_of(one)
    for rival, ours in sooner(records):
        target = f"{_setting(rival)}: the error of {rival['method']} {TIMES_SOONER} times sooner"
        times = median(rival) / median(ours) if ours else 0.0
        measured = f"{times:.1f} times, with {ours['calls']} calls" if ours else "not reached"
        yield target, measured, times >= TIMES_SOONER
    users = [one for one in records if one["part"] == "users"]
    mine = {(one["machine"], one["model"]): one for one in users if one["method"] == "slalom"}
    for one in users:
        if one["method"] == "slalom" or (one["machine"], one["model"]) not in mine:
            continue
        share = median(mine[one["machine"], one["model"]]) / median(one)
        target = f"{_setting(one)}: at most {SHARE_OF_USERS} of the time of {one['method']}"
        yield target, f"{share:.3f}", share <= SHARE_OF_USERS


def _targets_of(one: Record) -> Iterator[tuple[str, str, bool]]:
    part, model, gpu = one["part"], one["model"], on_gpu(one)
    start = f"{_setting(one)}, `{one['method']}`"
    if one.get("budget"):
        start += f", {one['budget']} calls"
    for *which, limit in RATIOS:
        if [part, model, gpu] == which and one["method"] == "slalom":
            over = ratio(one["seconds"], one["forward"])
            yield f"{start}: at most {limit} of its forward passes", f"{over:.2f}", over <= limit
    for *which, limit in SECONDS:
        if part == "one" and gpu and [model, one["method"]] == which:
            measured = f"{1000 * median(one):.0f} ms"
            yield f"{start}: at most {1000 * limit:.0f} ms", measured, median(one) <= limit
    if part == "list" and gpu:
        rate = one["texts"] / median(one)
        yield f"{start}: {A_SECOND} explanations a second", f"{rate:.0f}", rate >= A_SECOND
    if part == "thin":
        rest = median(one) - one["parts"]["asking"]
        target = f"{start}: at most {OUTSIDE_SECONDS} s outside the model"
        yield target, f"{rest:.2f} s", rest <= OUTSIDE_SECONDS
    if part == "memory":
        yield f"{start}: at most {MIB} MiB", f"{one['mib']:.0f} MiB", one["mib"] <= MIB
    if part == "agreement":
        least = one["difference"] <= DIFFERENCE
        yield f"{start}: differ by at most {DIFFERENCE}", f"{one['difference']:.1e}", least
