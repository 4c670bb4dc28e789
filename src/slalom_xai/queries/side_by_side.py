"""Does several things at once, each in a thread of its own, and gives the results in order.

Torch can share the work of one operation among threads, but these wait for each other after every
one. Where operations are short, and above all where other programs want the processor, most of the
time goes into that waiting. Threads that have a batch each wait for nobody. Each of them computes
as one thread would by itself, so that results do not depend on how many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from slalom_xai.system.threads import work_alone

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    alone: Callable[[Item], bool],
) -> Iterator[Result]:
    """What ``work`` makes of each item, in their order.

    Args:
        work: called in several threads at once.
        items: taken one by one, so that only a few of them are in memory.
        threads: how many.
        alone: whether an item is worked on by itself, after those before it and before those
            after it.
    """
    pool = ThreadPoolExecutor(threads, initializer=work_alone)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while under_way and (by_itself or len(under_way) >= threads):
                yield under_way.popleft().result()
            under_way.append(pool.submit(work, item))
            if by_itself:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
