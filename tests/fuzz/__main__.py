"""The command: ``make fuzz``, or ``python -m fuzz`` with ``tests`` on the path."""

from __future__ import annotations

import argparse
import sys

from fuzz.report import Report, alone, say
from fuzz.workers import KINDS, Plan, one, results

CASES = {
    "text": 15_000,
    "file": 20_000,
    "folder": 600,
    "plant": 600,
    "trust": 900,
    "list": 300,
    "api": 1500,
    "store": 1_000,
    "door": 2_000,
}


def main() -> int:
    """Runs the fuzz; 1 where anything broke."""
    given = _parser().parse_args()
    if given.case:
        kind, _, seed = given.case.partition(":")
        return 0 if alone(given.case, one(kind, int(seed))) else 1
    cases = {kind: max(1, int(count * given.share)) for kind, count in CASES.items()}
    plan = Plan(given.seconds, given.processes, given.seed, cases)
    say(f"seed {plan.seed}, {plan.processes} processes, at most {plan.seconds:g} seconds")
    say(f"cases: {cases}")
    report = Report()
    for done in results(plan):
        if done is not None:
            report.add(done)
        report.progress()
    return 0 if report.verdict() else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2400, help="to begin cases in")
    parser.add_argument("--processes", type=int, default=2, help="that run cases")
    parser.add_argument("--seed", type=int, default=0, help="each seed has cases of its own")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of cases")
    parser.add_argument("--case", default="", type=_case, help="one case alone, as text:17")
    return parser


def _case(given: str) -> str:
    kind, _, seed = given.partition(":")
    if given and (kind not in KINDS or not seed.isdecimal()):
        raise argparse.ArgumentTypeError(f"{given!r} is no case: give one such as text:17")
    return given


if __name__ == "__main__":
    sys.exit(main())
