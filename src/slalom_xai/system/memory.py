"""Memory that stays the same however many texts are explained.

Three things would let a process grow for hours although it holds nothing:

- **oneDNN**, with which torch computes on a CPU, keeps a compiled form for each of the last 1,024
  shapes of a batch. Every text brings new shapes, and what is kept lies scattered over the heap.
- **glibc**, the C library of most Linux machines, first gives every large block a mapping of its
  own. Once such a block was freed, it takes blocks of that size from its heap, up to 32 MB. Small
  blocks that live longer are then cut from the holes, and the next large block fits into none.
- It also keeps what is free between blocks.
"""

from __future__ import annotations

import ctypes
import os
import sys

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
