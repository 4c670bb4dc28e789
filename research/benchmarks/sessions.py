"""Finds and ends the processes of a command that was started in a session of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Ray gives its workers a low priority, so that they wait for whatever else runs here.
AS_URGENT = {**os.environ, "RAY_worker_niceness": "0"}

# How the command lines of workers look: processes that a run spawns, and Ray's actors.
_WORKERS = ("multiprocessing.spawn", "ray::MapWorker")


def workers_of(session: int) -> list[int]:
    """The processes that explain parts.

    Args:
        session: the process that was started with ``start_new_session=True``.
    """
    return [
        number for number, said in _processes(session) if any(name in said for name in _WORKERS)
    ]


def kill_process(number: int) -> bool:
    """Kills a process; False where it is gone already."""
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def end_session(session: int) -> None:
    """Kills what a killed process left behind."""
    for number, _ in _processes(session):
        kill_process(number)


def _processes(session: int) -> Iterator[tuple[int, str]]:
    """All processes of a session but the first, with their command lines."""
    for path in Path("/proc").glob("[0-9]*"):
        number = int(path.name)
        try:
            of_session = os.getsid(number) == session
            said = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
        if of_session and number != session:
            yield number, said
