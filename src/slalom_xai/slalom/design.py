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

import numpy as np

from slalom_xai.slalom.plan import HeldOut, draw_held_out, few_rows
from slalom_xai.slalom.rows import (
    DESIGN,
    Masks,
    RowPool,
    even_counts,
    every_mask,
    held_out_size,
    log_uniform_counts,
)
from slalom_xai.slalom.settings import CallSettings


def draw_test(
    pool: RowPool, calls: int, budget: int, rng: np.random.Generator, settings: CallSettings
) -> HeldOut | None:
    """The texts of one round that only test; None where all calls are needed to fit.

    Args:
        pool: hands out each distinct text once.
        calls: of this round.
        budget: calls of all rounds together.
        rng: draws them.
        settings: how calls are shared out.
    """
    if budget < max(settings.tested, settings.scarce * pool.units):
        return None
    size = max(held_out_size(calls), round(settings.test_share * calls))
    drawn = draw_held_out(pool, min(size, DESIGN.most_held_out), rng, settings.test_few)
    return drawn if drawn.complete else None


def draw_fit(
    pool: RowPool,
    calls: int,
    budget: int,
    rng: np.random.Generator,
    settings: CallSettings,
    single: bool,
) -> Masks:
    """Texts to fit, (calls, n) or fewer where they run out.

    Args:
        pool: hands out each distinct text once.
        calls: how many.
        budget: calls of all rounds together.
        rng: draws them.
        settings: how calls are shared out.
        single: begin with the texts that lack one unit each.
    """
    if calls <= 0 or pool.units < 2:
        return np.zeros((0, pool.units), dtype=bool)
    longest = pool.units - 1
    parts = []
    if single:
        parts.append(pool.take(~np.eye(pool.units, dtype=bool), calls))
    left = calls - sum(map(len, parts))
    if budget < settings.scarce * pool.units:
        parts.append(few_rows(pool, left, rng))
    else:
        parts.append(pool.draw(left // 2, log_uniform_counts(longest, rng), rng))
        parts.append(pool.draw(left - left // 2, even_counts(1, longest, rng), rng))
    left = calls - sum(map(len, parts))
    if left > 0 and pool.units <= settings.enumerable:
        rest = rng.permutation(pool.take(every_mask(pool.units)), axis=0)
        parts.append(rest[:left])
    return np.concatenate(parts)
