"""Additive models of the linear language: weights of words, or of words at each place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from research.theory.paper.synthetic import LONGEST, WORDS


def positions(rows: Sequence[Sequence[int]]) -> Tensor:
    """The GAM's features, (m, 30 × words): which word stands where."""
    features = torch.zeros(len(rows), LONGEST, len(WORDS), dtype=torch.float64)
    for index, row in enumerate(rows):
        features[index, torch.arange(len(row)), torch.tensor(row)] = 1.0
    return features.reshape(len(rows), -1)


def with_one(features: Tensor) -> Tensor:
    """Features (m, n) with a one at the end for the intercept, (m, n + 1)."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)


def least_squares(features: Tensor, outputs: Tensor) -> Tensor:
    """Weights and an intercept, (n + 1, C), for features (m, n) and outputs (m, C)."""
    solved: Tensor = torch.linalg.lstsq(with_one(features), outputs, driver="gelsd").solution
    return solved
