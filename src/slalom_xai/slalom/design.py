"""Which perturbed texts are sent to the model.

First how many units go, then which: every choice of so many units is equally likely. Half of the
texts lack a number of units drawn on a log scale, as many between 1 and 10 as between 10 and 100:
readers remove a few words. The other half lack any number, all equally likely. Where there are
few calls for so many units, most texts keep about half of the units: each then tells something of
all of them.

The texts without one single unit come first where the budget allows for all of them, because what
they change is a score of its own (``removal``). The empty text says where the sink is.

The calls that only test lack 1 to 10 units, or any number, all equally likely. They are set apart
before anything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slalom_xai.designs import HeldOut, RowPool, draw_held_out, few_rows, held_out_size
from slalom_xai.designs.masks import Masks, even_counts, every_mask, log_uniform_counts
from slalom_xai.designs.settings import DESIGN


@dataclass(frozen=True)
class DesignOfCalls:
    """How calls are shared out.

    Attributes:
        scarce: calls per unit below which most texts keep about half of the units.
        single: calls per unit from which on each unit is removed by itself, for ``removal``.
        tested: calls from which on some are set apart to test. Below, each is predicted from the
            others.
        test_share: share of the calls that only test, where that is more than the usual tenth.
        test_few: share of those that lack 1 to 10 units. The verdict rests on the others.
        enumerable: units; all texts with so many are listed where calls are left.
    """

    scarce: float = 3.0
    single: float = 6.0
    tested: int = 150
    test_share: float = 0.125
    test_few: float = 1 / 3
    enumerable: int = 12


CALLS = DesignOfCalls()


def draw_test(pool: RowPool, calls: int, budget: int, rng: np.random.Generator) -> HeldOut | None:
    """The texts of one round that only test; None where all calls are needed to fit.

    Args:
        pool: hands out each distinct text once.
        calls: of this round.
        budget: calls of all rounds together.
        rng: draws them.
    """
    if budget < max(CALLS.tested, CALLS.scarce * pool.units):
        return None
    size = max(held_out_size(calls), round(CALLS.test_share * calls))
    drawn = draw_held_out(pool, min(size, DESIGN.most_held_out), rng, CALLS.test_few)
    return drawn if drawn.complete else None


def draw_fit(
    pool: RowPool, calls: int, budget: int, rng: np.random.Generator, single: bool
) -> Masks:
    """Texts to fit, (calls, n) or fewer where they run out.

    Args:
        pool: hands out each distinct text once.
        calls: how many.
        budget: calls of all rounds together.
        rng: draws them.
        single: begin with the texts that lack one unit each.
    """
    if calls <= 0 or pool.units < 2:
        return np.zeros((0, pool.units), dtype=bool)
    longest = pool.units - 1
    parts = []
    if single:
        parts.append(pool.take(~np.eye(pool.units, dtype=bool), calls))
    left = calls - sum(map(len, parts))
    if budget < CALLS.scarce * pool.units:
        parts.append(few_rows(pool, left, rng))
    else:
        parts.append(pool.draw(left // 2, log_uniform_counts(longest, rng), rng))
        parts.append(pool.draw(left - left // 2, even_counts(1, longest, rng), rng))
    left = calls - sum(map(len, parts))
    if left > 0 and pool.units <= CALLS.enumerable:
        rest = rng.permutation(pool.take(every_mask(pool.units)), axis=0)
        parts.append(rest[:left])
    return np.concatenate(parts)
