"""Rows that tell how precise an anchor is, and the bounds of what they tell.

Rows with the verdict whether the class stayed are coins with unknown odds. After m throws with a
share p̂ of hits, the odds lie between the two p at which KL(p̂ || p) = level / m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.queries import Queries
from slalom_xai.surrogates.near_zero import TINY

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
