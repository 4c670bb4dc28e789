"""Short random sequences of a text's distinct units (Algorithm 1 of the paper)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from slalom_xai.designs.pool import RowPool
from slalom_xai.designs.settings import DESIGN
from slalom_xai.row_keys import Keys


def short_sequences(
    pool: RowPool,
    rows: int,
    length: int,
    rng: np.random.Generator,
    keys: Callable[[NDArray[np.int64]], Keys],
) -> NDArray[np.int64]:
    """New sequences of distinct units, drawn uniformly and with repeats.

    Args:
        pool: hands out each row once.
        rows: how many at most.
        length: units in each.
        rng: the source of randomness.
        keys: sequences (m, length) to numbers (m,) that are equal where they read the same.

    Returns:
        Indices of units, (rows, length).
    """
    _, first_units = np.unique(pool.codes, return_index=True)
    if len(first_units) ** length <= DESIGN.listed_sequences * rows:
        axes = np.meshgrid(*[first_units] * length, indexing="ij")
        every = np.stack(axes, axis=-1).reshape(-1, length)
        return rng.permutation(every[pool.claim(keys(every))], axis=0)[:rows]
    taken = np.zeros((0, length), dtype=np.int64)
    while len(taken) < rows:
        drawn = rng.choice(first_units, (rows - len(taken), length))
        taken = np.concatenate([taken, drawn[pool.claim(keys(drawn))]])
    return taken
