"""Memory on a CPU: one explanation in a process of its own, whose resident set is watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
WARM_UP_CALLS = 300  # enough for every method to run through all of its code


@dataclass(frozen=True)
class MemoryCase:
    """One explanation: of which model, by which method, of texts of how many tokens."""

    model: str
    method: str
    budget: int
    tokens: int
    classes: int = 2
    texts: int = 1
    threads: int = 0


def peak(case: MemoryCase, limit: float) -> dict[str, Any]:
    """What ``measure`` finds in a process of its own.

    Args:
        case: what is explained.
        limit: seconds it may take.

    Returns:
        The measurement; where it fails or takes too long, only why (``memory_failed``).
    """
    command = [sys.executable, "-m", "research.benchmarks.speed", "--one", json.dumps(asdict(case))]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=max(1.0, limit),
            check=True,
        )
    except subprocess.TimeoutExpired:
        return {"memory_failed": "no time left"}
    except subprocess.CalledProcessError as error:
        return {"memory_failed": (error.stderr or "").strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _environment() -> dict[str, str]:
    """The child imports what the parent has imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path]))}


def measure(case: MemoryCase) -> dict[str, Any]:
    """MiB beyond the model, and seconds, of an explanation.

    A small explanation goes before it, which loads what is loaded once.
    """
    import torch

    from research.benchmarks.speed import labs
    from research.benchmarks.speed.others import build
    from research.benchmarks.speed.subjects import Subject

    if case.threads:
        torch.set_num_threads(case.threads)
    lab = labs.load_lab(case.model, classes=case.classes)
    method = build(lab, case.method, case.budget)
    warm_up = Subject(lab, labs.text_of(lab.tokenizer, 12, seed=1))
    build(lab, case.method, WARM_UP_CALLS).explain(warm_up)
    texts = [labs.text_of(lab.tokenizer, case.tokens, seed) for seed in range(case.texts)]
    subject = Subject(lab, texts[0])
    before = _reset()
    start = time.perf_counter()
    if case.texts == 1:
        method.explain(subject)
    else:
        method.explain_all(texts)
    seconds = time.perf_counter() - start
    memory = None
    if before is not None:
        memory = _status("VmHWM") - before
    return {"memory": memory, "once": seconds}


def _reset() -> float | None:
    """Starts a new peak.

    Returns:
        The resident MiB at this moment; None where the system does not tell.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _status(name: str) -> float:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name)
    )
    return int(line.split()[1]) / 1024
