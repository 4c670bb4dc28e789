"""How many rows a text has, and how many a method may still ask."""

from __future__ import annotations

import numpy as np

from slalom_xai.designs import (
    DESIGN,
    RowPool,
    count_distinct_rows,
    draw_held_out,
    held_out_size,
)
from slalom_xai.designs.masks import every_mask
from slalom_xai.queries import Queries
from slalom_xai.row_keys import Keys


def row_pool(queries: Queries) -> RowPool:
    """Hands out rows of the text that the model can tell from each other."""
    return RowPool(queries.prompt.interchangeable, queries.prompt.keys)


def accepts_empty(queries: Queries) -> bool:
    """Whether the text with everything removed is something that the model can read."""
    nothing = queries.prompt.row(~queries.prompt.whole[0])
    return nothing != "" and queries.model.size(nothing) != 0


def calls_before_test(queries: Queries) -> int:
    """Calls that a method may still spend before the test takes its share."""
    return queries.budget - queries.calls - held_out_size(queries.budget)


def calls_to_fit(queries: Queries, needed: int) -> int:
    """Calls left for a fit: all but the test's, or all where that is less than ``needed``."""
    calls = calls_before_test(queries)
    if calls >= needed:
        return calls
    return queries.budget - queries.calls


def count_rows(queries: Queries) -> int:
    """How many different rows the text has, the empty one not among them."""
    units = len(queries.prompt.units)
    if units > DESIGN.enumerable:
        return count_distinct_rows(queries.prompt.interchangeable)
    return len(np.unique(queries.prompt.keys(every_mask(units))))


def keys_kept_for_test(queries: Queries, parameters: int, rng: np.random.Generator) -> Keys:
    """The keys of rows that a fit must leave to the test, where it would otherwise ask all.

    Args:
        queries: asks about the text.
        parameters: what the fit must determine.
        rng: draws the rows.
    """
    rows = count_rows(queries)
    spare = min(rows, queries.budget) - 1 - parameters
    if rows > queries.budget or spare < DESIGN.least_held_out:
        return np.zeros(0, dtype=np.int64)
    size = min(held_out_size(queries.budget), spare // 2)
    kept = draw_held_out(row_pool(queries), size, rng)
    return queries.prompt.keys(np.concatenate([kept.local, kept.wide]))
