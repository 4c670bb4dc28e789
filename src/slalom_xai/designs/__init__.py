"""Which shortened texts to ask about.

A row is a mask over the units: True keeps a unit. Two rows are the same question when the
kept units read the same, so every set of rows here is free of repeats. The rows to fit, to
choose between fits and to report on share none.

``budgets`` says how many rows there are and how many may be asked, ``masks`` draws them,
``pool`` hands out each of them once, ``plan`` shares a budget out, and ``sequences`` draws
the short sequences of the paper's Algorithm 1. ``settings`` holds all the numbers.
"""

from slalom_xai.designs.budgets import (
    check_budget,
    count_distinct_rows,
    default_budget,
    held_out_size,
    least_budget,
)
from slalom_xai.designs.masks import (
    Masks,
    deletions,
    even_counts,
    log_uniform_counts,
    uniform_counts,
)
from slalom_xai.designs.plan import (
    HeldOut,
    Plan,
    draw_held_out,
    extend_plan,
    few_rows,
    plan_rows,
)
from slalom_xai.designs.pool import RowPool
from slalom_xai.designs.sequences import short_sequences
from slalom_xai.designs.settings import DESIGN, DesignSettings

LOCAL = DESIGN.most_local

__all__ = [
    "DESIGN",
    "LOCAL",
    "DesignSettings",
    "HeldOut",
    "Masks",
    "Plan",
    "RowPool",
    "check_budget",
    "count_distinct_rows",
    "default_budget",
    "deletions",
    "draw_held_out",
    "even_counts",
    "extend_plan",
    "few_rows",
    "held_out_size",
    "least_budget",
    "log_uniform_counts",
    "plan_rows",
    "short_sequences",
    "uniform_counts",
]
