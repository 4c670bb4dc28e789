"""Runs cases in several processes, each its own seeds, until the work or the time is done."""

from __future__ import annotations

import multiprocessing
import os
import queue
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fuzz.cases import Outcome, guarded

KINDS = {
    "text": "fuzz.explaining",
    "file": "fuzz.files",
    "folder": "fuzz.folders",
    "plant": "fuzz.plants",
    "trust": "fuzz.trusting",
    "list": "fuzz.lists",
    "api": "fuzz.serving",
    "store": "fuzz.stores",
    "door": "fuzz.doors",
}
# Bytes: a model that reads a very long text runs out of memory, not the machine.
MEMORY = 10 * 2**30
APART = 1_000_000  # seeds between two runs of different seed


@dataclass(frozen=True)
class Plan:
    """How much to do.

    Attributes:
        seconds: until no further case begins.
        processes: that run cases.
        seed: of the run; each has cases of its own.
        cases: how many of each kind.
    """

    seconds: float
    processes: int
    seed: int
    cases: dict[str, int]


@dataclass(frozen=True)
class Done:
    """A case that ended, well or not."""

    kind: str
    seed: int
    outcome: Outcome


def one(kind: str, seed: int) -> Outcome:
    """Runs one case in this process."""
    from importlib import import_module

    return guarded(import_module(KINDS[kind]).run, seed)


def results(plan: Plan) -> Iterator[Done | None]:
    """Cases as they end, and None about every second in between."""
    context = multiprocessing.get_context("spawn")
    ended: Any = context.Queue()
    under_way = [context.Array("q", [-1, 0]) for _ in range(plan.processes)]
    given = [(plan, number, ended, cell) for number, cell in enumerate(under_way)]
    workers = [context.Process(target=_work, args=each, daemon=True) for each in given]
    for worker in workers:
        worker.start()
    try:
        yield from _collected(workers, under_way, ended)
    finally:
        for worker in workers:
            worker.join(timeout=10)
            worker.terminate()
            worker.join()
        ended.close()
        ended.join_thread()


def _collected(workers: list[Any], under_way: list[Any], ended: Any) -> Iterator[Done | None]:
    """Until every worker has said that it is done, or is dead."""
    running = set(range(len(workers)))
    while running:
        try:
            found = ended.get(timeout=1)
        except queue.Empty:
            yield None
            for number in [number for number in running if not workers[number].is_alive()]:
                running.discard(number)
                yield _died(workers[number].exitcode, under_way[number])
            continue
        if isinstance(found, Done):
            yield found
        else:
            running.discard(found)


def _died(code: int | None, under_way: Any) -> Done:
    """A process that ended in the middle of a case."""
    place, seed = under_way[:]
    kind = list(KINDS)[place] if place >= 0 else "nothing"
    return Done(kind, seed, Outcome(problems=[f"the process died: exit status {code}"]))


def _work(plan: Plan, number: int, ended: Any, under_way: Any) -> None:
    """The cases of one process: the kind that is furthest behind its number comes next."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    begun: Counter[str] = Counter()
    wanted = {kind: _share(count, number, plan.processes) for kind, count in plan.cases.items()}
    end = time.monotonic() + plan.seconds
    _end_with_parent()
    while time.monotonic() < end:
        left = [kind for kind in wanted if begun[kind] < wanted[kind]]
        if not left:
            break
        kind = min(left, key=lambda name: begun[name] / wanted[name])
        seed = plan.seed * APART + number + plan.processes * begun[kind]
        under_way[:] = [list(KINDS).index(kind), seed]
        ended.put(Done(kind, seed, one(kind, seed)))
        begun[kind] += 1
    ended.put(number)


def _end_with_parent() -> None:
    """Ends this process, in the middle of a case, when the one that started it is gone.

    A parent that is killed cannot end its workers, and nobody else would collect their results.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _share(count: int, number: int, processes: int) -> int:
    return count // processes + (number < count % processes)
