"""What the answer to the whole text does to the parameters of an anchored fit.

An anchored fit passes through the whole text: its answer decides a constant c that is added to the
values of the first head, ``c = f(all) - F(all)``. Two things follow for a covariance:

* Where the other parameters move, c moves so that F(all) stays (``hold``). With u the direction of
  c and t the slope of F(all) by the parameters, every move d becomes ``d - u (t'd)``.
* Where the answer itself is noisy, it moves c and every change that is measured from it
  (``add_noise``).

Shapes: K heads, p slots, C columns, n_v = K p values, n_s fitted importances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.count_tables import Counts
from slalom_xai.surrogates.formula import SlalomSurrogate, averages, weights
from slalom_xai.surrogates.problem import Problem
from slalom_xai.surrogates.projection import State
from slalom_xai.surrogates.sandwich import Derivatives


@dataclass(frozen=True)
class WholeText:
    """The constant of an anchored fit.

    Attributes:
        slopes: (C, 2 n_v), of the prediction for the whole text, by values and importances.
        size: slots of the first head, whose values take the constant.
    """

    slopes: Tensor
    size: int

    @classmethod
    def of(cls, problem: Problem, surrogate: SlalomSurrogate) -> WholeText:
        """From what was fitted."""
        shares = weights(problem.rows.first(), surrogate.slot_importances())  # (1, K, p)
        values = surrogate.slot_values()
        heads = averages(shares, values)[0]  # (K, C)
        tilts = shares[0, ..., None] * (values - heads[:, None])  # (K, p, C)
        tilts[problem.free_heads :] = 0.0  # an additive head's importances are given
        by_values = shares[0].flatten().expand(values.shape[2], -1)
        by_importances = tilts.flatten(0, 1).T
        return cls(torch.cat([by_values, by_importances], dim=1), shares.shape[2])

    @property
    def constant(self) -> Tensor:
        """The direction u in which a constant moves the parameters, (2 n_v,)."""
        direction = torch.zeros_like(self.slopes[0])
        direction[: self.size] = 1.0
        return direction

    def hold(self, joint: Tensor) -> None:
        """Moves the constant so that the whole text's prediction stays.

        ``(I - u t') J (I - t u') = J - u (Jt)' - (Jt) u' + (t'Jt) u u'``

        Args:
            joint: J, (C, 2 n_v, 2 n_v), changed in place.
        """
        constant = self.constant
        for spread, slope in zip(joint, self.slopes, strict=True):
            moved = spread @ slope
            spread.addr_(constant, moved, alpha=-1).addr_(moved, constant, alpha=-1)
            spread.addr_(constant, constant, alpha=float(slope @ moved))

    def add_noise(
        self,
        joint: Tensor,
        alone: Tensor,
        shared: Tensor,
        moves: Iterable[Tensor],
        variance: Tensor,
    ) -> None:
        """Adds what noise of the whole text's answer does to the parameters.

        Args:
            joint: (C, 2 n_v, 2 n_v), covariances, changed in place.
            alone: (n_v,), how far one more in the answer moves the values of its own column at
                once.
            shared: (C, n_s), how it pulls at the importances, which all columns share.
            moves: C of (2 n_v, n_s), how such a pull moves the parameters of each column.
            variance: (C,), of the answer.
        """
        constant = self.constant
        pulls = (shared * variance[:, None]).T @ shared  # (n_s, n_s), of all columns
        for c, (spread, move) in enumerate(zip(joint, moves, strict=True)):
            move = move - constant[:, None] * (self.slopes[c] @ move)
            others = move @ shared[c]
            in_full = others.clone()
            in_full[: len(alone)] -= alone
            in_full += constant * (1 + float(self.slopes[c][: len(alone)] @ alone))
            # All columns as if they only pulled at the importances; the own column then in full.
            spread += move @ pulls @ move.T
            spread.addr_(others, others, alpha=-float(variance[c]))
            spread.addr_(in_full, in_full, alpha=float(variance[c]))


@dataclass(frozen=True)
class Pull:
    """How one more in every residual pulls at the parameters.

    Attributes:
        by_values: (n_v,).
        by_importances: (C, n_s).
    """

    by_values: Tensor
    by_importances: Tensor

    @classmethod
    def of_the_whole_text(cls, problem: Problem, state: State, counts: Counts) -> Pull:
        """Of the answer that every change is measured from."""
        slopes, weight = Derivatives.of(problem, state, counts), problem.row_weights[0]
        by_importances = []
        for column in range(state.head_predictions.shape[3]):
            by_importances.append(weight @ slopes.by_importances(column))
        return cls(weight @ slopes.by_values(), torch.stack(by_importances))

    def beyond(self, values_by_importances: Tensor) -> Tensor:
        """At the importances, beyond what the values (C, n_v, n_s) make of it, (C, n_s)."""
        followed = [self.by_values @ part for part in values_by_importances]
        return self.by_importances - torch.stack(followed)
