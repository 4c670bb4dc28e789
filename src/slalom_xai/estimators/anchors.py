"""Anchors: the smallest set of units that keeps the predicted class while the others come and go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.estimators.base import Estimator, Findings, attributed, fitting_budget, register
from slalom_xai.queries import Queries

Anchor = frozenset[int]

BATCH = 10  # rows asked about one candidate at a time
BROAD_SHARE = (
    0.25  # of the calls, on rows without any anchor, which serve every candidate that they hold
)
SEPARATION = 0.15  # the best candidates are known when no other may beat them by more
SLACK = 0.05  # the lower bound of an anchor's precision may be below the wanted one by this
CONFIDENCE = 0.05  # how often a bound may be wrong
MOST_DRAWS = 3000  # for one set of units: rows that were asked before are free, and a small text has no others


@register
@dataclass(frozen=True)
class Anchors(Estimator):
    """A rule instead of scores (Ribeiro et al. 2018): beam search with KL-LUCB bounds for the fewest units.

    An anchor is a set of units whose presence keeps the predicted class with at least ``precision`` when each other unit is
    kept with probability 1/2. Sets grow by one unit at a time from the ``beam`` best of the last size, and the first size with
    an anchor ends the search; its coverage is the share of such texts that hold it, ``2 ** -size``. Rows drawn for a set also
    count for the larger sets that they happen to hold, which are drawn from the same distribution.

    Units of the anchor score 1 and all others 0, in the direction of the prediction: two classes share one column, so that an
    anchor of index 0 scores -1 on the log odds (and 1 for target 0); of more classes only the predicted one has scores; in a
    multi-label model, where all labels must stay as they are, 1 for those predicted and -1 for the others. The scores mark the
    rule and are no amounts, so the fidelity of their sums says little.

    Attributes:
        precision: how often the class must stay.
        beam: how many sets of a size are kept.
    """

    name: ClassVar[str] = "anchors"
    summary: ClassVar[str] = (
        "a rule: the fewest units that keep the predicted class; needs a classifier and uses the whole budget"
    )

    precision: float = 0.95
    beam: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1 or self.beam < 1:
            raise InputError(
                f"precision is {self.precision!r} and beam is {self.beam!r}: give a precision between 0 and 1 and a beam of at least 1"
            )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Searches for the rule."""
        if queries.model.outputs.kind == "regression":
            raise InputError(
                "method 'anchors' explains a predicted class, but a regression has none: use another method, such as slalom"
            )
        units = len(queries.prompt.units)
        rows = fitting_budget(queries)
        limit = queries.calls + rows if rows >= units else queries.budget
        samples = Samples(queries, limit, rng)
        samples.draw(frozenset(), max(BATCH, int(BROAD_SHARE * (limit - queries.calls))))
        anchor = self._search(samples)
        scores = torch.zeros(units, len(samples.direction), dtype=torch.float64)
        scores[sorted(anchor)] = samples.direction
        return attributed(queries, scores, rng, self._notes(queries, samples, anchor))

    def _search(self, samples: Samples) -> Anchor:
        """The first anchor found, or the set with the highest lower bound."""
        nothing: Anchor = frozenset()
        if self._holds(samples, nothing):
            return nothing
        beam, best = [nothing], nothing
        for size in range(1, samples.units + 1):
            candidates = {
                old | {unit} for old in beam for unit in range(samples.units) if unit not in old
            }
            beam = self._best(samples, sorted(candidates, key=sorted))
            best = max(
                [best, *beam], key=lambda anchor: samples.bounds(anchor, self._doubt(samples))[0]
            )
            if size == samples.units:
                break
            found = [anchor for anchor in beam if self._holds(samples, anchor)]
            if found:
                return max(found, key=samples.precision)
            if samples.spent:
                return best
        return frozenset(range(samples.units))  # the whole text: its class is its class

    def _best(self, samples: Samples, candidates: Sequence[Anchor]) -> list[Anchor]:
        """The best few candidates by KL-LUCB: asks about the weakest of the best and its strongest rival until they part."""
        doubt = math.log(len(candidates) / CONFIDENCE)
        precision = {anchor: samples.precision(anchor) for anchor in candidates}
        bounds = {anchor: samples.bounds(anchor, doubt) for anchor in candidates}
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
            if bounds[rival][1] - bounds[weakest][0] < SEPARATION:
                return best
            for anchor in (weakest, rival):
                samples.draw(anchor, BATCH)
                precision[anchor], bounds[anchor] = (
                    samples.precision(anchor),
                    samples.bounds(anchor, doubt),
                )
                drawn += BATCH

    def _holds(self, samples: Samples, anchor: Anchor) -> bool:
        """Whether a set is an anchor: asks until that is clear or the calls are spent."""
        doubt = self._doubt(samples)
        for _ in range(MOST_DRAWS // BATCH):
            low, high = samples.bounds(anchor, doubt)
            if samples.precision(anchor) >= self.precision:
                if low >= self.precision - SLACK:
                    return True
            elif high < self.precision + SLACK:
                return False
            if samples.spent:
                return False
            samples.draw(anchor, BATCH)
        return samples.precision(anchor) >= self.precision

    def _doubt(self, samples: Samples) -> float:
        """The logarithm of the chance that a bound is right, over the candidates of one size."""
        return math.log((1 + (self.beam - 1) * samples.units) / CONFIDENCE)

    def _notes(self, queries: Queries, samples: Samples, anchor: Anchor) -> tuple[str, ...]:
        names = (
            ", ".join(repr(queries.prompt.units[unit].text) for unit in sorted(anchor)) or "nothing"
        )
        whole = len(anchor) == samples.units
        precision, least = (
            (1.0, 1.0)
            if whole
            else (samples.precision(anchor), samples.bounds(anchor, self._doubt(samples))[0])
        )
        rule = f"Anchor: {names}; precision {precision:.2f} (at least {least:.2f}), coverage {2.0 ** -len(anchor):.2g}."
        if precision >= self.precision and least >= self.precision - SLACK:
            return (rule,)
        return (
            rule,
            f"No anchor of precision {self.precision:g} was found: this is the best one that was tried. Raise the budget.",
        )


class Samples:
    """Shortened texts with the verdict whether the class stayed.

    Args:
        queries: asks the model.
        limit: calls that may have been made when the search ends.
        rng: which units come and go.

    Attributes:
        units: how many there are.
        direction: (C,), the prediction as signs.
        spent: whether a batch more might go over the limit.
    """

    def __init__(self, queries: Queries, limit: int, rng: np.random.Generator) -> None:
        self._queries, self._limit, self._rng = queries, limit, rng
        self.units = len(queries.prompt.units)
        full = queries.ask(np.ones((1, self.units), dtype=bool), "fit")
        self._several = queries.model.outputs.kind == "multiclass"
        self._full = self._decision(full)
        self.direction = self._full[0].cpu().double()
        self._kept: NDArray[np.bool_] = np.zeros((0, self.units), dtype=bool)
        self._drawn_for: NDArray[np.bool_] = np.zeros((0, self.units), dtype=bool)
        self._stayed: NDArray[np.bool_] = np.zeros(0, dtype=bool)

    @property
    def spent(self) -> bool:
        """Whether a batch more might go over the limit."""
        return self._queries.calls + BATCH > self._limit

    def allowance(self, candidates: Sequence[Anchor]) -> int:
        """Rows for the choice between sets of one size: half of what is left, so that larger sets get theirs."""
        return min(
            MOST_DRAWS, max(2 * BATCH, (self._limit - self._queries.calls) // 2, len(candidates))
        )

    def draw(self, anchor: Anchor, count: int) -> None:
        """Keeps the anchor and each other unit with probability 1/2."""
        kept = self._rng.random((count, self.units)) < 0.5
        kept[:, sorted(anchor)] = True
        kept = kept[kept.any(axis=1)][: max(0, self._limit - self._queries.calls)]
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

    def bounds(self, anchor: Anchor, doubt: float) -> tuple[float, float]:
        """What the precision may be, by the Kullback-Leibler bounds of a coin's odds."""
        hits, seen = self._seen(anchor)
        return coin_bounds(hits, seen, doubt)

    def _seen(self, anchor: Anchor) -> tuple[int, int]:
        """Rows in which the class stayed, and all rows, among those drawn for a part of the anchor that hold all of it."""
        inside = np.zeros(self.units, dtype=bool)
        inside[sorted(anchor)] = True
        rows = ~(self._drawn_for & ~inside).any(axis=1) & (self._kept | ~inside).all(axis=1)
        return int(self._stayed[rows].sum()), int(rows.sum())

    def _decision(self, outputs: Tensor) -> Tensor:
        """The class of each row (m, C): 1 for the largest of several, or the sign of each column."""
        if self._several:
            return torch.nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1])
        return torch.where(outputs > 0, 1, -1)


def coin_bounds(hits: int, seen: int, doubt: float) -> tuple[float, float]:
    """The least and the largest odds whose divergence from what was seen is within ``doubt / seen``."""
    if not seen:
        return 0.0, 1.0
    share, level = hits / seen, doubt / seen
    return _edge(share, level, 0.0), _edge(share, level, 1.0)


def _edge(share: float, level: float, end: float) -> float:
    """The point between ``share`` and ``end`` at the given divergence, by bisection."""
    near, far = share, end
    for _ in range(30):
        middle = (near + far) / 2
        near, far = (middle, far) if _divergence(share, middle) <= level else (near, middle)
    return near


def _divergence(share: float, odds: float) -> float:
    """KL(Bernoulli(share) || Bernoulli(odds))."""
    pairs: Iterable[tuple[float, float]] = ((share, odds), (1 - share, 1 - odds))
    return sum(p * math.log(p / max(q, 1e-300)) for p, q in pairs if p > 0)
