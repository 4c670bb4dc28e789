"""Derivatives of scores by values and importances, for their standard errors.

Slope, removal and Shapley values depend on all parameters: their derivatives are matrices (n, n_v).
The other scores depend on the unit's own parameters and perhaps on the sink's: for these, few
derivatives are kept with their indices, which saves products with a covariance of thousands.

A common shift of the importances has no variance in a ``Covariance``. So the mean importance, which
two of the scores subtract, needs no derivative.

Shapes: n units, p slots (the units and perhaps a sink), K heads, n_v = K p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.exact_shapley import shapley_derivatives
from slalom_xai.surrogates.formula import SlalomSurrogate


def slopes(surrogate: SlalomSurrogate, name: str, column: int) -> tuple[Tensor, Tensor]:
    """Derivatives of slope, removal or shapley of one column.

    Returns:
        by the values of the column and by the importances, (n, n_v) each.
    """
    if name == "shapley":
        return shapley_derivatives(surrogate, column)
    values, importances = surrogate.slot_values()[:, :, column], surrogate.slot_importances()
    by_values, by_importances = [], []
    for of_head in zip(values, importances, strict=True):
        if name == "removal":
            parts = _by_removal(*of_head, surrogate.units)
        else:
            parts = _by_slope(*of_head, surrogate.units)
        by_values.append(parts[0])
        by_importances.append(parts[1])
    return torch.cat(by_values, dim=1), torch.cat(by_importances, dim=1)


def few_slopes(surrogate: SlalomSurrogate, name: str, column: int) -> tuple[Tensor, Tensor]:
    """Derivatives of a score of one column that depends on few parameters.

    Returns:
        indices among the values and then the importances of all slots, (n, few), and the
        derivatives by them, (n, few).
    """
    values, importances = surrogate.slot_values()[:, :, column], surrogate.slot_importances()
    heads, size = importances.shape
    indices, parts = [], []
    for head in range(heads):
        for part in FEW_PARAMETERS[name](values[head], importances[head], surrogate.units):
            slot = torch.arange(surrogate.units, device=values.device)
            if part.of_sink:
                slot = torch.full_like(slot, size - 1)
            indices.append(slot + (part.by_importance * heads + head) * size)
            parts.append(part.slope)
    return torch.stack(indices, dim=1), torch.stack(parts, dim=1)


def _by_slope(values: Tensor, importances: Tensor, units: int) -> tuple[Tensor, Tensor]:
    """Derivatives of ``a_i (v_i - F)`` by values and by importances, (n, p) each."""
    shares = torch.softmax(importances, dim=0)
    slope = shares * (values - shares @ values)
    own_share, own_slope = shares[:units], slope[:units]
    by_values = _diagonal(own_share, len(values)) - own_share[:, None] * shares
    by_importances = (
        _diagonal(own_slope, len(values)) - own_slope[:, None] * shares - own_share[:, None] * slope
    )
    return by_values, by_importances


def _by_removal(values: Tensor, importances: Tensor, units: int) -> tuple[Tensor, Tensor]:
    """Derivatives of ``a_i (v_i - F) / (1 - a_i)`` by values and by importances, (n, p) each."""
    if len(values) == 1:
        return torch.ones_like(values)[:, None], torch.zeros_like(values)[:, None]
    by_values, by_importances = _by_slope(values, importances, units)
    shares = torch.softmax(importances, dim=0)
    slope = shares * (values - shares @ values)
    others = 1 - shares[:units]  # the share of everything else
    by_share = slope[:units] * shares[:units] / others**2
    through_share = _diagonal(by_share, len(values)) - by_share[:, None] * shares
    return by_values / others[:, None], by_importances / others[:, None] + through_share


def _diagonal(entries: Tensor, size: int) -> Tensor:
    """Entries (n,) on the diagonal of (n, size)."""
    matrix = entries.new_zeros(len(entries), size)
    matrix.diagonal().copy_(entries)
    return matrix


@dataclass(frozen=True)
class Part:
    """The derivative of every unit's score by one of its few parameters.

    Attributes:
        by_importance: by an importance; otherwise by a value.
        of_sink: of the sink; otherwise of the unit itself.
        slope: (n,).
    """

    by_importance: bool
    of_sink: bool
    slope: Tensor


def _by_value(values: Tensor, importances: Tensor, units: int) -> list[Part]:
    return [Part(by_importance=False, of_sink=False, slope=torch.ones_like(values[:units]))]


def _by_importance(values: Tensor, importances: Tensor, units: int) -> list[Part]:
    return [Part(by_importance=True, of_sink=False, slope=torch.ones_like(values[:units]))]


def _by_alone(values: Tensor, importances: Tensor, units: int) -> list[Part]:
    if len(values) == units:
        return _by_value(values, importances, units)
    share = torch.sigmoid(importances[:units] - importances[-1])
    tilt = share * (1 - share) * (values[:units] - values[-1])
    return [
        Part(by_importance=False, of_sink=False, slope=share),
        Part(by_importance=False, of_sink=True, slope=1 - share),
        Part(by_importance=True, of_sink=False, slope=tilt),
        Part(by_importance=True, of_sink=True, slope=-tilt),
    ]


def _by_linearized(values: Tensor, importances: Tensor, units: int) -> list[Part]:
    weight = torch.exp(importances[:units] - importances[:units].mean())
    return [
        Part(by_importance=False, of_sink=False, slope=weight),
        Part(by_importance=True, of_sink=False, slope=values[:units] * weight),
    ]


# The scores that depend on few parameters. Each function takes one head's values (p,) of one
# column and importances (p,), and n.
FEW_PARAMETERS: dict[str, Callable[[Tensor, Tensor, int], list[Part]]] = {
    "value": _by_value,
    "importance": _by_importance,
    "alone": _by_alone,
    "linearized": _by_linearized,
}
