"""What is aimed at, beside what was measured."""

from __future__ import annotations

import statistics
from typing import Any

from research.benchmarks.speed.measure import ratio
from research.benchmarks.speed.reached import reached

Record = dict[str, Any]
OVER_FLOOR = {  # most times the floor, with 2000 calls on 200 tokens
    "embedded": {"slalom": 1.5, "slalom-fidel": 1.5, "slalom-eff": 2.0},
    "minilm": {"slalom": 1.25, "slalom-fidel": 1.25, "slalom-eff": 1.3},
}
PUBLISHED = {  # least times faster than the published code, with 5000 calls
    "embedded": {"eff": 6.0, "fidel": 1.5},
    "minilm": {"eff": 2.0, "fidel": 1.2},
    "distil2": {"eff": 60.0, "fidel": 15.0},
}
GPU_SECONDS = (  # model, method, calls, most seconds
    ("distil2", "slalom-eff", 5000, 0.04),
    ("distil2", "slalom-fidel", 5000, 0.25),
    ("llama7b", "slalom-eff-untested", 1000, 0.1),
)
ERROR_FASTER = 20.0  # least times sooner at the error of another library
LONG_TOKENS, LONG_CALLS = 4096, 5000  # of what is called a long text
LONG_MIB = 4096.0  # most memory for it, beyond the model


def targets(calls: list[Record], errors: list[Record], grown: list[Record]) -> list[str]:
    """A line for each target that something was measured for."""
    found = {
        (_known(one), one["method"], one["budget"]): one for one in calls if one.get("seconds")
    }
    lines = [
        *_over_floor(found),
        *_published(found),
        *_to_error(errors),
        *_on_gpu(found),
        *_memory(grown),
    ]
    if not lines:
        return []
    return ["| target | found | |", "| --- | --- | --- |", *lines]


def _known(one: Record) -> str:
    """The model's name among the targets: any of MiniLM's shape, trained or not, is one."""
    if "6 layers × 384" in one["note"]:
        return "minilm"
    return str(one["model"])


def _line(target: str, found: str, met: bool) -> str:
    verdict = "MISSED"
    if met:
        verdict = "met"
    return f"| {target} | {found} | {verdict} |"


def _over_floor(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, aims in OVER_FLOOR.items():
        for method, aim in aims.items():
            one = found.get((model, method, 2000))
            if one is None:
                continue
            over = ratio(one["seconds"], one["floor"])
            target = (
                f"{model}, `{method}`, 2000 calls on {one['tokens']} tokens: at most {aim} of the "
                "floor"
            )
            lines.append(_line(target, f"{over:.2f}", over <= aim))
    return lines


def _published(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, aims in PUBLISHED.items():
        for method, aim in aims.items():
            ours = found.get((model, f"slalom-{method}", 5000))
            theirs = found.get((model, f"published-{method}", 5000))
            if ours is None or theirs is None:
                continue
            times = ratio(theirs["seconds"], ours["seconds"])
            own, other = statistics.median(ours["seconds"]), statistics.median(theirs["seconds"])
            target = (
                f"{model}, `slalom-{method}`, 5000 calls: at least {aim:g} times faster than "
                "published"
            )
            measured = f"{times:.1f} times: {other:.3g} s against {own:.3g} s"
            lines.append(_line(target, measured, times >= aim))
    return lines


def _to_error(errors: list[Record]) -> list[str]:
    lines = []
    for model in dict.fromkeys(one["model"] for one in errors):
        against = reached(errors, model)
        for rival in dict.fromkeys(one.rival for one in against):
            best = max((one for one in against if one.rival == rival), key=lambda one: one.faster)
            target = (
                f"{model}: the wide error of {rival} with 5000 calls, at least {ERROR_FASTER:g} "
                "times sooner"
            )
            how = "not in less time"
            if best.calls is not None:
                how = f"{best.faster:.1f} times: `{best.method}` with {best.calls} calls"
            lines.append(_line(target, how, best.faster >= ERROR_FASTER))
    return lines


def _on_gpu(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, method, calls, aim in GPU_SECONDS:
        one = found.get((model, method, calls))
        if one is None:
            continue
        seconds, floor = statistics.median(one["seconds"]), statistics.median(one["floor"])
        target = (
            f"{model}, `{method}`, {calls} calls, text of {one['tokens']} tokens: at most "
            f"{1000 * aim:g} ms"
        )
        measured = f"{1000 * seconds:.0f} ms (floor {1000 * floor:.0f} ms)"
        lines.append(_line(target, measured, seconds <= aim))
    return lines


def _memory(grown: list[Record]) -> list[str]:
    lines = []
    for one in grown:
        calls: Any = one.get("budget", one.get("calls", 0))
        memory = one.get("memory")
        if one.get("tokens") != LONG_TOKENS or calls < LONG_CALLS or memory is None:
            continue
        target = (
            f"{one['model']} on {one['machine']}, `{one['method']}`, {calls} calls on "
            f"{LONG_TOKENS} tokens: within {LONG_MIB:.0f} MiB beyond the model"
        )
        lines.append(_line(target, f"{memory:.0f} MiB", memory <= LONG_MIB))
    return list(dict.fromkeys(lines))
