"""Times ``slalom explain`` as a person sees it, on a quiet and on a busy machine.

    python -m research.benchmarks.first_minute src
    python -m research.benchmarks.first_minute OLD/src src --threads 1 --turns 3

The command explains ``examples/review.txt`` in a pseudo-terminal. Printed are the seconds until it
begins to ask the model, until it shows a first result and until it ends, and the processor time of
all its threads; for each the best of the turns. A busy machine is one on which as many other
processes as there are cores do nothing but count. Needs Unix.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REVIEW = Path(__file__).resolve().parents[2] / "examples" / "review.txt"
SIGNS = (b"asking the model", b"calls: predicts")  # of asking, and of a first result
BUSY = "while True: pass"


class Times(NamedTuple):
    """Seconds; NaN for what did not happen."""

    asking: float
    first: float
    end: float
    processor: float


def main() -> None:
    """Runs the command in turns and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", type=Path, help="folders with the package in them")
    parser.add_argument("--threads", help="OMP_NUM_THREADS; not set by default")
    parser.add_argument("--turns", type=int, default=1)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, {options.turns} turns; seconds")
    print("machine  source                          asking   first     end  processor")
    for others in (0, os.cpu_count() or 1):
        found: dict[Path, list[Times]] = {source: [] for source in options.sources}
        with _busy(others):
            for _ in range(options.turns):
                for source in options.sources:
                    found[source].append(_timed(source, options.threads))
        for source, times in found.items():
            best = [min(column) for column in zip(*times, strict=True)]
            numbers = "  ".join(f"{number:6.1f}" for number in best)
            print(f"{'busy' if others else 'quiet':7}  {source!s:30}  {numbers}", flush=True)


@contextlib.contextmanager
def _busy(others: int) -> Iterator[None]:
    """So many processes that keep the processor busy."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(others)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _timed(source: Path, threads: str | None) -> Times:
    """One run of the command."""
    command = [sys.executable, "-m", "slalom_xai", "explain", "--file", str(REVIEW)]
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "HF_HUB_OFFLINE": "1"}
    environment.pop("OMP_NUM_THREADS", None)
    if threads:
        environment["OMP_NUM_THREADS"] = threads
    start = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, command, environment)
    seen, when = b"", [float("nan")] * len(SIGNS)
    while True:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        for number, sign in enumerate(SIGNS):
            if when[number] != when[number] and sign in seen:
                when[number] = time.perf_counter() - start
    _, status, used = os.wait4(child, 0)
    os.close(terminal)
    if status:
        sys.exit(f"the command failed:\n{seen.decode(errors='replace')}")
    processor = used.ru_utime + used.ru_stime
    return Times(when[0], when[1], time.perf_counter() - start, processor)


if __name__ == "__main__":
    main()
