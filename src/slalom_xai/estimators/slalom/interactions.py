"""Finds the few pairs of units whose joint effect the two scores of ``slalom`` miss.

What both units of a pair do together, beyond what each does by itself, is

    joint = f(all) - f(without i) - f(without j) + f(without both).

A SLALOM has joint effects of its own, because its units share one average. What counts is
therefore what the two scores G miss. The rows that were asked estimate this in two ways:

    by the process   joint of F - joint of G, where F predicts deletions; the process in F says how
                     sure that is. Sees effects that are strong in the whole text only.
    by regression    of f - G on products of what is missing, beside what single units take. Sees
                     one pair in a model that is simple otherwise.

The model is asked about the pairs of which one estimate is sure and which miss most. A pair is kept
if the model's answer agrees with that estimate, which rests on many other rows. A model that is
merely rough does not pass: its joint effects are different in every row.

Shapes: m rows, n units, P pairs, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slalom_xai.designs import least_budget
from slalom_xai.estimators.evidence import AnsweredRows, Evidence
from slalom_xai.estimators.slalom.measuring import Measured
from slalom_xai.estimators.slalom.pair_search import INTERACTIONS, PairSearch
from slalom_xai.queries import Queries
from slalom_xai.surrogates.conditioning import Conditioned
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.interactions import Interactions


@dataclass(frozen=True)
class Found:
    """What looking for pairs has brought.

    Attributes:
        interactions: the pairs; None where there are none.
        rows: that were new, with answers; None where none were.
    """

    interactions: Interactions | None = None
    rows: AnsweredRows | None = None


def calls_for_pairs(queries: Queries, measured: Measured, parameters: int) -> int:
    """How many calls pairs may take: none where values are not measured.

    Args:
        queries: with the budget.
        measured: what has been asked.
        parameters: what a fit must determine; it needs calls, too.
    """
    if measured.filled is None:
        return 0
    needed = measured.beside + least_budget(queries.prompt.interchangeable, parameters)
    left = max(0, queries.distinct_budget - needed)
    return min(3 * INTERACTIONS.most, queries.distinct_budget // INTERACTIONS.one_in, left)


def find_pairs(
    queries: Queries,
    evidence: Evidence,
    surrogate: SlalomSurrogate,
    known: Conditioned | None,
    calls: int,
) -> Found:
    """The pairs that the two scores miss.

    Args:
        queries: asks the model.
        evidence: the rows that were asked so far.
        surrogate: predicts deletions, with two scores; nothing is looked for without them.
        known: its process; None where heads predict alone, and regression is all there is.
        calls: that it may take.
    """
    two = surrogate.two_scores
    if two is None or calls < 1 or surrogate.units < 3:
        return Found()
    search = PairSearch(evidence, surrogate, two, known)
    pairs = search.promising()
    masks = search.masks(pairs)
    pairs = pairs[: _affordable(queries, masks, calls)]
    if not len(pairs):
        return Found()
    masks = masks[:, : len(pairs)].flatten(0, 1)
    new = _new(queries, masks)
    answers = _asked(queries, masks, new)
    found = search.kept(pairs, answers, _answer_variance(queries, evidence))
    if not len(new):
        return Found(found)
    return Found(found, AnsweredRows(masks[new], answers[new]))


def _affordable(queries: Queries, masks: Tensor, calls: int) -> int:
    """How many pairs so many calls suffice for; a text that was asked before takes none.

    Args:
        queries: knows what was asked.
        masks: (3, P, n), the texts of the pairs.
        calls: that there are.
    """
    rows = masks.transpose(0, 1).flatten(0, 1).bool().cpu().numpy()
    asked = set(queries.asked.tolist())
    affordable = 0
    for keys in np.reshape(queries.prompt.keys(rows), (-1, 3)).tolist():
        new = set(keys) - asked
        if len(new) > calls or affordable == INTERACTIONS.most:
            break
        calls -= len(new)
        asked |= new
        affordable += 1
    return affordable


def _new(queries: Queries, masks: Tensor) -> Tensor:
    """Which rows (m, n) have not been asked, each once."""
    keys = queries.prompt.keys(masks.bool().cpu().numpy())
    _, first = np.unique(keys, return_index=True)
    new = np.sort(first[~np.isin(keys[first], queries.asked)])
    return torch.as_tensor(new, device=masks.device)


def _asked(queries: Queries, masks: Tensor, new: Tensor) -> Tensor:
    """The model's answers (m, C) to rows (m, n).

    Those of the test, which have been asked, go on counting as calls for the test.
    """
    rows = masks.bool().cpu().numpy()
    if len(new):
        queries.ask(rows[new.cpu().numpy()])
    return queries.ask(rows, "check").to(masks)


def _answer_variance(queries: Queries, evidence: Evidence) -> Tensor:
    """The variance of a strength, (C,): that of three answers and of the whole text's."""
    variance = torch.zeros_like(evidence.full)
    if queries.noise is not None:
        variance = variance + 3 * queries.noise.to(variance)
    if evidence.whole_variance is not None:
        variance = variance + evidence.whole_variance
    return variance
