"""The parts of the benchmark: the same number of calls, the time to an error, growth, and the memory of a long text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.speed.climb import RIVALS, Climb
from benchmarks.speed.floor import Floor
from benchmarks.speed.labs import lab
from benchmarks.speed.log import Log, machine, say
from benchmarks.speed.measure import seconds_of, side_by_side, with_peak
from benchmarks.speed.memory import Case, peak
from benchmarks.speed.methods import OURS, Ours
from benchmarks.speed.others import LIBRARIES, build, missing
from benchmarks.speed.settings import Settings
from benchmarks.speed.subjects import Lab, Subject
from benchmarks.speed.texts import text_of, texts_of

LONG, LONG_CALLS = 4096, 5000
LONG_SECONDS = 30.0  # what takes longer is steady enough without warm-up and repeats
GROWTH = {
    "calls": (250, 500, 1000, 2000, 4000, 8000),
    "classes": (2, 3, 5, 10, 20, 50),
    "texts": (1, 3, 10, 30, 100, 300, 1000),
    "tokens": (32, 64, 128, 256, 512, 1024, 2048, LONG),
}
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


def equal_calls(settings: Settings, log: Log) -> None:
    """Every method with the same number of calls on the same text."""
    for name in settings.models or ("embedded",):
        if log.late(f"calls, {name}"):
            return
        place = lab(name, settings.device)
        subject = Subject(place, texts_of(settings.data, place.tokenizer, settings.tokens, 1)[0])
        for calls in settings.calls:
            label = f"{place.name}, {calls} calls"
            names = available(settings.methods or (*OURS, *LIBRARIES), label)
            records = side_by_side(
                [build(place, method, calls) for method in names],
                subject,
                settings.repeats,
                log,
                label,
            )
            base = facts("calls", place, settings) | {"budget": calls}
            for record in records:
                log.write(base | record)
            _memory_of(name, records, base, settings, log)
        _forget(place)


def _memory_of(
    name: str, records: list[dict[str, Any]], base: dict[str, Any], settings: Settings, log: Log
) -> None:
    """The memory of methods that were timed, on a CPU: each in a process of its own."""
    if not settings.memory or settings.device != "cpu":
        return
    for record in records:
        label = f"{base['model']}, {base['budget']} calls: {record['method']}: memory"
        if "failed" in record or log.late(label):
            continue
        say(label)
        case = Case(
            name, record["method"], base["budget"], settings.tokens, threads=settings.threads
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


def time_to_error(settings: Settings, log: Log) -> None:
    """How long our methods take to be as good as the others are with 5000 calls."""
    for name in settings.models or ("embedded",):
        if log.late(f"errors, {name}"):
            return
        place = lab(name, settings.device)
        subjects = [
            Subject(place, text)
            for text in texts_of(settings.data, place.tokenizer, settings.tokens, settings.texts)
        ]
        methods = [
            method
            for method in settings.methods or ("slalom", "linear", "slalom-fidel", "slalom-eff")
            if method in OURS
        ]
        climb = Climb(place, subjects, settings.repeats, facts("errors", place, settings), log)
        climb.run(available(RIVALS, f"errors, {place.name}"), methods)
        _forget(place)


def growth(settings: Settings, log: Log) -> None:
    """Time and memory against calls, classes, number of texts and length."""
    for axis in settings.axes:
        small = "distil2" if settings.device == "cuda" else "thin" if axis == "tokens" else "tiny"
        for name in settings.models or (small,):
            grow(settings, log, axis, name, GROWTH[axis])


def long_text(settings: Settings, log: Log) -> None:
    """The memory that 5000 calls take on a text of 4,096 tokens."""
    for method in settings.methods or OURS:
        if log.late(f"memory, {method}"):
            return
        calls = LONG_CALLS
        say(f"memory: {method}, {calls} calls on {LONG} tokens")
        if settings.device == "cpu":
            found = peak(Case("thin", method, calls, LONG, threads=settings.threads), log.left)
            place = {
                "model": "thin",
                "note": "random weights, 1 layer × 32",
                **machine(settings.device),
            }
            log.write(
                {
                    "part": "memory",
                    **place,
                    "method": method,
                    "tokens": LONG,
                    "budget": calls,
                    **found,
                }
            )
        else:
            grow(settings, log, "tokens", "distil2", (LONG,), method, calls)


def grow(
    settings: Settings,
    log: Log,
    axis: str,
    model: str,
    values: Sequence[int],
    method: str = "",
    calls: int = 0,
) -> None:
    """One curve: one of calls, tokens, classes and texts takes several values, the others stay."""
    chosen = [method] if method else list(settings.methods or ("slalom",))
    part = "memory" if method else "growth"
    fixed = FIXED[axis] | ({"calls": calls} if calls else {})
    for name in chosen:
        for value in values:
            at = fixed | {axis: value}
            label = f"{part}, {axis} {value}, {name}"
            if log.late(label):
                return
            say(label)
            place = lab(model, settings.device, at["classes"])
            record = {
                "method": name,
                "axis": axis,
                "at": value,
                **at,
                **_point(place, name, at, settings),
            }
            if settings.memory and settings.device == "cpu":
                case = Case(
                    model,
                    name,
                    at["calls"],
                    at["tokens"],
                    at["classes"],
                    at["texts"],
                    settings.threads,
                )
                record |= peak(case, log.left)
            log.write(facts(part, place, settings) | record)


def _point(place: Lab, method: str, at: dict[str, int], settings: Settings) -> dict[str, Any]:
    """Seconds, floor and, on a GPU, memory, of one point of a curve."""
    maker = Ours(place, method, at["calls"])
    texts = [text_of(place.tokenizer, at["tokens"], seed) for seed in range(at["texts"])]
    subject = Subject(place, texts[0])

    def work() -> Any:
        return maker.explain(subject) if len(texts) == 1 else maker.explain_all(texts)

    try:
        start = time.perf_counter()
        asked = maker.asked_all(texts)
        asked_seconds = time.perf_counter() - start
        floor = Floor(subject.runner, asked.rows)
        memory = (
            with_peak(work, subject.runner)[1]
            if settings.device == "cuda" or asked_seconds < LONG_SECONDS
            else None
        )  # also warms up
        seconds: list[float] = []
        floors: list[float] = []
        while len(seconds) < settings.repeats and sum(seconds) < 2 * LONG_SECONDS:
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


def facts(part: str, place: Lab, settings: Settings) -> dict[str, Any]:
    """What every record says."""
    return {"part": part, "model": place.name, "note": place.note, **machine(settings.device)}


def _forget(place: Lab) -> None:
    """Makes room for the next model."""
    if place.device.type == "cuda":
        place.model.to("meta")
        torch.cuda.empty_cache()


PARTS: dict[str, Callable[[Settings, Log], None]] = {
    "calls": equal_calls,
    "errors": time_to_error,
    "growth": growth,
    "memory": long_text,
}
