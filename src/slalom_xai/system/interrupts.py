"""Ctrl-C on the command line: heard once, wherever it comes.

Python raises KeyboardInterrupt in whatever code runs at that moment. Inside an import that may be a
callback whose exceptions are only printed, or code of a library that catches everything: then the
command would go on. So while there is nothing to save, Ctrl-C ends the process at once. Later, an
interrupt that Python could only print is sent again.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

STATUS = 130  # what shells report for a command ended by Ctrl-C
_SOON = 0.02  # seconds until a lost interrupt is sent again: time for the callback to return


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Lets Ctrl-C end the process here and now, for imports and loading.

    Where Ctrl-C is ignored or handled by somebody else, it stays so.
    """
    if not _ours():
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def resend_interrupts() -> Iterator[None]:
    """Sends an interrupt again that was raised where Python can only print it."""
    before = sys.unraisablehook

    def hook(lost: UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        timer = threading.Timer(_SOON, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _ours() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(STATUS)
