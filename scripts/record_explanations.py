"""Writes down what explanations give, so that a change that should change nothing can be checked.

    python scripts/record_explanations.py before.json
    ... change the code ...
    python scripts/record_explanations.py after.json --compare before.json

    python scripts/record_explanations.py tests/fixtures/recorded.json --small

Six cases (texts, granularities, removals) are explained by every method, for the embedded model, a
tiny encoder, a tiny decoder and a function, with two seeds. Numbers may differ by 1e-9 of their
size, calls and notes not at all. Run it with one thread (OMP_NUM_THREADS=1): sums in another order
differ by more. The last command replaces what the tests keep, after a change that is meant to
change numbers.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

from recording import SMALL, SMALL_CASES, differences, models, recorded

TOLERANCE = 1e-9  # of a number's size


def main() -> int:
    """Records, and compares where that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="where to write the record")
    parser.add_argument("--compare", type=Path, help="an earlier record")
    parser.add_argument(
        "--only",
        default="",
        help="models and methods to record, as in: embedded:slalom,function:lime",
    )
    parser.add_argument(
        "--small", action="store_true", help="only what tests/fixtures/recorded.json keeps"
    )
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    wanted = set(options.only.split(",")) - {""}
    jobs = [(model, method) for model, (_, names) in models().items() for method in names]
    jobs = [
        job
        for job in jobs
        if not wanted or ":".join(job) in wanted or job[0] in wanted or job[1] in wanted
    ]
    record: dict[str, Any] = {}
    record_job: Callable[[tuple[str, str]], dict[str, Any]] = recorded
    if options.small:
        jobs = list(SMALL)
        record_job = functools.partial(recorded, cases=SMALL_CASES, seeds=(0,))
    with get_context("spawn").Pool(options.processes) as pool:
        for done, found in enumerate(pool.imap(record_job, jobs), start=1):
            record |= found
            print(f"\r{done} of {len(jobs)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    options.out.write_text(json.dumps(record), encoding="utf-8")
    if options.compare is None:
        return 0
    before = json.loads(options.compare.read_text(encoding="utf-8"))
    earlier = {key: before[key] for key in record if key in before}
    changed = list(differences(earlier, record, TOLERANCE))
    print("\n".join(changed[:40]))
    print(f"{len(record)} explanations, {len(changed)} differences")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
