"""Times explanations, ours and others', beside the bare forward passes of their rows."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from research.benchmarks.results_file import ResultsFile, read, say

AXES = ("calls", "classes", "texts", "tokens")
EXAMPLES = """examples:
  python -m research.benchmarks.speed --out speed.jsonl --models embedded,minilm --calls 2000
  python -m research.benchmarks.speed --out speed.jsonl --part errors --models FOLDER \\
    --data reviews.jsonl.gz --texts 5 --tokens 100
  python -m research.benchmarks.speed --out speed.jsonl --part calls --device cuda \\
    --models distil2,distil6 --calls 5000 --seconds 300
  python -m research.benchmarks.speed --tables speed.jsonl
  python -m research.benchmarks.speed --plots docs/figures speed.jsonl
"""


def main() -> None:
    """Reads the command line and does what it says."""
    parser = _parser()
    given = parser.parse_args()
    if given.packages:
        sys.path.append(str(given.packages.resolve()))  # behind what is installed
    if given.one:
        from research.benchmarks.speed.memory import MemoryCase, measure

        print(json.dumps(measure(MemoryCase(**json.loads(given.one)))))
    elif given.tables:
        from research.benchmarks.speed.tables import tables

        print(tables(read(given.tables)))
    elif given.plots:
        from research.benchmarks.speed.plots import plots

        for path in plots(read(given.plots[1:]), given.plots[0]):
            print(path)
    else:
        _run(parser, given)


def _run(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    import torch

    from research.benchmarks.speed.methods import OURS
    from research.benchmarks.speed.options import SpeedOptions
    from research.benchmarks.speed.others import LIBRARIES
    from research.benchmarks.speed.parts import PARTS

    methods = tuple(filter(None, given.methods.split(",")))
    unknown = [name for name in methods if name not in (*OURS, *LIBRARIES)]
    if unknown:
        parser.error(f"no method {unknown[0]!r}: give some of {', '.join((*OURS, *LIBRARIES))}")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU here")
    if given.threads:
        torch.set_num_threads(given.threads)
    options = SpeedOptions(
        models=tuple(filter(None, given.models.split(","))),
        methods=methods,
        calls=given.calls,
        tokens=given.tokens,
        texts=given.texts,
        data=given.data,
        repeats=given.repeats,
        device=given.device,
        threads=given.threads,
        axes=given.axes,
        memory=not given.no_memory,
    )
    log = ResultsFile(given.out, given.seconds)
    for part in given.part or ["calls"]:
        if not log.late(part):
            PARTS[part](options, log)
    say(f"results are in {given.out}: python -m research.benchmarks.speed --tables {given.out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m research.benchmarks.speed",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser)
    _add_how(parser)
    _add_reports(parser)
    return parser


def _add_what(parser: argparse.ArgumentParser) -> None:
    """What is measured."""
    parser.add_argument(
        "--part",
        action="append",
        choices=("calls", "errors", "growth", "memory"),
        help="what to measure, again for more (calls)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("speed.jsonl"),
        help="results are added to this file (speed.jsonl)",
    )
    parser.add_argument(
        "--models",
        default="",
        help=(
            "names or folders, with commas: embedded, minilm, tiny, thin, distil2, distil6, "
            "llama7b (embedded; for growth tiny, thin or distil2)"
        ),
    )
    parser.add_argument(
        "--methods",
        default="",
        help=(
            "names with commas; by default all that are installed, for growth slalom, for memory "
            "ours"
        ),
    )
    parser.add_argument(
        "--calls",
        type=_numbers,
        default=(2000,),
        help="model calls per text, with commas for several (2000)",
    )
    parser.add_argument("--tokens", type=_positive, default=200, help="length of the texts (200)")
    parser.add_argument("--texts", type=_positive, default=3, help="texts for the part errors (3)")
    parser.add_argument(
        "--data",
        type=Path,
        help="JSON lines with a field text, gzipped or not; made texts by default",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    """How it is measured, and for how long."""
    parser.add_argument(
        "--repeats",
        type=_positive,
        default=3,
        help="measurements of each, of which the median counts (3)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--threads", type=int, default=0, help="of torch; its own choice by default"
    )
    parser.add_argument(
        "--seconds", type=float, default=36000, help="begin nothing new after so many (36000)"
    )
    parser.add_argument(
        "--axes",
        type=_axes,
        default=AXES,
        help="what grows in the part growth, with commas (calls,classes,texts,tokens)",
    )
    parser.add_argument(
        "--no-memory",
        action="store_true",
        help="do not measure memory, which on a CPU takes a process for each method",
    )
    parser.add_argument(
        "--packages",
        type=Path,
        help="folder with packages that are not installed, as pip install --target makes it",
    )


def _add_reports(parser: argparse.ArgumentParser) -> None:
    """What to make of earlier results."""
    parser.add_argument(
        "--tables",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="print tables and targets of earlier results",
    )
    parser.add_argument(
        "--plots",
        type=Path,
        nargs="+",
        metavar=("FOLDER", "FILE"),
        help="draw the growth of earlier results into a folder",
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a measurement of memory, for ourselves


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _axes(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if not set(found) <= set(AXES):
        raise argparse.ArgumentTypeError(f"{text!r} is not made of {', '.join(AXES)}")
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("stopped; what was measured so far is kept")
        sys.exit(130)
