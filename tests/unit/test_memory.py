"""Memory that nobody uses any more goes back to the machine."""

import platform
from pathlib import Path

import pytest

from slalom_xai.system.memory import give_back_memory


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
