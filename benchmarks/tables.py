"""Tables of a methods-by-metrics benchmark from its log alone, over the texts that every method has been measured on.

    python benchmarks/tables.py FOLDER --methods slalom,lime --metrics fidelity,deletion [--number fidelity-wide:r2]

``slalom bench`` prints the same when it has done all texts; this is for one that was stopped, or
whose explanations stayed elsewhere.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from slalom_xai.bench.log import Log
from slalom_xai.bench.options import BenchOptions
from slalom_xai.bench.tables import _table, tidy
from slalom_xai.metrics import catalogue


def main() -> None:
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
        help="a column other than each metric's first",
    )
    given = parser.parse_args()
    rationale, corpus = "given", "given"
    options = BenchOptions(
        tuple(given.methods.split(",")),
        tuple(given.metrics.split(",")),
        rationale=rationale,
        corpus=corpus,
    ).settled()
    log = Log.open(given.folder, json.loads((given.folder / "settings.json").read_text()))
    texts = sorted({text for text, _ in log.measured}, key=int)
    complete = [
        text
        for text in texts
        if all(
            set(options.metrics) <= set(log.measured.get((text, m), {})) for m in options.methods
        )
    ]
    frame = tidy(log, complete, options)
    columns = [
        (name, next(iter(catalogue()[name].gives)))
        for name in options.metrics
        if not any(n.startswith(f"{name}:") for n in given.number)
    ]
    columns += [(name.partition(":")[0], name.partition(":")[2]) for name in given.number]
    print(f"{len(complete)} texts\n")
    print("\n".join(_table(frame, columns)))


if __name__ == "__main__":
    main()
