"""What the paper's estimators share: rows kept for the report, and rows of few units."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.designs import DESIGN, HeldOut, RowPool, draw_held_out, held_out_size
from slalom_xai.errors import one_of
from slalom_xai.estimators.evidence import AnsweredHeldOut, AnsweredRows, Evidence
from slalom_xai.estimators.paper.settings import PAPER
from slalom_xai.queries import Queries
from slalom_xai.surrogates.count_tables import Counts


def check_solver(given: str, valid: tuple[str, ...]) -> None:
    """Raises InputError where a solver is none of those that there are."""
    if given not in valid:
        raise one_of("solver", given, valid)


def pool_of_distinct(queries: Queries) -> RowPool:
    """Hands out rows, equal units taken for one; the whole text is handed out already."""
    pool = RowPool(queries.prompt.codes, queries.prompt.keys)
    pool.take_whole()
    return pool


def draw_report(
    pool: RowPool, queries: Queries, spare: int, rng: np.random.Generator, most: int | None = None
) -> HeldOut | None:
    """The rows to report on, drawn before any other, where the text and the budget leave some.

    Args:
        pool: hands out rows.
        queries: with the budget.
        spare: calls that the fit does not need.
        rng: draws the rows.
        most: rows at most; None: no further limit.
    """
    if spare < DESIGN.least_held_out or pool.units < PAPER.least_units:
        return None
    size = min(held_out_size(queries.budget), spare)
    if most is not None:
        size = min(size, most)
    report = draw_held_out(pool, size, rng)
    return report if report.complete else None


def calls_besides(queries: Queries, report: HeldOut | None) -> int:
    """Calls that the whole text and the rows to report on leave."""
    calls = queries.budget - 1
    if report is not None:
        calls -= report.size
    return calls


def evidence_of(
    queries: Queries, counts: Counts, outputs: Tensor, report: AnsweredHeldOut | None
) -> Evidence:
    """Rows to fit, counts (m, n) with outputs (m, C), and rows to report on as evidence."""
    full = queries.ask_whole("check")
    return Evidence(AnsweredRows(counts, outputs), None, report, full, queries.work)


def unit_counts(rows: list[NDArray[np.int64]], units: int, like: Tensor) -> Tensor:
    """Sets of rows by the indices of their units, (m_i, l_i) each, to counts (sum of m_i, n)."""
    counts = np.zeros((sum(map(len, rows)), units))
    start = 0
    for sequences in rows:
        indices = np.arange(start, start + len(sequences))[:, None]
        np.add.at(counts, (indices, sequences), 1)
        start += len(sequences)
    return torch.as_tensor(counts, device=like.device)
