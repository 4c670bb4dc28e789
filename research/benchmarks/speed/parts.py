"""The parts of the benchmark.

They are the same number of calls, the time to an error, growth, and the memory of a long text.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from research.benchmarks.results_file import ResultsFile, machine, say
from research.benchmarks.speed.climb import RIVALS, Climb
from research.benchmarks.speed.floor import Floor
from research.benchmarks.speed.labs import load_lab
from research.benchmarks.speed.measure import seconds_of, side_by_side, with_peak
from research.benchmarks.speed.memory import MemoryCase, peak
from research.benchmarks.speed.methods import OURS, Ours
from research.benchmarks.speed.options import SpeedOptions
from research.benchmarks.speed.others import LIBRARIES, build, missing
from research.benchmarks.speed.subjects import Lab, Subject
from research.benchmarks.speed.targets import LONG_CALLS, LONG_TOKENS
from research.benchmarks.speed.texts import text_of, texts_of

LONG_SECONDS = 10.0  # what takes longer is steady enough without warm-up and repeats
GROWTH = {
    "calls": (250, 500, 1000, 2000, 4000, 8000),
    "classes": (2, 3, 5, 10, 20, 50),
    "texts": (1, 3, 10, 30, 100, 300, 1000),
    "tokens": (32, 64, 128, 256, 512, 1024, 2048, LONG_TOKENS),
}
MOST_ON_CPU = {"texts": 100, "tokens": 512}  # more would take a CPU most of an hour
FIXED = {  # what stays while one of them grows
    "calls": {"tokens": 64, "classes": 2, "texts": 1},
    "classes": {"calls": 1000, "tokens": 64, "texts": 1},
    "texts": {"calls": 300, "tokens": 16, "classes": 2},
    "tokens": {"calls": LONG_CALLS, "classes": 2, "texts": 1},
}


def available(names: Sequence[str], label: str) -> list[str]:
    """Methods whose library is here; says which are not."""
    found = []
    for name in names:
        library = missing(name)
        if library is None:
            found.append(name)
        else:
            say(f"{label}: {name} is left out: {library} is not installed")
    return found


def equal_calls(options: SpeedOptions, log: ResultsFile) -> None:
    """Every method with the same number of calls on the same text."""
    for name in options.models or ("embedded",):
        if log.late(f"calls, {name}"):
            return
        lab = load_lab(name, options.device)
        subject = Subject(lab, texts_of(options.data, lab.tokenizer, options.tokens, 1)[0])
        for calls in options.calls:
            label = f"{lab.name}, {calls} calls"
            names = available(options.methods or (*OURS, *LIBRARIES), label)
            records = side_by_side(
                [build(lab, method, calls) for method in names],
                subject,
                options.repeats,
                log,
                label,
            )
            base = facts("calls", lab, options) | {"budget": calls}
            for record in records:
                log.write(base | record)
            _memory_of(name, records, base, options, log)
        _forget(lab)


def _memory_of(
    name: str,
    records: list[dict[str, Any]],
    base: dict[str, Any],
    options: SpeedOptions,
    log: ResultsFile,
) -> None:
    """The memory of methods that were timed, on a CPU: each in a process of its own."""
    if not options.memory or options.device != "cpu":
        return
    for record in records:
        label = f"{base['model']}, {base['budget']} calls: {record['method']}: memory"
        if "failed" in record or log.late(label):
            continue
        say(label)
        case = MemoryCase(
            name, record["method"], base["budget"], options.tokens, threads=options.threads
        )
        log.write(
            base
            | {
                "part": "calls-memory",
                "method": record["method"],
                "tokens": record["tokens"],
                **peak(case, log.left),
            }
        )


def time_to_error(options: SpeedOptions, log: ResultsFile) -> None:
    """How long our methods take to be as good as the others are with 5000 calls."""
    for name in options.models or ("embedded",):
        if log.late(f"errors, {name}"):
            return
        lab = load_lab(name, options.device)
        subjects = [
            Subject(lab, text)
            for text in texts_of(options.data, lab.tokenizer, options.tokens, options.texts)
        ]
        methods = [
            method
            for method in options.methods or ("slalom", "linear", "slalom-fidel", "slalom-eff")
            if method in OURS
        ]
        climb = Climb(lab, subjects, options.repeats, facts("errors", lab, options), log)
        climb.run(available(RIVALS, f"errors, {lab.name}"), methods)
        _forget(lab)


def growth(options: SpeedOptions, log: ResultsFile) -> None:
    """Time and memory against calls, classes, number of texts and length."""
    for axis in options.axes:
        for name in options.models or (_small_model(axis, options.device),):
            grow(options, log, axis, name, _sizes(axis, options.device))


def _sizes(axis: str, device: str) -> tuple[int, ...]:
    """The sizes along an axis that the device can measure in minutes."""
    most = MOST_ON_CPU.get(axis, math.inf) if device == "cpu" else math.inf
    return tuple(size for size in GROWTH[axis] if size <= most)


def _small_model(axis: str, device: str) -> str:
    """A model for which growth takes minutes and not hours."""
    if device == "cuda":
        return "distil2"
    if axis == "tokens":
        return "thin"
    return "tiny"


def long_text(options: SpeedOptions, log: ResultsFile) -> None:
    """The memory that 5000 calls take on a text of 4,096 tokens."""
    for method in options.methods or OURS:
        if log.late(f"memory, {method}"):
            return
        calls = LONG_CALLS
        say(f"memory: {method}, {calls} calls on {LONG_TOKENS} tokens")
        if options.device == "cpu":
            case = MemoryCase("thin", method, calls, LONG_TOKENS, threads=options.threads)
            found = peak(case, log.left)
            log.write(
                {
                    "part": "memory",
                    "model": "thin",
                    "note": "random weights, 1 layer × 32",
                    **machine(options.device),
                    "method": method,
                    "tokens": LONG_TOKENS,
                    "budget": calls,
                    **found,
                }
            )
        else:
            grow(options, log, "tokens", "distil2", (LONG_TOKENS,), method, calls)


def grow(
    options: SpeedOptions,
    log: ResultsFile,
    axis: str,
    model: str,
    values: Sequence[int],
    method: str = "",
    calls: int = 0,
) -> None:
    """One curve: one of calls, tokens, classes and texts takes several values, the others stay."""
    part, chosen = "growth", list(options.methods or ("slalom",))
    if method:
        part, chosen = "memory", [method]
    fixed = dict(FIXED[axis])
    if calls:
        fixed["calls"] = calls
    for name in chosen:
        for value in values:
            at = fixed | {axis: value}
            label = f"{part}, {axis} {value}, {name}"
            if log.late(label):
                return
            say(label)
            lab = load_lab(model, options.device, at["classes"])
            record = {
                "method": name,
                "axis": axis,
                "at": value,
                **at,
                **_point(lab, name, at, options),
            }
            if options.memory and options.device == "cpu":
                case = MemoryCase(
                    model,
                    name,
                    at["calls"],
                    at["tokens"],
                    at["classes"],
                    at["texts"],
                    options.threads,
                )
                record |= peak(case, log.left)
            log.write(facts(part, lab, options) | record)


def _point(lab: Lab, method: str, at: dict[str, int], options: SpeedOptions) -> dict[str, Any]:
    """Seconds, floor and, on a GPU, memory, of one point of a curve."""
    maker = Ours(lab, method, at["calls"])
    texts = [text_of(lab.tokenizer, at["tokens"], seed) for seed in range(at["texts"])]
    subject = Subject(lab, texts[0])

    def work() -> Any:
        if len(texts) == 1:
            return maker.explain(subject)
        return maker.explain_all(texts)

    try:
        start = time.perf_counter()
        asked = maker.asked_all(texts)
        asked_seconds = time.perf_counter() - start
        floor = Floor(subject.runner, asked.rows)
        memory = None
        if options.device == "cuda" or asked_seconds < LONG_SECONDS:
            memory = with_peak(work, subject.runner)[1]  # also warms up
        seconds: list[float] = []
        floors: list[float] = []
        while len(seconds) < options.repeats and sum(seconds) < 2 * LONG_SECONDS:
            seconds.append(seconds_of(work, subject.runner))
            floors.append(floor.seconds())
    except Exception as error:  # one point that cannot be had: the others go on
        return {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {
        "seconds": seconds,
        "floor": floors,
        "way": str(floor.way),
        "asked": asked.calls,
        "distinct": len(floor.rows),
        "memory": memory,
    }


def facts(part: str, lab: Lab, options: SpeedOptions) -> dict[str, Any]:
    """What every record says."""
    return {"part": part, "model": lab.name, "note": lab.note, **machine(options.device)}


def _forget(lab: Lab) -> None:
    """Makes room for the next model."""
    if lab.device.type == "cuda":
        lab.model.to("meta")
        torch.cuda.empty_cache()


PARTS: dict[str, Callable[[SpeedOptions, ResultsFile], None]] = {
    "calls": equal_calls,
    "errors": time_to_error,
    "growth": growth,
    "memory": long_text,
}
