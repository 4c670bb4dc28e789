"""What the paper's estimators share: their tuned numbers, and the rows that they ask about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import one_of
from slalom_xai.methods.counts import Counts
from slalom_xai.methods.evidence import AnsweredHeldOut, AnsweredRows, Evidence
from slalom_xai.queries import Queries
from slalom_xai.slalom.plan import HeldOut, draw_held_out
from slalom_xai.slalom.rows import DESIGN, RowPool, held_out_size
from slalom_xai.system.row_keys import Keys

# The tuned numbers of the paper's estimators.


@dataclass(frozen=True)
class Candidate:
    """What one of slalom-fidel's fits is given.

    Attributes:
        whole_weight: weight of the whole text, as a part of all other rows' together. Scores are
            read as changes against the whole text, which as one row of many is fitted badly.
        prior: on the importances.
    """

    whole_weight: float
    prior: float


@dataclass(frozen=True)
class PaperSettings:
    """How the paper's SLALOMs are fitted and tested.

    A prior is a ridge on the importances in units of the outputs' variance; a share is one of
    the variance of the fitted answers; a tolerance is the part of the objective by which a step
    must lower it.

    Attributes:
        weak_prior: next to nothing: what an exact SLALOM needs.
        eff_priors: priors that slalom-eff chooses from, strong and weak.
        eff_least_rows: rows from which slalom-eff chooses at all; fewer are all needed to fit.
        eff_test_part: one row in so many decides.
        eff_least_report: rows that slalom-eff is tested on at least, where there are so many.
            They are as long as the text, and so take longer than the short ones that are fitted.
        without_sink: what slalom-fidel chooses from; the last is the one that may be exact.
        with_sink: the same with a sink. Those of one prior stand together and are fitted at once.
        vanishing_priors: ever weaker priors, where slalom-fidel suspects an exact SLALOM.
        exact: share left below which a model is exactly the SLALOM that is fitted. Single precision
            leaves about 1e-12 of one, other models leave far more.
        suspected: share left below which there seems to be one.
        halved: a weaker prior must at once leave less than this part of what was left.
        trial_steps: steps in which it must.
        vanishing_steps: steps of a fit whose prior vanishes.
        tolerance: of fits that are compared; held-out errors no longer tell beyond it.
        final_tolerance: of slalom-eff's last fit.
        vanishing_tolerance: of fits whose prior vanishes, which must end where nothing is left.
        least_units: of a text that is tested; shorter ones have no rows to spare.
    """

    weak_prior: float = 1e-6
    eff_priors: tuple[float, ...] = (1e-2, 1e-6)
    eff_least_rows: int = 30
    eff_test_part: int = 10
    eff_least_report: int = 40
    without_sink: tuple[Candidate, ...] = (Candidate(0.1, 1e-3), Candidate(0.1, 1e-6))
    with_sink: tuple[Candidate, ...] = (
        Candidate(0.1, 1e-2),
        Candidate(1.0, 1e-2),
        Candidate(0.1, 1e-3),
        Candidate(1.0, 1e-3),
    )
    vanishing_priors: tuple[float, ...] = (1e-9, 1e-12, 1e-15)
    exact: float = 1e-8
    suspected: float = 1e-4
    halved: float = 0.5
    trial_steps: int = 12
    vanishing_steps: int = 300
    tolerance: float = 1e-4
    final_tolerance: float = 1e-5
    vanishing_tolerance: float = 1e-12
    least_units: int = 5


PAPER = PaperSettings()


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


# Short random sequences of a text's distinct units (Algorithm 1 of the paper).


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
