r"""Explanations a second on a GPU, and whether a list there gives what a CPU gives.

    python -m research.benchmarks.lists_on_gpu [--model FOLDER] [--texts 1000] [--calls 64,0] \
        [--device cuda] [--profile]

0 stands for the usual calls. With --profile, what takes the time of a list is printed as well.

Made sentences of about 15 tokens go in as one list; the floor is the forward passes of their rows
alone, batched as fast as they go. Then one text of 100 tokens with 1,000 calls, beside its floor.
Without a folder the model has the shape of a MiniLM of six layers and random weights.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import threading

import numpy as np

from research.benchmarks.many_short import _texts
from research.benchmarks.speed.floor import Floor, Runner
from research.benchmarks.speed.labs import load_lab
from research.benchmarks.speed.measure import seconds_of
from research.benchmarks.speed.record import Recorder
from research.benchmarks.speed.subjects import Lab
from research.benchmarks.speed.texts import text_of
from slalom_xai import Explainer, Explanation


def main() -> None:
    """Prints a line for the list, one for the single text, and the largest difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="minilm", help="a name of speed/labs.py")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--calls", default="64,0", help="of each text, with commas")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    given = parser.parse_args()
    lab = load_lab(given.model, given.device)
    texts = _texts(lab, given.texts)
    for calls in map(int, given.calls.split(",")):
        found = _time(lab, texts, calls or None, f"{len(texts)} sentences")
        if given.profile:
            _profile(lab, texts, calls or None)
    _time(lab, [text_of(lab.tokenizer, 100)], 1000, "one text of 100 tokens")
    if given.device == "cuda":
        on_cpu = load_lab(given.model, "cpu")
        explainer = Explainer(
            on_cpu.model, on_cpu.tokenizer, budget=found[0].calls, show_progress=False
        )
        on_gpu = Explainer(lab.model, lab.tokenizer, budget=found[0].calls, show_progress=False)
        both = zip(on_gpu(texts[:20]), explainer(texts[:20]), strict=True)
        scores = [(one.scores(), two.scores()) for one, two in both]
        largest = max(float(np.abs(two).max()) for _, two in scores)
        apart = max(float(np.abs(one - two).max()) for one, two in scores)
        print(f"GPU and CPU differ by {apart / largest:.1e} of the largest score (20 texts)")


def _profile(lab: Lab, texts: list[str], calls: int | None) -> None:
    explainer = Explainer(lab.model, lab.tokenizer, budget=calls, show_progress=False)
    profiles: list[cProfile.Profile] = []
    run = threading.Thread.run

    def watched(thread: threading.Thread) -> None:
        profiles.append(cProfile.Profile())
        profiles[-1].runcall(run, thread)

    threading.Thread.run = watched  # type: ignore[method-assign]
    whole = cProfile.Profile()
    try:
        whole.runcall(explainer, texts)
    finally:
        threading.Thread.run = run  # type: ignore[method-assign]
    told = pstats.Stats(whole)
    for profile in profiles:
        told.add(profile)
    told.sort_stats("tottime").print_stats(30)
    told.sort_stats("cumtime").print_stats("slalom_xai", 45)


def _time(lab: Lab, texts: list[str], calls: int | None, name: str) -> list[Explanation]:
    runner = Runner(lab.model, lab.pad)
    recorder = Recorder(lab.model).eval()
    Explainer(recorder, lab.tokenizer, budget=calls, show_progress=False)(texts)
    floor = Floor(runner, recorder.rows)
    explainer = Explainer(lab.model, lab.tokenizer, budget=calls, show_progress=False)
    found = explainer(texts)
    whole, floors = [], []
    for _ in range(3):
        whole.append(seconds_of(lambda: explainer(texts), runner))
        floors.append(floor.seconds())
    seconds, least = statistics.median(whole), statistics.median(floors)
    each = statistics.mean(one.calls for one in found)
    print(
        f"{name}, {each:.0f} calls each: {seconds:.3f} s, "
        f"{len(texts) / seconds:.1f} explanations a second, "
        f"forward passes {least:.3f} s, ratio {seconds / least:.2f}",
        flush=True,
    )
    return found


if __name__ == "__main__":
    main()
