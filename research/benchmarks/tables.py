r"""Tables of a methods-by-metrics benchmark from its log alone.

    python -m research.benchmarks.tables FOLDER --methods slalom,lime --metrics fidelity,deletion \
        [--number fidelity-wide:r2]

They are over the texts that every method has been measured on. ``slalom bench`` prints the same
when it has done all texts; this is for one that was stopped, or whose explanations stayed
elsewhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from slalom_xai.data.bench.options import BenchOptions
from slalom_xai.data.bench.results import Log, tidy
from slalom_xai.data.bench.writing import table_lines
from slalom_xai.metrics import catalogue


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where log.jsonl and settings.json are")
    parser.add_argument("--methods", required=True)
    parser.add_argument("--metrics", required=True)
    parser.add_argument(
        "--number",
        action="append",
        default=[],
        metavar="METRIC:NUMBER",
        help="a number other than each metric's first",
    )
    given = parser.parse_args()
    options = BenchOptions(
        tuple(given.methods.split(",")),
        tuple(given.metrics.split(",")),
        rationale="given",
        corpus="given",
    ).resolve()
    log = Log.open(given.folder, json.loads((given.folder / "settings.json").read_text()))
    texts = sorted({text for text, _ in log.measured}, key=int)
    complete = [text for text in texts if _is_complete(log, text, options)]
    frame = tidy(log, complete, options)
    print(f"{len(complete)} texts\n")
    print("\n".join(table_lines(frame, _shown(options.metrics, given.number))))


def _is_complete(log: Log, text: str, options: BenchOptions) -> bool:
    """Whether every method has every metric of a text."""
    wanted = set(options.metrics)
    return all(wanted <= set(log.measured.get((text, name), {})) for name in options.methods)


def _shown(metrics: Sequence[str], numbers: Sequence[str]) -> list[tuple[str, str]]:
    """Which number of which metric: its first, where none is asked for."""
    named = [(name.partition(":")[0], name.partition(":")[2]) for name in numbers]
    others = [metric for metric in metrics if metric not in dict(named)]
    return [(metric, next(iter(catalogue()[metric].gives))) for metric in others] + named


if __name__ == "__main__":
    main()
