"""Pairs of units whose joint effect two scores miss: "not" before "good".

A pair of units i, j is corrected where both are missing:

    J(x) = sum over pairs of d_i d_j exp(-a others) correction,    d = max(0, 1 - n) for counts n

where ``others`` is how many further units are missing, and ``a`` says how fast the pair loses its
say with them. Where a is 0, it never does.

Shapes: m rows, n units, P pairs, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.surrogates.pairs import removed_together


@dataclass(frozen=True)
class Interactions:
    """A few pairs, what the model itself says of them, and what they add to predictions.

    Attributes:
        pairs: (P, 2), the units of each pair, as numbers from 0 on, the first one first.
        strengths: (P, C), what both do together beyond what each does by itself, as measured:
            f(all) - f(without i) - f(without j) + f(without both).
        errors: (P, C), standard errors of the strengths: the model's own noise.
        corrections: (P, C), what is added where both are missing and nothing else is; 0 for a pair
            that the heads know.
        fading: (P,), a.
        shares: (C,), the share that the pairs take of the squared error that the two scores leave
            on the test; 0 where there is no test.
    """

    pairs: Tensor
    strengths: Tensor
    errors: Tensor
    corrections: Tensor
    fading: Tensor
    shares: Tensor

    def predict(self, counts: Tensor) -> Tensor:
        """What the pairs add to predictions (m, C) for rows of counts (m, n)."""
        return self._together(counts) @ self.corrections

    def _together(self, counts: Tensor) -> Tensor:
        """How much say each pair has in each row, (m, P)."""
        missing = (1 - counts.to(self.corrections)).clamp(min=0)
        pairs = self.pairs.long()
        return faded(missing, pairs, self.fading)

    def of_column(self, column: int) -> Interactions:
        """One column of it."""
        here = slice(column, column + 1)
        return replace(
            self,
            strengths=self.strengths[:, here],
            errors=self.errors[:, here],
            corrections=self.corrections[:, here],
            shares=self.shares[here],
        )

    def cpu(self) -> Interactions:
        """The same on the CPU."""
        parts: dict[str, Any] = {name: part.cpu() for name, part in vars(self).items()}
        return Interactions(**parts)

    def shapley_values(self, units: int) -> Tensor:
        """What the pairs add to the Shapley values, (n, C).

        If each unit is present by chance q, then a further unit leaves the share
        g = q + (1 - q) exp(-a), and the expectation of J for a pair is
        correction (1 - q)^2 g^(n - 2). A Shapley value is the integral over q of its derivative by
        the presence of one unit. Both are polynomials in q, which Gauss-Legendre nodes integrate
        exactly.

        Args:
            units: n.
        """
        nodes, shares = np.polynomial.legendre.leggauss(units // 2 + 1)
        present = torch.as_tensor((nodes + 1) / 2).to(self.corrections)[:, None]  # (nodes, 1)
        share = torch.as_tensor(shares / 2).to(self.corrections)[:, None]
        left = torch.exp(-self.fading)[None]  # (1, P)
        kept = present + (1 - present) * left  # (nodes, P)
        of_pair = -(share * (1 - present) * kept ** (units - 2)).sum(dim=0)
        of_others = torch.zeros_like(of_pair)
        if units > 2:
            slope = (1 - present) ** 2 * (1 - left) * kept ** (units - 3)
            of_others = (share * slope).sum(dim=0)
        total = (of_others[:, None] * self.corrections).sum(dim=0).repeat(units, 1)
        beyond = (of_pair - of_others)[:, None] * self.corrections  # (P, C)
        return total.index_add(0, self.pairs.T.reshape(-1).long(), beyond.repeat(2, 1))


def faded(missing: Tensor, pairs: Tensor, fading: Tensor) -> Tensor:
    """How much say each pair has in each row, (m, P).

    Args:
        missing: (m, n), 1 where a unit is missing.
        pairs: (P, 2), whole numbers.
        fading: (P,).
    """
    both = removed_together(missing, pairs)
    others = missing.sum(dim=1, keepdim=True) - missing[:, pairs].sum(dim=2)
    return both * torch.exp(-fading * others)
