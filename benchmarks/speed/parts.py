"""The parts of the benchmark: the same number of calls, the time to an error, many texts, growth, and the memory of a long text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.speed.floor import Floor
from benchmarks.speed.labs import lab
from benchmarks.speed.log import Log, machine, say
from benchmarks.speed.measure import HeldOut, seconds_of, side_by_side, with_peak
from benchmarks.speed.memory import Case, peak
from benchmarks.speed.methods import OURS, Ours
from benchmarks.speed.others import LIBRARIES, build, missing
from benchmarks.speed.settings import Settings
from benchmarks.speed.subjects import Lab, Subject
from benchmarks.speed.texts import text_of, texts_of

RIVALS = ("shap-partition", "shap-kernel", "lime")  # whose error at RIVAL_CALLS is to be reached
RIVAL_CALLS = 5000
LADDER = (100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000)
LONG, LONG_CALLS = 4096, 5000


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
    for name in settings.models:
        if log.late(f"calls, {name}"):
            return
        place = lab(name, settings.device)
        subject = Subject(place, texts_of(settings.data, place.tokenizer, settings.tokens, 1)[0])
        for calls in settings.calls:
            label = f"{place.name}, {calls} calls"
            names = available(settings.methods or (*OURS, *LIBRARIES), label)
            records = side_by_side([build(place, method, calls) for method in names], subject, settings.repeats, log, label)
            base = facts("calls", place, settings) | {"budget": calls}
            for record in records:
                log.write(base | record)
            _memory_of(name, records, base, settings, log)
        _forget(place)


def _memory_of(name: str, records: list[dict[str, Any]], base: dict[str, Any], settings: Settings, log: Log) -> None:
    """The memory of methods that were timed, on a CPU: each in a process of its own."""
    if not settings.memory or settings.device != "cpu":
        return
    for record in records:
        label = f"{base['model']}, {base['budget']} calls: {record['method']}: memory"
        if "failed" in record or log.late(label):
            continue
        say(label)
        case = Case(name, record["method"], base["budget"], settings.tokens, threads=settings.threads)
        log.write(base | {"part": "calls-memory", "method": record["method"], "tokens": record["tokens"], **peak(case, log.left)})


def time_to_error(settings: Settings, log: Log) -> None:
    """How long our methods take to be as good as the others are with 5000 calls."""
    for name in settings.models:
        place = lab(name, settings.device)
        rivals = available(RIVALS, f"errors, {place.name}")
        subjects = [Subject(place, text) for text in texts_of(settings.data, place.tokenizer, settings.tokens, settings.texts)]
        jobs = [(rival, RIVAL_CALLS) for rival in rivals] + [(method, calls) for calls in LADDER for method in OURS]
        for number, subject in enumerate(subjects):
            best = float("inf")  # the least error of the others on this text: far below it there is nothing to find
            found: dict[str, float] = {}
            for method, calls in jobs:
                if found.get(method, float("inf")) < best / 4 or log.late(f"errors, {method} with {calls} calls"):
                    continue
                record = _reached(place, subject, method, calls, 1 if method in RIVALS else settings.repeats)
                if "wide" in record:
                    found[method] = record["wide"]
                    best = min(best, record["wide"]) if method in RIVALS else best
                say(
                    f"errors, text {number + 1} of {len(subjects)}: {method}, {calls} calls: wide {record.get('wide', record.get('failed'))}"
                )
                log.write(facts("errors", place, settings) | {"text": number, "budget": calls} | record)
        _forget(place)


def _reached(place: Lab, subject: Subject, method: str, calls: int, repeats: int) -> dict[str, Any]:
    """One method with some calls on one text: seconds and errors."""
    try:
        maker = build(place, method, calls)
        asked = maker.asked(subject)
        seconds = [seconds_of(lambda: maker.explain(subject), subject.runner) for _ in range(repeats)]
        errors = HeldOut(subject, [asked]).errors(maker.explain(subject))
    except Exception as error:  # too small a budget, or a library's own trouble
        return {"method": method, "failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {"method": method, "tokens": len(subject), "calls": asked.calls, "distinct": len(asked.rows), "seconds": seconds, **errors}


def many_texts(settings: Settings, log: Log) -> None:
    """Lists of short texts, handed over at once."""
    grow(settings, log, "texts", "tiny" if settings.device == "cpu" else "distil2", (1, 3, 10, 30, 100, 300, 1000))


def growth(settings: Settings, log: Log) -> None:
    """Time and memory against calls, length and classes."""
    shallow, small = ("thin", "tiny") if settings.device == "cpu" else ("distil2", "distil2")
    grow(settings, log, "calls", small, (250, 500, 1000, 2000, 4000, 8000))
    grow(settings, log, "classes", small, (2, 3, 5, 10, 20, 50))
    grow(settings, log, "tokens", shallow, (32, 64, 128, 256, 512, 1024, 2048, LONG))


def long_text(settings: Settings, log: Log) -> None:
    """The memory that 5000 calls take on a text of 4,096 tokens."""
    for method in settings.methods or ("slalom",):
        if log.late(f"memory, {method}"):
            return
        say(f"memory: {method}, {LONG_CALLS} calls on {LONG} tokens")
        if settings.device == "cpu":
            found = peak(Case("thin", method, LONG_CALLS, LONG, threads=settings.threads), log.left)
            place = {"model": "thin", "note": "random weights, 1 layer × 32", **machine(settings.device)}
            log.write({"part": "memory", **place, "method": method, "tokens": LONG, "budget": LONG_CALLS, **found})
        else:
            grow(settings, log, "tokens", "distil2", (LONG,), method=method, part="memory")


def grow(settings: Settings, log: Log, axis: str, model: str, values: Sequence[int], method: str = "", part: str = "growth") -> None:
    """One curve: one of calls, tokens, classes and texts takes several values, the others stay."""
    chosen = [method] if method else list(settings.methods or ("slalom",))
    fixed = {
        "calls": LONG_CALLS if axis == "tokens" else 1000,
        "tokens": {"texts": 16, "tokens": 0}.get(axis, 64),
        "classes": 2,
        "texts": 1,
    }
    if axis == "texts":
        fixed["calls"] = 300
    for name in chosen:
        for value in values:
            at = fixed | {axis: value}
            label = f"{part}, {axis} {value}, {name}"
            if log.late(label):
                return
            say(label)
            place = lab(model, settings.device, at["classes"])
            record = {"method": name, "axis": axis, "at": value, **at, **_point(place, name, at, settings)}
            if settings.memory and settings.device == "cpu":
                case = Case(model, name, at["calls"], at["tokens"], at["classes"], at["texts"], settings.threads)
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
        asked = maker.asked_all(texts)
        floor = Floor(subject.runner, asked.rows)
        _, memory = with_peak(work, subject.runner)
        seconds: list[float] = []
        floors: list[float] = []
        while len(seconds) < settings.repeats and sum(seconds) < 60:  # long ones are steady enough
            seconds.append(seconds_of(work, subject.runner))
            floors.append(floor.seconds())
    except Exception as error:  # one point that cannot be had: the others go on
        return {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    return {"seconds": seconds, "floor": floors, "way": str(floor.way), "asked": asked.calls, "distinct": len(floor.rows), "memory": memory}


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
    "texts": many_texts,
    "growth": growth,
    "memory": long_text,
}
