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
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.methods.base import Estimator, Findings, attributed, register
from slalom_xai.methods.counts import TINY
from slalom_xai.methods.evidence import calls_before_test
from slalom_xai.queries import Queries

# Rows that tell how precise an anchor is, and the bounds of what they tell.
#
# Rows with the verdict whether the class stayed are coins with unknown odds. After m throws with
# a share p̂ of hits, the odds lie between the two p at which KL(p̂ || p) = level / m.


Anchor = frozenset[int]


@dataclass(frozen=True)
class AnchorSettings:
    """How the search spends its calls. All trade certainty against calls.

    Attributes:
        batch: rows asked about one candidate at a time.
        broad_share: share of the calls, on rows without any anchor, which serve every candidate
            that they hold.
        separation: precision; the best candidates are known when no other may beat them by more.
        slack: precision; the lower bound of an anchor may be below what is wanted by this.
        doubt: chance that a bound is wrong, over all candidates of one size.
        most_draws: rows for one set of units. Those that were asked before are free, and a small
            text has no others.
        keep: chance that a unit outside of the anchor is kept.
        bisections: steps that find a bound, each halving its error.
    """

    batch: int = 10
    broad_share: float = 0.25
    separation: float = 0.15
    slack: float = 0.05
    doubt: float = 0.05
    most_draws: int = 3000
    keep: float = 0.5
    bisections: int = 30


ANCHORS = AnchorSettings()


class Samples:
    """Shortened texts with the verdict whether the class stayed.

    Args:
        queries: asks the model.
        limit: calls that may have been made when the search ends.
        rng: which units come and go.

    Attributes:
        units: how many there are, n.
        direction: (C,), the prediction as signs.
    """

    def __init__(self, queries: Queries, limit: int, rng: np.random.Generator) -> None:
        self._queries, self._limit, self._rng = queries, limit, rng
        self.units = len(queries.prompt.units)
        self._several_classes = queries.model.outputs.kind == "multiclass"
        self._full = self._decision(queries.ask_whole("fit")[None])
        self.direction = self._full[0].cpu().double()
        self._kept: NDArray[np.bool_] = np.zeros((0, self.units), dtype=bool)
        self._drawn_for: NDArray[np.bool_] = np.zeros((0, self.units), dtype=bool)
        self._stayed: NDArray[np.bool_] = np.zeros(0, dtype=bool)

    @property
    def spent(self) -> bool:
        """Whether a batch more might go over the limit."""
        return self._queries.calls + ANCHORS.batch > self._limit

    def allowance(self, candidates: Sequence[Anchor]) -> int:
        """Rows for the choice between sets of one size.

        Half of what is left, so that larger sets get theirs.
        """
        half = (self._limit - self._queries.calls) // 2
        return min(ANCHORS.most_draws, max(2 * ANCHORS.batch, half, len(candidates)))

    def draw(self, anchor: Anchor, rows: int) -> None:
        """Asks rows that keep the anchor and each other unit with probability 1/2."""
        kept = self._rng.random((rows, self.units)) < ANCHORS.keep
        kept[:, sorted(anchor)] = True
        calls_left = max(0, self._limit - self._queries.calls)
        kept = kept[kept.any(axis=1)][:calls_left]
        if not len(kept):
            return
        stayed = (self._decision(self._queries.ask(kept, "fit")) == self._full).all(dim=1)
        drawn_for = np.zeros_like(kept)
        drawn_for[:, sorted(anchor)] = True
        self._kept = np.concatenate([self._kept, kept])
        self._drawn_for = np.concatenate([self._drawn_for, drawn_for])
        self._stayed = np.concatenate([self._stayed, stayed.cpu().numpy()])

    def precision(self, anchor: Anchor) -> float:
        """How often the class stayed; a half where nothing was seen."""
        hits, seen = self._seen(anchor)
        return hits / seen if seen else 0.5

    def bounds(self, anchor: Anchor, level: float) -> tuple[float, float]:
        """What the precision may be, by the Kullback-Leibler bounds of a coin's odds."""
        hits, seen = self._seen(anchor)
        return coin_bounds(hits, seen, level)

    def _seen(self, anchor: Anchor) -> tuple[int, int]:
        """Rows in which the class stayed, and all rows, that tell of an anchor.

        They were drawn for a part of it and hold all of it.
        """
        inside = np.zeros(self.units, dtype=bool)
        inside[sorted(anchor)] = True
        for_a_part = ~(self._drawn_for & ~inside).any(axis=1)
        hold_all = (self._kept | ~inside).all(axis=1)
        rows = for_a_part & hold_all
        return int(self._stayed[rows].sum()), int(rows.sum())

    def _decision(self, outputs: Tensor) -> Tensor:
        """The class of each row (m, C).

        That is 1 for the largest of several, or the sign of each column.
        """
        if self._several_classes:
            return torch.nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1])
        return torch.where(outputs > 0, 1, -1)


def coin_bounds(hits: int, seen: int, level: float) -> tuple[float, float]:
    """The least and the largest odds whose divergence from what was seen is ``level / seen``."""
    if not seen:
        return 0.0, 1.0
    share = hits / seen
    return _edge(share, level / seen, 0.0), _edge(share, level / seen, 1.0)


def _edge(share: float, divergence: float, end: float) -> float:
    """The point between ``share`` and ``end`` at the given divergence, by bisection."""
    near, far = share, end
    for _ in range(ANCHORS.bisections):
        middle = (near + far) / 2
        if _divergence(share, middle) <= divergence:
            near = middle
        else:
            far = middle
    return near


def _divergence(share: float, odds: float) -> float:
    """KL(Bernoulli(share) || Bernoulli(odds))."""
    return _term(share, odds) + _term(1 - share, 1 - odds)


def _term(p: float, q: float) -> float:
    return p * math.log(p / max(q, TINY)) if p > 0 else 0.0


# Anchors: the smallest set of units that keeps the predicted class while the others come and go.


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
