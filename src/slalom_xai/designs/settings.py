"""The numbers that decide which rows are asked, and how many."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DesignSettings:
    """How a budget is shared out. All shares trade one kind of error against another.

    Attributes:
        most_local: units; a local row deletes at most this many. A reader deletes a few words,
            not fifty.
        enumerable: units; every row of a text of up to this many is written out (4,095 rows).
        least_held_out: rows of a held-out set; fewer cannot tell a good fit from a bad one.
        enough_held_out: rows of a held-out set that a budget of a few hundred calls should spend.
        most_held_out: rows of a held-out set; more tell little more.
        held_out_part: calls; a large budget gives one call in so many to a held-out set.
        small_held_out_part: calls; a small budget gives up to one call in so many.
        quota_part: rows; at most one in so many of those that delete a given number of units is
            held out, so that the others are left to fit.
        short_share: share of the rows to fit that keep one or two units. These show values on
            their own.
        local_share: share of the longer rows to fit that delete 1 to ``most_local`` units.
        wide_share: share of the longer rows to fit that delete any number of units, all equally
            likely. The rest delete log-uniform numbers: half of them few units, half of them
            many.
        scarce: rows to fit per unit, below which a budget is small. No row then keeps so few units:
            with little known, deletions like those that are asked for tell more.
        scarce_local_share: ``local_share`` of a small budget.
        scarce_wide_share: ``wide_share`` of a small budget.
        halved_share: share of the rows that keep about half of the units, where rows are too few to
            hold some out. The rest keep any number, so that both kinds of rows can be predicted.
        default_calls_per_unit: calls per unit of a budget that nobody gave.
        most_calls_per_unit: calls per unit that a method may take which stops by itself.
        least_default: calls of the smallest default budget; short texts cost next to nothing.
        most_default: calls up to which default budgets grow with the text.
        headroom: factor between a default budget and the least that works.
        vain_draws: draws in a row without a new row after which a kind of row counts as used up.
        most_unasked: rows that are predicted but not asked, to see whether predictions stay in
            range.
        least_unasked: the same rows in a long text.
        unasked_cells: rows times units up to which there are ``most_unasked`` of them; bounds the
            time.
        listed_sequences: sequences are listed, not drawn, where there are fewer than so many
            times those that are wanted; drawing the last few new ones would take long.
    """

    most_local: int = 10
    enumerable: int = 12
    least_held_out: int = 10
    enough_held_out: int = 40
    most_held_out: int = 400
    held_out_part: int = 10
    small_held_out_part: int = 5
    quota_part: int = 4
    short_share: float = 0.03
    local_share: float = 0.45
    wide_share: float = 0.5
    scarce: int = 5
    scarce_local_share: float = 0.55
    scarce_wide_share: float = 0.4
    halved_share: float = 0.75
    default_calls_per_unit: int = 10
    most_calls_per_unit: int = 30
    least_default: int = 300
    most_default: int = 5000
    headroom: float = 1.25
    vain_draws: int = 30
    most_unasked: int = 1000
    least_unasked: int = 100
    unasked_cells: int = 400_000
    listed_sequences: int = 4


DESIGN = DesignSettings()
