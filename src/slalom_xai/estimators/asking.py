"""What methods share that ask a black box: rows within the budget, and the noise of other people's code kept out."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from slalom_xai.designs import (
    ENUMERABLE,
    LEAST_HELD_OUT,
    Pool,
    distinct_rows,
    held_out,
    held_out_rows,
)
from slalom_xai.estimators.base import fitting_budget
from slalom_xai.queries import Queries
from slalom_xai.row_keys import Keys

_one_at_a_time = threading.Lock()


def accepts_empty(queries: Queries) -> bool:
    """Whether the text with everything removed is something that the model can read."""
    nothing = queries.prompt.row(np.zeros(len(queries.prompt.units), dtype=bool))
    return not (queries.model.size(nothing) == 0 or nothing == "")


def rows_to_fit(queries: Queries, needed: int) -> int:
    """Calls left for the fit: what the test does not take, or all where that is too few, as fitting goes first."""
    rows = fitting_budget(queries)
    return rows if rows >= needed else queries.budget - queries.calls


def every_row(queries: Queries) -> int:
    """How many different rows the text has, the empty one not among them."""
    units = len(queries.prompt.units)
    if units > ENUMERABLE:
        return distinct_rows(queries.prompt.interchangeable)
    numbers = np.arange(1, 2**units)
    return len(
        np.unique(queries.prompt.keys(((numbers[:, None] >> np.arange(units)) & 1).astype(bool)))
    )


def kept_back_rows(queries: Queries, parameters: int, rng: np.random.Generator) -> Keys:
    """The keys of rows that a fit must leave to the test, where it would otherwise ask all that the text has."""
    rows = every_row(queries)
    spare = min(rows - 1 - parameters, queries.budget - 1 - parameters)
    if rows > queries.budget or spare < LEAST_HELD_OUT:
        return np.zeros(0, dtype=np.int64)
    kept = held_out(
        Pool(queries.prompt.interchangeable, queries.prompt.keys),
        min(held_out_rows(queries.budget), spare // 2),
        rng,
    )
    return queries.prompt.keys(np.concatenate([kept.local, kept.wide]))


@contextmanager
def apart(rng: np.random.Generator) -> Iterator[None]:
    """Other people's code: without its warnings, and with NumPy's shared random numbers seeded and put back.

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
