"""Sparse pairwise surrogates: a score per unit, and one for each of a few pairs.

With d = 1 - n for counts n,

    F(x) = f(all) - sum_i d_i main_i - sum over pairs of d_i d_j joint_ij.

``pairs_fit`` finds the few pairs that matter.

Shapes: m rows, n units, C columns (explained outputs), P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class PairsSurrogate:
    """``F(x) = f(all) - what x lacks, unit by unit - what it lacks of pairs``.

    A pair counts where both of its units are missing. One more copy of a unit adds the unit's own
    part, as in a linear explanation, and nothing of its pairs.

    Attributes:
        mains: (n, C), what removing each unit alone takes away.
        pairs: (P, 2), the units of each pair, as numbers from 0 on.
        joints: (P, C), what removing both takes away beyond that.
        full: (C,), the model's own output on the whole text.
    """

    mains: Tensor
    pairs: Tensor
    joints: Tensor
    full: Tensor

    @property
    def units(self) -> int:
        """How many units have scores."""
        return self.mains.shape[0]

    def predict(self, counts: Tensor) -> Tensor:
        """Predictions (m, C) for rows of counts (m, n)."""
        missing = 1 - counts.to(self.mains)
        return self.full - missing @ self.mains - self._together(missing) @ self.joints

    def _together(self, missing: Tensor) -> Tensor:
        """How much of both units of each pair is missing, (m, P)."""
        return removed_together(missing.clamp(min=0), self.pairs.long())

    @property
    def unit_scores(self) -> Tensor:
        """The Shapley values, (n, C): each unit's own part and half of what its pairs take."""
        halves = self.joints.repeat(2, 1) / 2
        return self.mains.index_add(0, self.pairs.T.reshape(-1).long(), halves)

    def empty(self) -> Tensor:
        """F(empty), (C,)."""
        return self.full - self.mains.sum(dim=0) - self.joints.sum(dim=0)

    def cpu(self) -> PairsSurrogate:
        """The same function on the CPU."""
        return PairsSurrogate(
            self.mains.cpu(), self.pairs.cpu(), self.joints.cpu(), self.full.cpu()
        )


def removed_together(missing: Tensor, pairs: Tensor) -> Tensor:
    """How much of both units of pairs (P, 2) is missing from rows, (m, P).

    Args:
        missing: (m, n), 1 where a unit is missing.
        pairs: (P, 2), whole numbers.
    """
    return missing[:, pairs[:, 0]] * missing[:, pairs[:, 1]]
