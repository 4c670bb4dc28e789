"""What a method found out about one text, and three ways to get there that methods share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import DESIGN, HeldOut, draw_held_out, held_out_size
from slalom_xai.errors import InputError
from slalom_xai.estimators.evidence import AnsweredRows, Evidence, Surrogate
from slalom_xai.estimators.gathering import ask_held_out
from slalom_xai.estimators.held_out import measure
from slalom_xai.estimators.row_budget import row_pool
from slalom_xai.queries import Queries
from slalom_xai.slalom.trust import Fidelity
from slalom_xai.surrogates.additive import AdditiveFit, AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.scores import OneScore, additive_standard_errors


@dataclass(frozen=True)
class Findings:
    """What a method found out about one text, for all explained columns at once.

    Attributes:
        surrogate: the function that predicts deletions.
        standard_errors: per column, by score name, (n,) each.
        fidelity: per column; None where no rows were left to check.
        notes: what a reader should know, a sentence each.
        passes: rows put through the model from within, beside the calls that ``queries`` counts.
        measured: scores that are the model's own answers, by name, (n, C) each.
    """

    surrogate: Surrogate
    standard_errors: tuple[dict[str, Tensor], ...]
    fidelity: tuple[Fidelity, ...] | None
    notes: tuple[str, ...] = ()
    passes: int = 0
    measured: Mapping[str, Tensor] = field(default_factory=dict)


def linear_findings(evidence: Evidence, fit: AdditiveFit, notes: tuple[str, ...] = ()) -> Findings:
    """A linear fit as what a method found out."""
    fidelity = measure(evidence, fit.surrogate)
    return Findings(fit.surrogate, additive_standard_errors(fit), fidelity, notes)


def attributed(
    queries: Queries, scores: Tensor, rng: np.random.Generator, notes: tuple[str, ...] = ()
) -> Findings:
    """An additive explanation of given scores, tested on deletions that were not asked before.

    Args:
        queries: with what the method has asked; the calls it left are used for the test.
        scores: (n, C), what removing each unit takes away from each column; C is
            ``len(queries.ask_whole("check"))``.
        rng: draws the deletions.
        notes: what a reader should know.

    Raises:
        InputError: scores of another type or shape.
    """
    full = queries.ask_whole("check")
    _check_scores(scores, len(queries.prompt.units), len(full))
    return predicted_by(queries, AdditiveSurrogate(scores.to(full), full), rng, notes)


def predicted_by(
    queries: Queries, surrogate: OneScore, rng: np.random.Generator, notes: tuple[str, ...] = ()
) -> Findings:
    """A function with one score per unit, tested on deletions that were not asked before.

    Args:
        queries: with what the method has asked; the calls it left are used for the test.
        surrogate: predicts deletions, on the device of the answers.
        rng: draws the deletions.
        notes: what a reader should know.
    """
    full, units = queries.ask_whole("check"), len(queries.prompt.units)
    report = ask_held_out(queries, _rows_to_test(queries, rng), "check")
    whole = AnsweredRows(full.new_ones(1, units), full[None])
    evidence = Evidence(whole, None, report, full, queries.work)
    fidelity = measure(evidence, surrogate)
    return Findings(surrogate, ({},) * len(full), fidelity, notes)


def _check_scores(scores: object, units: int, columns: int) -> None:
    """Refuses scores that are not a tensor (units, columns)."""
    expected = (units, columns)
    if isinstance(scores, Tensor) and scores.shape == expected:
        return
    given = f"of type {type(scores).__name__}"
    if isinstance(scores, Tensor):
        given = f"a tensor of shape {tuple(scores.shape)}"
    raise InputError(
        f"scores is {given}: give attributed a tensor of shape {expected}, "
        "with a row for each unit and a number for each explained column"
    )


def _rows_to_test(queries: Queries, rng: np.random.Generator) -> HeldOut | None:
    """Rows that were not asked, as many as the budget leaves; None where it leaves too few."""
    left = queries.budget - queries.calls
    size = min(held_out_size(queries.budget), left)
    if size < DESIGN.least_held_out or len(queries.prompt.units) < 2:
        return None
    pool = row_pool(queries)
    pool.claim(queries.asked)
    rows = draw_held_out(pool, size, rng)
    return rows if rows.complete else None


def one_distinct_unit(queries: Queries, additive: bool) -> Findings:
    """A text of one distinct unit: its value is the model's output; nothing competes with it.

    Where removed units leave something in their place, equal units share what the output differs
    from that of a text with nothing else in it. Otherwise they share the output.

    Args:
        queries: asks about the text, whose whole was asked.
        additive: whether the method gives no importances.
    """
    units = len(queries.prompt.units)
    outputs = queries.ask_whole("check").double().cpu()
    no_errors: tuple[dict[str, Tensor], ...] = ({},) * len(outputs)
    if additive:
        change = outputs
        if queries.prompt.reading.in_place and queries.calls < queries.budget:
            change = outputs - queries.ask(~queries.prompt.whole, "fit")[0].double().cpu()
        shares = change.repeat(units, 1) / units
        return Findings(AdditiveSurrogate(shares, outputs), no_errors, None)
    importances = torch.zeros(1, units, dtype=torch.float64)
    values = outputs.repeat(units, 1)
    surrogate = SlalomSurrogate(values[None], importances)
    return Findings(surrogate, no_errors, None, measured={"value": values})
