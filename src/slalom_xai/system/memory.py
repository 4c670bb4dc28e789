"""Memory that nobody uses any more goes back to the machine."""

from __future__ import annotations

import ctypes
import sys


def give_back_memory() -> None:
    """Hands free memory back where the C library keeps it, which is glibc, on Linux.

    Many threads that ask for pieces of many sizes leave holes, which glibc keeps: a process that
    explains text after text would grow by hundreds of megabytes without holding anything.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:  # another C library
        return
    trim(0)
