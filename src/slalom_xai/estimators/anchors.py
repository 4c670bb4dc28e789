"""Anchors: the smallest set of units that keeps the predicted class while the others come and go.

This is the rule of Ribeiro et al. (2018). The precision of a set A is the chance that the class
stays when A is kept and each other unit is kept with probability 1/2. Sets grow by one unit at a
time. Which are the best of a size is found by KL-LUCB: the bounds of a precision p that was seen
as p̂ in m rows are where

    m KL(p̂ || p) = log(number of sets / chance of being wrong),

and rows go to the weakest of the best sets and to its strongest rival until their bounds part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from slalom_xai.errors import InputError
from slalom_xai.estimators.anchor_samples import ANCHORS, Anchor, Samples
from slalom_xai.estimators.base import Estimator, Findings, attributed, register
from slalom_xai.estimators.row_budget import calls_before_test
from slalom_xai.queries import Queries


@register
@dataclass(frozen=True)
class Anchors(Estimator):
    """A rule instead of scores (Ribeiro et al. 2018), for the fewest units.

    An anchor is a set of units whose presence keeps the predicted class with at least
    ``precision`` when each other unit is kept with probability 1/2. Sets grow by one unit at a
    time from the ``beam`` best of the last size, and the first size with an anchor ends the
    search; its coverage is the share of such texts that hold it, ``2 ** -size``. Rows drawn for a
    set also count for the larger sets that they happen to hold, which are drawn from the same
    distribution.

    Units of the anchor score 1 and all others 0, in the direction of the prediction: two classes
    share one column, so that an anchor of index 0 scores -1 on the log odds (and 1 for target 0);
    of more classes only the predicted one has scores; in a multi-label model, where all labels
    must stay as they are, 1 for those predicted and -1 for the others. The scores mark the rule
    and are no amounts, so the fidelity of their sums says little.

    Attributes:
        precision: how often the class must stay.
        beam: how many sets of a size are kept.
    """

    name: ClassVar[str] = "anchors"
    summary: ClassVar[str] = (
        "a rule: the fewest units that keep the predicted class; needs a classifier and uses the "
        "whole budget"
    )

    precision: float = 0.95
    beam: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1 or self.beam < 1:
            raise InputError(
                f"precision is {self.precision!r} and beam is {self.beam!r}: "
                "give a precision between 0 and 1 and a beam of at least 1"
            )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Searches for the rule."""
        if queries.model.outputs.kind == "regression":
            raise InputError(
                "method 'anchors' explains a predicted class, but a regression has none: "
                "use another method, such as slalom"
            )
        units = len(queries.prompt.units)
        limit = queries.budget
        calls = calls_before_test(queries)
        if calls >= units:
            limit = queries.calls + calls
        samples = Samples(queries, limit, rng)
        broad = int(ANCHORS.broad_share * (limit - queries.calls))
        samples.draw(frozenset(), max(ANCHORS.batch, broad))
        anchor = self._search(samples)
        scores = torch.zeros(units, len(samples.direction), dtype=torch.float64)
        scores[sorted(anchor)] = samples.direction
        return attributed(queries, scores, rng, self._notes(queries, samples, anchor))

    def _search(self, samples: Samples) -> Anchor:
        """The first anchor, or the set with the highest lower bound."""
        nothing: Anchor = frozenset()
        if self._holds(samples, nothing):
            return nothing

        def least_precision(anchor: Anchor) -> float:
            return samples.bounds(anchor, self._level(samples))[0]

        beam, best = [nothing], nothing
        for size in range(1, samples.units + 1):
            beam = self._best(samples, _grown(beam, samples.units))
            best = max([best, *beam], key=least_precision)
            if size == samples.units:
                break
            holding = [anchor for anchor in beam if self._holds(samples, anchor)]
            if holding:
                return max(holding, key=samples.precision)
            if samples.spent:
                return best
        return frozenset(range(samples.units))  # the whole text: its class is its class

    def _best(self, samples: Samples, candidates: Sequence[Anchor]) -> list[Anchor]:
        """The best few candidates by KL-LUCB.

        Asks about the weakest of the best and its strongest rival until they part.
        """
        level = math.log(len(candidates) / ANCHORS.doubt)
        precision = {anchor: samples.precision(anchor) for anchor in candidates}
        bounds = {anchor: samples.bounds(anchor, level) for anchor in candidates}
        allowed = samples.allowance(candidates)
        drawn = 0
        while True:
            # Of equals those seen more often go first, so that a lucky few rows do not win.
            ranked = sorted(candidates, key=lambda anchor: (-precision[anchor], -bounds[anchor][0]))
            best, rest = ranked[: self.beam], ranked[self.beam :]
            if not rest or drawn >= allowed or samples.spent:
                return best
            weakest = min(best, key=lambda anchor: bounds[anchor][0])
            rival = max(rest, key=lambda anchor: bounds[anchor][1])
            if bounds[rival][1] - bounds[weakest][0] < ANCHORS.separation:
                return best
            for anchor in (weakest, rival):
                samples.draw(anchor, ANCHORS.batch)
                precision[anchor] = samples.precision(anchor)
                bounds[anchor] = samples.bounds(anchor, level)
                drawn += ANCHORS.batch

    def _holds(self, samples: Samples, anchor: Anchor) -> bool:
        """Whether a set is an anchor: asks until that is clear or the calls are spent."""
        level = self._level(samples)
        for _ in range(ANCHORS.most_draws // ANCHORS.batch):
            low, high = samples.bounds(anchor, level)
            if samples.precision(anchor) >= self.precision:
                if low >= self.precision - ANCHORS.slack:
                    return True
            elif high < self.precision + ANCHORS.slack:
                return False
            if samples.spent:
                return False
            samples.draw(anchor, ANCHORS.batch)
        return samples.precision(anchor) >= self.precision

    def _level(self, samples: Samples) -> float:
        """The log of how many candidates of one size there are per chance of being wrong."""
        return math.log((1 + (self.beam - 1) * samples.units) / ANCHORS.doubt)

    def _notes(self, queries: Queries, samples: Samples, anchor: Anchor) -> tuple[str, ...]:
        units = queries.prompt.units
        names = ", ".join(repr(units[unit].text) for unit in sorted(anchor)) or "nothing"
        precision, least = 1.0, 1.0
        if len(anchor) < samples.units:
            precision = samples.precision(anchor)
            least = samples.bounds(anchor, self._level(samples))[0]
        rule = (
            f"Anchor: {names}; precision {precision:.2f} (at least {least:.2f}), "
            f"coverage {2.0 ** -len(anchor):.2g}."
        )
        if precision >= self.precision and least >= self.precision - ANCHORS.slack:
            return (rule,)
        return (
            rule,
            f"No anchor of precision {self.precision:g} was found: this is the best one that was "
            "tried. Raise the budget.",
        )


def _grown(anchors: Sequence[Anchor], units: int) -> list[Anchor]:
    """The sets with one unit more than one of ``anchors``, in order."""
    grown = set()
    for anchor in anchors:
        grown |= {anchor | {unit} for unit in range(units) if unit not in anchor}
    return sorted(grown, key=sorted)
