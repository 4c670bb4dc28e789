"""Memory on a CPU: one explanation in a process of its own, whose resident set is watched."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path


def peak(model: str, calls: int, tokens: int) -> tuple[float, float]:
    """MiB beyond the model, and seconds, of an explanation."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_explain, model, calls, tokens).result()


def _explain(model: str, calls: int, tokens: int) -> tuple[float, float]:
    """The measurement, after a small explanation that loads what is loaded once."""
    from research.benchmarks.speed.labs import load_lab, text_of
    from research.benchmarks.speed.measure import ours

    lab = load_lab(model)
    ours(lab, calls=300, granularity="token")(text_of(lab.tokenizer, 12, seed=1))
    explainer = ours(lab, calls=calls, granularity="token")
    text = text_of(lab.tokenizer, tokens)
    Path("/proc/self/clear_refs").write_text("5")  # starts a new peak
    before, start = _mib("VmRSS"), time.perf_counter()
    explainer(text)
    return _mib("VmHWM") - before, time.perf_counter() - start


def _mib(name: str) -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith(name)).split()[1]) / 1024
