"""Simulates a corpus on many workers, of which some are slow and some fail.

    python -m research.benchmarks.scale
    python -m research.benchmarks.scale --shards
    python -m research.benchmarks.scale --workers 1000 --texts 1e9 --seconds 0.01

Workers take parts from one queue, as Ray's actors do, or have their own share from the beginning,
as shards do (--shards). A worker has a speed of its own, and so has a part. Where a worker fails,
its part goes back, what was done of it is lost, and the worker comes back after a while, when it
has loaded its model. Printed is the share of the workers' time that went into results, and how much
longer the run takes than it would if nothing were ever slow or failed.
"""

from __future__ import annotations

import argparse
import heapq
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Fleet:
    """What the workers are like.

    Attributes:
        workers: how many.
        between_failures: hours of one worker between two failures, on average.
        start: seconds to come back and load the model.
        slow_workers: spread of the workers' speeds (of their logarithm).
        slow_parts: spread of the time that parts take (of its logarithm).
        overhead: seconds of a part that explain nothing: reading, writing, renaming.
    """

    workers: int
    between_failures: float
    start: float = 60.0
    slow_workers: float = 0.15
    slow_parts: float = 0.1
    overhead: float = 0.5


@dataclass(frozen=True)
class Run:
    """How a run went.

    Attributes:
        hours: that it took.
        useful: share of the workers' time that went into results.
        stretch: how many times as long as without slow workers, failures and overhead.
        failures: of workers.
    """

    hours: float
    useful: float
    stretch: float
    failures: int


def simulate(parts: int, part_seconds: float, fleet: Fleet, seed: int, shards: bool) -> Run:
    """One run.

    Args:
        parts: how many.
        part_seconds: that a part takes on an ordinary worker.
        fleet: what the workers are like.
        seed: of the chances.
        shards: whether every worker has its own share of the parts.
    """
    chance = random.Random(seed)
    speeds = [chance.lognormvariate(0, fleet.slow_workers) for _ in range(fleet.workers)]
    rate = 1 / (3600 * fleet.between_failures)
    free = [(fleet.start, worker) for worker in range(fleet.workers)]
    heapq.heapify(free)
    share = -(-parts // fleet.workers) if shards else parts
    own = [min(share, max(0, parts - worker * share)) for worker in range(fleet.workers)]
    left, failures, end = parts, 0, 0.0
    while left:
        now, worker = heapq.heappop(free)
        if shards and not own[worker]:
            continue
        needed = part_seconds * speeds[worker] * chance.lognormvariate(0, fleet.slow_parts)
        needed += fleet.overhead
        failure = chance.expovariate(rate)
        if failure < needed:
            failures += 1
            heapq.heappush(free, (now + failure + fleet.start, worker))
            continue
        left -= 1
        own[worker] -= 1
        end = max(end, now + needed)
        heapq.heappush(free, (now + needed, worker))
    useful = parts * part_seconds
    ideal = useful / fleet.workers
    return Run(end / 3600, useful / (end * fleet.workers), end / ideal, failures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--texts", type=float, default=1e9)
    parser.add_argument("--seconds", type=float, default=0.01, help="of a text, on one worker")
    parser.add_argument("--part-texts", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--between-failures", type=float, nargs="+", default=[1000, 24, 2])
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| texts of a part | hours between failures | hours | useful | stretch | failures |")
    print("| --- | --- | --- | --- | --- | --- |")
    for texts in options.part_texts:
        parts = round(options.texts / texts)
        for hours in options.between_failures:
            fleet = Fleet(options.workers, hours)
            run = simulate(parts, texts * options.seconds, fleet, options.seed, options.shards)
            print(
                f"| {texts:,} | {hours:g} | {run.hours:.2f} | {run.useful:.0%} | "
                f"{run.stretch:.2f} | {run.failures:,} |"
            )


if __name__ == "__main__":
    main()
