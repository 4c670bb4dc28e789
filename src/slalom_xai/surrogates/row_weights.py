"""What the residuals of a first fit say about the weights of rows in the next.

Rows with many deletions are harder to predict. ``inverse_variance`` gives them less weight, as far
as residuals grow.

Shapes: m rows, C columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowWeightSettings:
    """Constants of the row weights.

    Attributes:
        evenness: rows are weighted by this power of their inverse variance. At 1 a few rows with
            few deletions count for nearly everything; at 0 all rows count alike. 0.8 lets few
            deletions count for much without forgetting the others.
        most_groups: groups of rows that a curve is drawn through, at most.
        rows_a_group: rows that a group needs: fewer have too uncertain a mean.
        ridge: on the curve's coefficients, a fraction of the mean diagonal, for groups that are
            nearly alike in size.
    """

    evenness: float = 0.8
    most_groups: int = 12
    rows_a_group: int = 20
    ridge: float = 1e-9


ROW_WEIGHTS = RowWeightSettings()


def inverse_variance(residuals: Tensor, deleted: Tensor) -> Tensor:
    """Row weights from how residuals grow with the number of units deleted.

    Rows are put into equally filled groups by that number. A parabola in its logarithm follows the
    log mean squared residuals of the groups, and is not used beyond their range.

    Args:
        residuals: (m, C).
        deleted: (m,), how many units each row lacks.

    Returns:
        (m,), with mean 1.
    """
    squared = (residuals**2).sum(dim=1)
    size = torch.log(deleted.to(squared) + 0.5)
    most = max(2, len(size) // ROW_WEIGHTS.rows_a_group)
    many = min(ROW_WEIGHTS.most_groups, most)
    order = size.argsort(stable=True)
    x, y = _group_means(torch.stack([size, squared])[:, order], many)
    y = y.clamp(min=1e-30).log()
    curve = _parabola(x, y)
    log_error = _powers(size, len(curve)) @ curve
    raw = torch.exp(-ROW_WEIGHTS.evenness * log_error.clamp(y.min(), y.max()))
    return raw / raw.mean()


def _group_means(numbers: Tensor, many: int) -> Tensor:
    """Means (k, many) of numbers (k, m) over so many groups, one behind the other.

    Groups are filled equally; the first ones have one more where there is a remainder.
    """
    rows = numbers.shape[1]
    sizes = torch.full((many,), rows // many, device=numbers.device)
    sizes[: rows % many] += 1
    group = torch.arange(many, device=numbers.device).repeat_interleave(sizes, output_size=rows)
    sums = numbers.new_zeros(len(numbers), many).index_add_(1, group, numbers)
    return sums / sizes


def _powers(x: Tensor, count: int) -> Tensor:
    """1, x, x^2, ...: (m,) -> (m, count)."""
    return torch.stack([x**power for power in range(count)], dim=1)


def _parabola(x: Tensor, y: Tensor) -> Tensor:
    """Coefficients (3,), or as many as there are points (g,), of a least-squares parabola."""
    design = _powers(x, min(3, len(x)))
    gram = design.T @ design
    gram.diagonal().add_(ROW_WEIGHTS.ridge * gram.diagonal().mean())
    coefficients: Tensor = torch.linalg.solve(gram, design.T @ y)
    return coefficients
