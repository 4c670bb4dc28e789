"""Exact Shapley values of a SLALOM in time linear in the number of units.

The paper calls them intractable. They are not: ``1/W`` is the integral of ``exp(-x W)``
over x > 0, and a Shapley value is an integral over the chance q that each other unit is
present. Under both integrals everything factorises over the units:

    g_k = 1 - q + q exp(-x w_k),   P_i = prod_{k != i} g_k,   h_k = q w_k v_k exp(-x w_k) / g_k,
    phi_i = int int exp(-x w_0) P_i [ E_i w_i v_i + (E_i - 1) (sum_k h_k - h_i + w_0 v_0) ] dx dq,

with ``E_i = exp(-x w_i)``. Without a sink, the share of F(all) - F(empty) that the
centred integral leaves out is spread equally. Heads add.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate


def shapley_values(surrogate: SlalomSurrogate) -> Tensor:
    """Shapley values (n, C) of removing units from the whole text; they sum to F(all) - F(empty)."""
    return sum(
        (_head(surrogate, k)[0] for k in range(surrogate.values.shape[0])),
        start=torch.zeros_like(surrogate.values[0]),
    )


def shapley_derivatives(surrogate: SlalomSurrogate, column: int) -> tuple[Tensor, Tensor]:
    """Derivatives (n, P) of one class's Shapley values by values and by importances, over columns."""
    alone = surrogate.of_column(column)
    parts = [_head(alone, k, slopes=True) for k in range(surrogate.values.shape[0])]
    return torch.cat([part[1] for part in parts], dim=1), torch.cat(
        [part[2] for part in parts], dim=1
    )


def _head(
    surrogate: SlalomSurrogate, head: int, slopes: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """One head's Shapley values (n, C), or, of one class, their derivatives (n, p) by values and importances."""
    values, importances = surrogate.slot_values()[head], surrogate.slot_importances()[head]
    units, sink = surrogate.units, surrogate.has_sink
    w = torch.exp(importances - importances.max())
    full = (w / w.sum()) @ values
    centred = values - full  # phi does not depend on the constant; this one conditions the integral
    nodes = _nodes(w, units, sink, fine=not slopes)
    place, kind, times = _kinds(torch.cat([values, importances[:, None]], dim=1)[:units])
    columns = torch.cat([place, place.new_tensor([units])]) if sink else place
    phi = torch.zeros_like(values[place])
    effects = [
        torch.zeros(len(place), len(columns), dtype=w.dtype, device=w.device) for _ in range(2)
    ]
    own = [torch.zeros_like(w[place]) for _ in range(2)]
    for q, x, weight in nodes:
        terms = _Terms(q, x, weight, w[columns], centred[columns], times, sink)
        if not slopes:
            phi += terms.values()
            continue
        for total, part in zip(effects + own, terms.derivatives(), strict=True):
            total += part
    if not sink:
        phi = (
            phi + full / units
        )  # the derivatives need no such term: it cancels what centring moves
    every = torch.cat([kind, kind.new_tensor([len(place)])]) if sink else kind
    by_values, by_importances = (effect[kind][:, every] for effect in effects)
    for derivatives, of_own in zip((by_values, by_importances), own, strict=True):
        derivatives.diagonal().copy_(of_own[kind])
    return phi[kind], by_values, by_importances


def _kinds(parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Units of equal parameters (n, k) have equal Shapley values: a unit of each kind (K,), the kind of each (n,), and how many (K,)."""
    _, *found = np.unique(
        parameters.cpu().numpy(), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    place, kind, times = (
        torch.as_tensor(part.reshape(-1), device=parameters.device) for part in found
    )
    return place, kind, times.to(parameters)


def _nodes(w: Tensor, units: int, sink: bool, fine: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Quadrature: (q (X, 1), x (X, 1), weight (X, 1)) with Gauss-Legendre nodes in q and in log x.

    The derivatives only make standard errors, so fewer nodes serve them, and all at once.
    """
    many = 10 if not fine else 64 if units <= 512 else 256
    least = 1e-9 if fine else 1e-5
    low, high = torch.log(
        torch.stack([least / w.sum(), 60 / (w[-1] if sink else w.min())])
    ).tolist()
    # Past 60 / w_0 the sink has damped everything; without a sink the lightest unit decides.
    nodes = max(200, min(800, int(8 * (high - low)))) if fine else int(2.5 * (high - low))
    q, q_weight = (
        torch.as_tensor(part, dtype=w.dtype, device=w.device) for part in _legendre(many)
    )
    u, u_weight = (
        torch.as_tensor(part, dtype=w.dtype, device=w.device) for part in _legendre(nodes)
    )
    x = torch.exp((u + 1) / 2 * (high - low) + low)
    x_weight = u_weight * (high - low) / 2 * x
    if sink:
        x_weight = x_weight * torch.exp(-x * w[-1])
    third = (
        q + 1
    ) / 2  # q is its third power: of many units some are present already where q is small
    chance, chance_weight = third**3, 1.5 * q_weight * third**2
    together = (x_weight * chance_weight[:, None]).reshape(-1, 1)
    grid = (chance.repeat_interleave(nodes)[:, None], x.repeat(many)[:, None], together)
    size = nodes if fine else len(together)
    return [
        (grid[0][at : at + size], grid[1][at : at + size], grid[2][at : at + size])
        for at in range(0, len(together), size)
    ]


@functools.lru_cache(maxsize=16)
def _legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(nodes)


class _Terms:
    """The factors of the integrand at nodes (X, 1) of q and x, for n units that each occur some ``times`` (n,): arrays are (X, n)."""

    def __init__(
        self,
        q: Tensor,
        x: Tensor,
        weight: Tensor,
        w: Tensor,
        values: Tensor,
        times: Tensor,
        sink: bool,
    ) -> None:
        units = len(times)
        self.q, self.x, self.w, self.v, self.times = q, x, w[:units], values[:units], times
        self.sink = (w[-1], values[-1]) if sink else None
        self.weighed = x * self.w
        self.present = torch.exp(-self.weighed)
        self.factor = 1 - q + q * self.present
        log = torch.log(self.factor)
        self.others = torch.exp((log @ times)[:, None] - log) * weight
        self.ratio = q * self.w * self.present / self.factor  # h_k = ratio_k v_k

    def values(self) -> Tensor:
        """This node's part of the Shapley values, (n, C)."""
        rest = self.ratio @ (self.times[:, None] * self.v)
        if self.sink is not None:
            rest = rest + self.sink[0] * self.sink[1]
        drop = self.others * (self.present - 1)
        own = (self.others * self.present).sum(dim=0) * self.w
        return (
            own[:, None] * self.v + drop.T @ rest - (drop * self.ratio).sum(dim=0)[:, None] * self.v
        )

    def derivatives(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """This node's part of the derivatives of the only class.

        By the value and by the importance of another unit or the sink, (n, p), and by its own, (n,).
        """
        v, x = self.v[:, 0], self.x
        ratio, present, w = self.ratio, self.present, self.w
        there = self.others * present
        drop = there - self.others
        rest = (
            (ratio @ (self.times * v))[:, None]
            - ratio * v
            + (0.0 if self.sink is None else self.sink[0] * self.sink[1][0])
        )
        bracket = there * (w * v) + drop * rest
        # log g and h of another unit j, by s_j: w d/dw
        log_slope = -x * ratio
        h_slope = ratio * v * (1 - self.weighed - log_slope)
        by_values = drop.T @ ratio
        by_importances = bracket.T @ log_slope + drop.T @ h_slope
        own_value = there.sum(dim=0) * w
        own_importance = (there * ((1 - self.weighed) * v - x * rest)).sum(dim=0) * w
        if self.sink is None:
            return by_values, by_importances, own_value, own_importance
        weight, value = self.sink[0], self.sink[1][0]
        sink_value = (drop.sum(dim=0) * weight)[:, None]
        sink_importance = (-(bracket * x).sum(dim=0) * weight + drop.sum(dim=0) * weight * value)[
            :, None
        ]
        by_values, by_importances = (
            torch.cat([by_values, sink_value], dim=1),
            torch.cat([by_importances, sink_importance], dim=1),
        )
        return by_values, by_importances, own_value, own_importance
