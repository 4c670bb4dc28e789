"""Runs code of other packages without its warnings and without its shared random numbers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_one_at_a_time = threading.Lock()


@contextmanager
def quiet_and_seeded(rng: np.random.Generator) -> Iterator[None]:
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
