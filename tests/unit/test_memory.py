"""Memory that nobody uses any more goes back to the machine."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from slalom_xai.system.process import LARGE_BLOCK, give_back_memory


def held() -> int:
    """Bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return 4096 * pages


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps free memory")
def test_holes_between_pieces_go_back_to_the_machine():
    pieces = [bytes(20_000) for _ in range(10_000)]
    full = held()
    kept = pieces[::500]  # a few pieces keep the rest from going back by itself
    del pieces
    give_back_memory()
    assert held() < full - 100_000_000
    assert all(len(piece) == 20_000 for piece in kept)


_SHAPES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"

# In a process of its own, because nothing takes a threshold back. A block that is freed leaves a
# hole between small ones in the heap; a block with a mapping of its own leaves none.
_LARGE = f"""
import ctypes
from slalom_xai.system.process import keep_memory_flat
library = ctypes.CDLL(None)
library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
library.malloc.argtypes = library.free.argtypes = [ctypes.c_size_t]
library.free(library.malloc({2 * LARGE_BLOCK}))  # after this, glibc would use its heap
keep_memory_flat()
before = library.sbrk(0)
blocks = [library.malloc({LARGE_BLOCK + 1}) for _ in range(9)]
print(library.sbrk(0) - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a threshold")
def test_large_blocks_stay_out_of_the_heap():
    done = subprocess.run(
        [sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 0


@pytest.mark.parametrize(("chosen", "kept"), [({}, "16"), ({_SHAPES: "200"}, "200")])
def test_few_compiled_shapes_are_kept_unless_the_user_says_so(chosen, kept):
    code = (
        "import os; from slalom_xai.system.process import keep_memory_flat; keep_memory_flat(); "
        f"print(os.environ['{_SHAPES}'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != _SHAPES} | chosen
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == kept
