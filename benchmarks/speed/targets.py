"""What is aimed at, beside what was measured."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.speed.measure import ratio
from benchmarks.speed.reached import reached

Record = dict[str, Any]
OVER_FLOOR = {  # calls of 2000 on 200 tokens
    "embedded": {"slalom": 1.5, "slalom-fidel": 1.5, "slalom-eff": 2.0},
    "minilm": {"slalom": 1.25, "slalom-fidel": 1.25, "slalom-eff": 1.3},
}
PUBLISHED = {  # times faster with 5000 calls
    "embedded": {"eff": 6.0, "fidel": 1.5},
    "minilm": {"eff": 2.0, "fidel": 1.2},
    "distil2": {"eff": 60.0, "fidel": 15.0},
}
GPU_SECONDS = (
    ("distil2", "slalom-eff", 5000, 0.04),
    ("distil2", "slalom-fidel", 5000, 0.25),
    ("llama7b", "slalom-eff", 1000, 0.15),
)
ERROR_FASTER = 20.0
LONG_MIB = 4096.0


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
    return ["| target | found | |", "| --- | --- | --- |", *lines] if lines else []


def _known(one: Record) -> str:
    """The model's name among the targets: any of MiniLM's shape, trained or not, is one."""
    return "minilm" if "6 layers × 384" in one["note"] else str(one["model"])


def _line(target: str, found: str, met: bool) -> str:
    return f"| {target} | {found} | {'met' if met else 'MISSED'} |"


def _over_floor(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, aims in OVER_FLOOR.items():
        for method, aim in aims.items():
            one = found.get((model, method, 2000))
            if one is not None:
                over = ratio(one["seconds"], one["floor"])
                lines.append(
                    _line(
                        f"{model}, `{method}`, 2000 calls on {one['tokens']} tokens: at most "
                        f"{aim} of the floor",
                        f"{over:.2f}",
                        over <= aim,
                    )
                )
    return lines


def _published(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, aims in PUBLISHED.items():
        for method, aim in aims.items():
            ours, theirs = (
                found.get((model, f"slalom-{method}", 5000)),
                found.get((model, f"published-{method}", 5000)),
            )
            if ours is not None and theirs is not None:
                times = ratio(theirs["seconds"], ours["seconds"])
                seconds = (
                    f"{statistics.median(theirs['seconds']):.3g} s against "
                    f"{statistics.median(ours['seconds']):.3g} s"
                )
                target = (
                    f"{model}, `slalom-{method}`, 5000 calls: at least {aim:g} times faster than "
                    "published"
                )
                lines.append(_line(target, f"{times:.1f} times: {seconds}", times >= aim))
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
            how = (
                f"{best.faster:.1f} times: `{best.method}` with {best.calls} calls"
                if best.calls is not None
                else "not in less time"
            )
            lines.append(_line(target, how, best.faster >= ERROR_FASTER))
    return lines


def _on_gpu(found: dict[tuple[str, str, int], Record]) -> list[str]:
    lines = []
    for model, method, calls, aim in GPU_SECONDS:
        one = found.get((model, method, calls))
        if one is not None:
            seconds = statistics.median(one["seconds"])
            target = (
                f"{model}, `{method}`, {calls} calls, text of {one['tokens']} tokens: at most "
                f"{1000 * aim:g} ms"
            )
            lines.append(
                _line(
                    target,
                    f"{1000 * seconds:.0f} ms (floor {1000 * statistics.median(one['floor']):.0f} "
                    "ms)",
                    seconds <= aim,
                )
            )
    return lines


def _memory(grown: list[Record]) -> list[str]:
    lines = []
    for one in grown:
        if (
            one.get("tokens") == 4096
            and one.get("budget", one.get("calls", 0)) >= 5000
            and one.get("memory") is not None
        ):
            target = (
                f"{one['model']} on {one['machine']}, `{one['method']}`, "
                f"{one.get('budget', one.get('calls'))} calls on 4096 tokens: within "
                f"{LONG_MIB:.0f} MiB beyond the model"
            )
            lines.append(_line(target, f"{one['memory']:.0f} MiB", one["memory"] <= LONG_MIB))
    return list(dict.fromkeys(lines))
