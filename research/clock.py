"""How long work takes, also on a device that works on its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch


def clocked(work: Callable[[], object], device: torch.device) -> float:
    """The seconds that something takes, the device being idle before and after."""
    gc.collect()
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
