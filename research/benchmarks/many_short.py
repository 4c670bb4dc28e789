"""Times a list of short texts beside the forward passes of its rows alone.

    python -m research.benchmarks.many_short
    python -m research.benchmarks.many_short --models tiny,minilm --texts 100 --threads 1
    python -m research.benchmarks.many_short --models distil2 --device cuda

One call explains all texts. The floor is the same rows handed to the same model, in the batches
that are fastest and with nothing else (``speed/floor.py``). The two are measured one
right after the other, and the medians count. On a busy machine, processor time says more: the ratio
of both is given in it as well, which means something on a CPU only. The parts of the call are wall
time:

    asking   rows handed to the model, from masks to columns
    fits     SLALOMs, those of several texts together
    report   Shapley values, standard errors, the test on held-out rows
    rest     planning rows, telling rows apart, turns, results
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch

from research.benchmarks.speed.floor import Floor, Runner
from research.benchmarks.speed.labs import load_lab
from research.benchmarks.speed.measure import seconds_of
from research.benchmarks.speed.record import Recorder
from research.benchmarks.speed.subjects import Lab
from research.benchmarks.speed.texts import text_of

TOKENS = (11, 19)  # of a text, ends included: 15 on average
PARTS = ("asking", "fits", "report")
# What each part consists of: its module, perhaps a class there, and the function.
WATCHED = (
    ("asking", "queries.batches", "Batches", "columns"),
    ("fits", "methods.slalom", "", "fit_forms"),
    ("report", "methods.slalom", "", "summarise"),
)


def main() -> None:
    """Prints a table, a line for each model."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    count = options.texts or (1000 if options.device == "cuda" else 200)
    threads = torch.get_num_threads()
    print(
        f"{count} texts of {TOKENS[0]} to {TOKENS[1]} tokens, {options.device}, {threads} threads"
    )
    ratios = "over the floor | the same in processor time"
    print(f"\n| model | calls | floor, s | list, s | {ratios} | {_joined(PARTS)} | rest |")
    print(f"| {_joined(['---'] * (len(PARTS) + 7))} |")
    for name in options.models.split(","):
        print(_line(load_lab(name, options.device), count, options), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="embedded", help="names of speed/labs.py, with commas")
    parser.add_argument("--texts", type=int, help="200 on a CPU, 1000 on a GPU")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    return parser.parse_args()


def _line(lab: Lab, count: int, options: argparse.Namespace) -> str:
    """One line of the table."""
    from slalom_xai import Explainer

    texts = _texts(lab, count)
    runner = Runner(lab.model, lab.pad)
    recorder = Recorder(lab.model).eval()
    asked = Explainer(recorder, lab.tokenizer, show_progress=False)(texts)
    floor = Floor(runner, recorder.rows)
    explainer = Explainer(lab.model, lab.tokenizer, show_progress=False)
    explainer(texts[:4])  # warms up
    floors, whole, parts, processor = [], [], [], []
    for _ in range(options.repeats):
        start = time.process_time()
        with _watched() as clock:
            whole.append(seconds_of(lambda: explainer(texts), runner))
        between = time.process_time()
        parts.append([clock[part] for part in PARTS])
        floors.append(floor.seconds())
        processor.append((between - start) / (time.process_time() - between))
    seconds, least = statistics.median(whole), statistics.median(floors)
    ratio = statistics.median(one / other for one, other in zip(whole, floors, strict=True))
    by_part = [statistics.median(part) for part in zip(*parts, strict=True)]
    shares = [f"{part:.2f}" for part in (*by_part, seconds - sum(by_part))]
    calls = sum(explanation.calls for explanation in asked)
    ratios = [f"{one:.2f}" for one in (ratio, statistics.median(processor))]
    numbers = [lab.name, str(calls), f"{least:.2f}", f"{seconds:.2f}", *ratios, *shares]
    return f"| {_joined(numbers)} |"


def _texts(lab: Lab, count: int) -> list[str]:
    """Made texts of about 15 tokens."""
    lengths = np.random.default_rng(0).integers(TOKENS[0], TOKENS[1] + 1, count).tolist()
    return [text_of(lab.tokenizer, length, seed) for seed, length in enumerate(lengths, start=1)]


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    """Seconds by part, while this is open."""
    clock = dict.fromkeys(PARTS, 0.0)
    with ExitStack() as back:
        for part, module, owner, function in WATCHED:
            holder: Any = import_module(f"slalom_xai.{module}")
            if owner:
                holder = getattr(holder, owner)
            before = getattr(holder, function)
            back.callback(setattr, holder, function, before)
            setattr(holder, function, _timed(before, part, clock))
        yield clock


def _timed(work: Callable[..., Any], part: str, clock: dict[str, float]) -> Callable[..., Any]:
    """A function that adds the seconds it takes to a part."""

    def timed(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return work(*given, **named)
        finally:
            clock[part] += time.perf_counter() - start

    return timed


def _joined(cells: Any) -> str:
    return " | ".join(cells)


if __name__ == "__main__":
    main()
