"""Times explanations, ours and others', beside the forward passes of their perturbed texts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from research.benchmarks.results_file import ResultsFile, read, say

EXAMPLES = """examples:
  python -m research.benchmarks.speed --out speed.jsonl
  python -m research.benchmarks.speed --out speed.jsonl --part list --texts 100
  python -m research.benchmarks.speed --out gpu.jsonl --device cuda --seconds 240
  python -m research.benchmarks.speed --tables speed.jsonl gpu.jsonl
  python -m research.benchmarks.speed --plots docs/figures speed.jsonl
"""


def main() -> None:
    """Reads the command line and does what it says."""
    parser = _parser()
    given = parser.parse_args()
    if given.tables:
        from research.benchmarks.speed.tables import report

        print(report(read(given.tables)))
    elif given.plots:
        from research.benchmarks.speed.picture import draw

        print(draw(read(given.plots[1:]), given.plots[0]))
    else:
        _run(parser, given)


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    import torch

    from research.benchmarks.speed.scenarios import CPU_ONLY, GPU_ONLY, SCENARIOS, Bench

    unknown = [part for part in given.part or () if part not in SCENARIOS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}: give some of {', '.join(SCENARIOS)}")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    log = ResultsFile(given.out, given.seconds)
    bench = Bench(
        log, given.device, given.models, given.methods, given.data, given.texts, given.smallest
    )
    elsewhere = GPU_ONLY if bench.device == "cpu" else CPU_ONLY
    for part in given.part or [part for part in SCENARIOS if part not in elsewhere]:
        if part in elsewhere:
            say(f"{part}: left out, because it is not for this device")
        elif not log.late(part):
            SCENARIOS[part](bench)
    say(f"results are in {given.out}: python -m research.benchmarks.speed --tables {given.out}")


def _names(given: str) -> tuple[str, ...]:
    return tuple(given.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks.speed",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--part", action="append", help="what to measure, again for more (all; see scenarios.py)")
    add("--out", type=Path, default=Path("speed.jsonl"), help="results are added to this file")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add(
        "--models",
        type=_names,
        default=(),
        help="names or folders, with commas, for one, list, sooner, users",
    )
    add("--methods", type=_names, default=(), help="only these, with commas")
    add("--texts", type=int, default=1000, help="sentences of the part list (1000)")
    add("--data", type=Path, help="JSON lines with a field text, gzipped or not (made texts)")
    add("--seconds", type=float, default=36000, help="begin nothing new after so many (36000)")
    add("--smallest", action="store_true", help="sizes that only show that everything runs")
    add("--tables", type=Path, nargs="+", metavar="FILE", help="print the table and the targets")
    add(
        "--plots",
        type=Path,
        nargs="+",
        metavar=("FOLDER", "FILE"),
        help="draw earlier results as speed.svg into a folder",
    )
    return parser


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("stopped; what was measured so far is kept")
        sys.exit(130)
