"""Work that is killed at every step: a program forks, works in the child, and has the child killed.

A step is whatever Python tells its audit hooks about files: opening, renaming, removing and making
folders.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

STEPS = (
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "shutil.rmtree",
    "shutil.copyfile",
    "os.listdir",
)


def killed_in_child(work: Callable[[], None]) -> bool:
    """Works in a child process; whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)


def killed_at(step: int, work: Callable[[], None], under: Path) -> bool:
    """Runs work in a child process and kills it before its step-th step under a folder.

    Returns False if the work was done before that step.
    """

    def counted() -> None:
        left = step

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in STEPS and arguments and str(arguments[0]).startswith(str(under)):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        work()

    return killed_in_child(counted)


def every_step(
    prepare: Callable[[], None], work: Callable[[], None], check: Callable[[], None], under: Path
) -> int:
    """Prepares, works, kills and checks once for each step of the work; returns their number."""
    step = 0
    while True:
        prepare()
        killed = killed_at(step, work, under)
        check()
        if not killed:
            return step
        step += 1
