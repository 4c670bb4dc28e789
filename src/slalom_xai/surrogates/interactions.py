"""Pairs of units whose joint effect two scores miss: "not" before "good".

Shapes: P pairs, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Interactions:
    """A few pairs, and what the model itself says of them.

    They add nothing to predictions: the process beside the heads has learnt them. Where heads
    predict best without one, predictions go without them.

    Attributes:
        pairs: (P, 2), the units of each pair, as numbers from 0 on, the first one first.
        strengths: (P, C), what both do together beyond what each does by itself, as measured:
            f(all) - f(without i) - f(without j) + f(without both).
        errors: (P, C), standard errors of the strengths: the model's own noise.
        shares: (C,), the share that the pairs take of the squared error that the two scores leave
            on the test; 0 where there is no test.
    """

    pairs: Tensor
    strengths: Tensor
    errors: Tensor
    shares: Tensor

    def of_column(self, column: int) -> Interactions:
        """One column of it."""
        here = slice(column, column + 1)
        return Interactions(
            self.pairs, self.strengths[:, here], self.errors[:, here], self.shares[here]
        )

    def cpu(self) -> Interactions:
        """The same on the CPU."""
        parts: dict[str, Any] = {name: part.cpu() for name, part in vars(self).items()}
        return Interactions(**parts)
