"""Times two versions of the package side by side: did a change cost time?

    python -m research.benchmarks.two_versions OLD/src src --rounds 9

Each version runs in a process of its own on the embedded model and the same texts. The two take
turns, so that a busy moment of the machine meets both. Printed are the medians and the median of
the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

METHODS = ("slalom", "slalom-fidel", "slalom-eff", "linear", "occlusion")
REVIEW = Path(__file__).resolve().parents[2] / "examples" / "review.txt"

WORKER = """
import json, sys, time
from slalom_xai import Explainer
text, device, calls = json.loads(sys.stdin.readline())
device = device or None
explainers = {}
for line in sys.stdin:
    method, many = json.loads(line)
    if method not in explainers:
        explainers[method] = Explainer(
            method=method, budget=calls, device=device, show_progress=False
        )
    asked = [text[: 60 + 10 * number] for number in range(8)] if many else text
    start = time.perf_counter()
    explainers[method](asked)
    print(time.perf_counter() - start, flush=True)
"""


class Version:
    """One version of the package, in a process of its own."""

    def __init__(self, source: Path, device: str, calls: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(source.resolve()), "HF_HUB_OFFLINE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._write([REVIEW.read_text(encoding="utf-8"), device, calls])

    def _write(self, data: object) -> None:
        stream = cast(IO[str], self._process.stdin)
        stream.write(json.dumps(data) + "\n")
        stream.flush()

    def seconds(self, method: str, many: bool) -> float:
        """How long one explanation takes, or those of eight short texts at once."""
        self._write([method, many])
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            raise SystemExit(f"a version failed on {method}: see above")
        return float(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Times both versions in turns."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path, help="folder that holds slalom_xai, such as OLD/src")
    parser.add_argument("new", type=Path, help="the same of the other version")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    versions = [Version(path, options.device, options.calls) for path in (options.old, options.new)]
    print("| method | texts | old, s | new, s | new over old |")
    print("| --- | --- | --- | --- | --- |")
    try:
        for method, many in [(name, False) for name in METHODS] + [("slalom", True)]:
            compare(versions, method, many, options.rounds)
    finally:
        for version in versions:
            version.close()


def compare(versions: list[Version], method: str, many: bool, rounds: int) -> None:
    """Times one method and prints a line; the first round warms up."""
    times = [[version.seconds(method, many) for version in versions] for _ in range(rounds + 1)]
    old, new = (statistics.median(column) for column in zip(*times[1:], strict=True))
    ratio = statistics.median(after / before for before, after in times[1:])
    texts = "8 short" if many else "1"
    print(f"| `{method}` | {texts} | {old:.3f} | {new:.3f} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
