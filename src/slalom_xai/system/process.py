"""What belongs to the whole process: threads, memory, shared random numbers, warnings."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

# How many threads torch uses for small work, and how to give them back.
#
# Torch shares the work of one operation among as many threads as there are cores. Where an
# operation takes microseconds, the threads wait for each other longer than they work, and on a
# busy machine very much longer. So small fits and small models get one thread; larger work keeps
# all cores. Small models are asked about a few batches at once instead: a thread with a batch of
# its own waits for nobody.
#
# A number that the user chose is left alone. Torch keeps one number per thread and one for
# threads that have not used torch yet: only the calling thread's number changes here, and only
# for a while.


VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ThreadSettings:
    """How many threads are enough.

    Attributes:
        fit: threads for a small fit, whose steps take microseconds.
        light: threads that ask a small model side by side, each about a batch of its own.
        long_fit: units from which a fit is large enough for all cores.
    """

    fit: int = 1
    light: int = 4
    long_fit: int = 256


THREADS = ThreadSettings()


@dataclass(frozen=True)
class Machine:
    """What tells a number of threads that somebody chose from torch's default.

    Attributes:
        threads: of torch when this module was imported.
        cores: that this process may use.
    """

    threads: int
    cores: int


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


HERE = Machine(torch.get_num_threads(), _cores())

_lock = threading.Lock()
_here = threading.local()  # .outside: this thread's number outside of every block


def for_fit(units: int) -> int | None:
    """Threads to fit a text of so many units with; None: as many as outside."""
    if units >= THREADS.long_fit:
        return None
    return THREADS.fit


def for_batches(machine: Machine = HERE) -> int:
    """Threads that may ask a small model side by side: the user's number, or a few."""
    outside: int = getattr(_here, "outside", torch.get_num_threads())
    if is_chosen_by_user(outside, machine):
        return outside
    return min(THREADS.light, outside)


def work_side_by_side(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What ``work`` makes of each item, in their order; several at once, each in one thread.

    This thread works as well: where it only waited, the others could find themselves on one core.
    Work that shares its own work in turn does so in one thread.
    """
    threads = min(for_batches(), len(items))
    if threads < 2 or getattr(_here, "shares", False):
        return [work(item) for item in items]
    waiting = deque(enumerate(items))
    results: dict[int, Result] = {}

    def work_on() -> None:
        while True:
            try:
                number, item = waiting.popleft()
            except IndexError:
                return
            results[number] = work(item)

    helpers = [_keep_pool(os.getpid(), threads - 1).submit(work_on) for _ in range(threads - 1)]
    _here.shares = True
    try:
        with at_most(1):
            work_on()
    finally:
        _here.shares = False
        waiting.clear()  # after an error; helpers that others keep busy are not waited for
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()  # raises what it met
    return [results[number] for number in range(len(items))]


@functools.lru_cache(maxsize=4)
def _keep_pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that are made once: to make them takes as long as a small piece of work."""
    return ThreadPoolExecutor(threads, initializer=work_alone)


def work_alone() -> None:
    """Lets a new thread's torch work without further threads, for as long as the thread lives."""
    torch.get_num_threads()  # otherwise torch would set its common number later, on first use
    _set_here(1)


@contextmanager
def at_most(most: int | None, machine: Machine = HERE) -> Iterator[None]:
    """Lets this thread's torch work with at most so many threads.

    Args:
        most: None gives back the number outside of every such block, for work that is not ours.
        machine: what torch began with.
    """
    with _lock:
        before = torch.get_num_threads()
    outermost = not hasattr(_here, "outside")
    outside: int = before if outermost else _here.outside
    wanted = outside
    if most is not None and not is_chosen_by_user(outside, machine):
        wanted = min(most, outside)
    if wanted == before:
        yield
        return
    if outermost:
        _here.outside = outside
    try:
        _set_here(wanted)
        yield
    finally:
        _set_here(before)
        if outermost:
            del _here.outside


@contextmanager
def new_threads_at_most(most: int | None, machine: Machine = HERE) -> Iterator[None]:
    """Threads that use torch for the first time while this is open work with at most so many.

    For many threads at once: each would otherwise need two more to change its number by itself.

    Args:
        most: None: as many as torch gives them.
        machine: what torch began with.
    """
    if most is None:
        yield
        return
    with _lock:
        common = _in_new_thread(torch.get_num_threads)
        if common <= most or is_chosen_by_user(common, machine):
            yield
            return
        _in_new_thread(lambda: torch.set_num_threads(most))
        try:
            yield
        finally:
            _in_new_thread(lambda: torch.set_num_threads(common))


def is_chosen_by_user(count: int, machine: Machine = HERE) -> bool:
    """Whether a number of threads is somebody's choice and not torch's default.

    Torch does not tell. Its default is the number of cores, of which some processors show two for
    each: a smaller number was chosen, and so was one that changed since this module was imported.
    """
    if any(os.environ.get(name) for name in VARIABLES):
        return True
    return count != machine.threads or count < machine.cores // 2


def _set_here(count: int) -> None:
    """Sets the number of this thread and leaves the one that new threads get."""
    with _lock:
        common = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(count)
        if common != count:
            _in_new_thread(lambda: torch.set_num_threads(common))


def _in_new_thread(work: Callable[[], Result]) -> Result:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


# Memory that stays the same however many texts are explained.
#
# Three things would let a process grow for hours although it holds nothing:
#
# - **oneDNN**, with which torch computes on a CPU, keeps a compiled form for each of the last 1,024
#   shapes of a batch. Every text brings new shapes, and what is kept lies scattered over the heap.
# - **glibc**, the C library of most Linux machines, first gives every large block a mapping of its
#   own. Once such a block was freed, it takes blocks of that size from its heap, up to 32 MB. Small
#   blocks that live longer are then cut from the holes, and the next large block fits into none.
# - It also keeps what is free between blocks.


# Bytes from which a block has a mapping of its own. A batch of a small model takes blocks of 2 to
# 16 MB. With 1 MB, a process is smaller by a sixth but takes a sixth more processor time, because
# every mapping is filled with zeros first.
LARGE_BLOCK = 4 * 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_SHAPES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_MOST_SHAPES = 16  # compiled forms that are kept; making one takes no time that can be measured


def keep_memory_flat() -> None:
    """Keeps this process from growing; call it before the model is asked for the first time.

    A number that the user chose for oneDNN is left alone. oneDNN reads it on first use, and cannot
    be told in another way.
    """
    os.environ.setdefault(_SHAPES, str(_MOST_SHAPES))
    library = _glibc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, LARGE_BLOCK)
        library.mallopt(_TRIM_THRESHOLD, LARGE_BLOCK)


def give_back_memory() -> None:
    """Hands back what is free between blocks, where glibc is."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library, where it is glibc: others have no such functions and numbers."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") else None


# Runs code of other packages without its warnings and without its shared random numbers.


_one_at_a_time = threading.Lock()


@contextmanager
def silence_and_seed(rng: np.random.Generator) -> Iterator[None]:
    """Hides warnings, seeds NumPy's shared random numbers, and puts both back afterwards.

    Both belong to the whole process, so that one thread at a time comes in.
    """
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = np.random.get_state()
        np.random.seed(int(rng.integers(2**31)))
        try:
            yield
        finally:
            np.random.set_state(before)
