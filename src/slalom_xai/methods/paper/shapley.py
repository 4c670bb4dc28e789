"""Exact Shapley values of a SLALOM in time linear in the number of units.

What it has to do: a Shapley value averages what a unit adds over all 2^(n-1) sets of other units.
The paper calls this intractable for a SLALOM. It is not.

Why it is done this way: the total weight W of a row stands in a denominator, but ``1/W`` is the
integral of ``exp(-x W)`` over x > 0, and a Shapley value is an integral over the chance q that each
other unit is present. Under both integrals everything factorises over the units:

    g_k = 1 - q + q exp(-x w_k),   P_i = prod_{k != i} g_k,   h_k = q w_k v_k exp(-x w_k) / g_k,
    phi_i = int int exp(-x w_0) P_i [ E_i w_i v_i + (E_i - 1) (sum_k h_k - h_i + w_0 v_0) ] dx dq,

with ``E_i = exp(-x w_i)``. Without a sink, the share of F(all) - F(empty) that the centred integral
leaves out is spread equally. Heads add.

This is a fast form of the formula: the tests compare it with the sum over all sets.

Shapes: n units, p slots (the units and perhaps a sink), k kinds of units, C columns, X nodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slalom_xai.methods.paper.formula import SlalomSurrogate

# Nodes and weights for the two integrals of Shapley values.
#
# The integral over x > 0 runs over many orders of magnitude, so its nodes are Gauss-Legendre
# nodes in log x. The integral over the chance q in [0, 1] has them in the third root of q: among
# many units, some are present already where q is small, and that is where the integrand changes.


@dataclass(frozen=True)
class QuadratureSettings:
    """How finely the integrals are computed. Time grows with the nodes, errors fall with them.

    Attributes:
        chances: nodes in q.
        chances_long: nodes in q in texts of more than ``long`` units.
        long: units.
        lowest: the least x, times the total weight; below, the integrand is constant.
        highest: the largest x, times the least weight that damps everything, the sink's or the
            lightest unit's. exp(-60) is 1e-26.
        density: nodes in log x for each factor of e in x.
        fewest: nodes in log x at least.
        most: nodes in log x at most.
        at_once: whether all nodes are computed at once. That is fast where they are few; where
            they are many, one chance after the other saves memory.
    """

    chances: int
    chances_long: int
    long: int
    lowest: float
    highest: float
    density: float
    fewest: float
    most: float
    at_once: bool


# Fine enough to meet sums over all sets to 1e-8 (see the tests).
FOR_VALUES = QuadratureSettings(
    chances=64,
    chances_long=256,
    long=512,
    lowest=1e-9,
    highest=60.0,
    density=8.0,
    fewest=200,
    most=800,
    at_once=False,
)

# Derivatives only make standard errors, of which two or three digits are enough.
FOR_DERIVATIVES = QuadratureSettings(
    chances=10,
    chances_long=10,
    long=512,
    lowest=1e-5,
    highest=60.0,
    density=2.5,
    fewest=0,
    most=math.inf,
    at_once=True,
)


@dataclass(frozen=True)
class Nodes:
    """Some nodes of both integrals together.

    Attributes:
        chance: (X, 1), q.
        x: (X, 1).
        weight: (X, 1), with what the sink damps.
    """

    chance: Tensor
    x: Tensor
    weight: Tensor


def nodes_of(
    weights: Tensor, units: int, sink: bool, settings: QuadratureSettings
) -> Iterator[Nodes]:
    """The nodes for a head.

    Args:
        weights: (p,), of its slots; a sink comes last.
        units: n.
        sink: whether there is one.
        settings: how fine.
    """
    chance, chance_weight = _chances(weights, units, settings)
    x, x_weight = _distances(weights, sink, settings)
    together = (x_weight * chance_weight[:, None]).reshape(-1, 1)
    every_chance = chance.repeat_interleave(len(x))[:, None]
    every_x = x.repeat(len(chance))[:, None]
    size = len(together) if settings.at_once else len(x)
    for start in range(0, len(together), size):
        some = slice(start, start + size)
        yield Nodes(every_chance[some], every_x[some], together[some])


def _chances(weights: Tensor, units: int, settings: QuadratureSettings) -> tuple[Tensor, Tensor]:
    """Nodes in q and their weights, (nodes,) each."""
    many = settings.chances if units <= settings.long else settings.chances_long
    root, root_weight = _legendre(many, weights)
    third = (root + 1) / 2
    return third**3, 1.5 * root_weight * third**2


def _distances(weights: Tensor, sink: bool, settings: QuadratureSettings) -> tuple[Tensor, Tensor]:
    """Nodes in x and their weights, (nodes,) each."""
    # Past 60 / w_0 the sink has damped everything; without a sink the lightest unit decides.
    damping = weights[-1] if sink else weights.min()
    ends = torch.stack([settings.lowest / weights.sum(), settings.highest / damping])
    low, high = torch.log(ends).tolist()
    nodes = int(settings.density * (high - low))
    nodes = int(max(settings.fewest, min(settings.most, nodes)))
    u, u_weight = _legendre(nodes, weights)
    x = torch.exp((u + 1) / 2 * (high - low) + low)
    x_weight = u_weight * (high - low) / 2 * x
    if sink:
        x_weight = x_weight * torch.exp(-x * weights[-1])
    return x, x_weight


def _legendre(nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes on [-1, 1] and their weights, of the type of a tensor."""
    points, point_weights = _cached_legendre(nodes)
    return (
        torch.as_tensor(points, dtype=like.dtype, device=like.device),
        torch.as_tensor(point_weights, dtype=like.dtype, device=like.device),
    )


@functools.lru_cache(maxsize=16)
def _cached_legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(nodes)


# Exact Shapley values of a SLALOM in time linear in the number of units.


def shapley_values(surrogate: SlalomSurrogate, settings: QuadratureSettings = FOR_VALUES) -> Tensor:
    """Shapley values (n, C) of removing units from the whole text.

    They sum to F(all) - F(empty).
    """
    total = torch.zeros_like(surrogate.values[0])
    for head in range(surrogate.values.shape[0]):
        total = total + _values(_Head.of(surrogate, head), settings)
    return total


def shapley_derivatives(surrogate: SlalomSurrogate, column: int) -> tuple[Tensor, Tensor]:
    """Derivatives of one column's Shapley values, over the slots of all heads.

    Returns:
        by values and by importances, (n, K p) each.
    """
    alone = surrogate.of_column(column)
    by_values, by_importances = [], []
    for head in range(surrogate.values.shape[0]):
        of_head = _derivatives(_Head.of(alone, head))
        by_values.append(of_head[0])
        by_importances.append(of_head[1])
    return torch.cat(by_values, dim=1), torch.cat(by_importances, dim=1)


@dataclass(frozen=True)
class _Kinds:
    """Units of equal parameters have equal Shapley values, so one of each kind is computed.

    Attributes:
        first: (k,), the index of a unit of each kind.
        of_unit: (n,), the kind of each unit.
        times: (k,), how many units are of each kind.
    """

    first: Tensor
    of_unit: Tensor
    times: Tensor

    @classmethod
    def of(cls, parameters: Tensor) -> _Kinds:
        """From the parameters of the units, (n, any)."""
        _, *parts = np.unique(
            parameters.cpu().numpy(),
            axis=0,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        device = parameters.device
        first, of_unit, times = (torch.as_tensor(part.reshape(-1), device=device) for part in parts)
        return cls(first, of_unit, times.to(parameters))


@dataclass(frozen=True)
class _Head:
    """One head as the integrals need it.

    Attributes:
        weights: (p,), exp of the importances, up to a factor.
        centred: (p, C), the values less F(all). Shapley values do not depend on a constant, and
            this one keeps the integrals well conditioned.
        full: (C,), F(all).
        units: n.
        sink: whether the last slot is a sink.
        kinds: which units are equal.
    """

    weights: Tensor
    centred: Tensor
    full: Tensor
    units: int
    sink: bool
    kinds: _Kinds

    @classmethod
    def of(cls, surrogate: SlalomSurrogate, head: int) -> _Head:
        """One head of a SLALOM."""
        values, importances = surrogate.slot_values()[head], surrogate.slot_importances()[head]
        weights = torch.exp(importances - importances.max())
        full = (weights / weights.sum()) @ values
        parameters = torch.cat([values, importances[:, None]], dim=1)[: surrogate.units]
        return cls(
            weights=weights,
            centred=values - full,
            full=full,
            units=surrogate.units,
            sink=surrogate.has_sink,
            kinds=_Kinds.of(parameters),
        )

    @property
    def slots(self) -> Tensor:
        """The indices of one unit of each kind, and of the sink."""
        first = self.kinds.first
        if not self.sink:
            return first
        return torch.cat([first, first.new_tensor([self.units])])

    def terms(self, settings: QuadratureSettings) -> Iterator[_Terms]:
        """The integrand at the nodes, some nodes at a time."""
        slots = self.slots
        weights, centred = self.weights[slots], self.centred[slots]
        for nodes in nodes_of(self.weights, self.units, self.sink, settings):
            yield _Terms(nodes, weights, centred, self.kinds.times, self.sink)


def _values(head: _Head, settings: QuadratureSettings) -> Tensor:
    """One head's Shapley values, (n, C)."""
    kinds = head.kinds
    phi = torch.zeros_like(head.centred[kinds.first])
    for terms in head.terms(settings):
        phi += terms.values()
    if not head.sink:
        phi = phi + head.full / head.units
    return phi[kinds.of_unit]


def _derivatives(head: _Head) -> tuple[Tensor, Tensor]:
    """Derivatives of one head's Shapley values by values and by importances, (n, p) each.

    The head has one column. Without a sink nothing is to be added as in ``_values``: it would
    cancel what centring moves.
    """
    kinds, slots = head.kinds, head.slots
    many = len(kinds.first)
    # (k, slots): by another unit of each kind, or by the sink.
    by_values = head.weights.new_zeros(many, len(slots))
    by_importances = torch.zeros_like(by_values)
    # (k,): by a unit's own parameters.
    own_value = head.weights.new_zeros(many)
    own_importance = torch.zeros_like(own_value)
    for terms in head.terms(FOR_DERIVATIVES):
        parts = terms.derivatives()
        by_values += parts.by_values
        by_importances += parts.by_importances
        own_value += parts.own_value
        own_importance += parts.own_importance
    of_slot = kinds.of_unit
    if head.sink:
        of_slot = torch.cat([of_slot, of_slot.new_tensor([many])])
    spread_values = by_values[kinds.of_unit][:, of_slot]
    spread_importances = by_importances[kinds.of_unit][:, of_slot]
    spread_values.diagonal().copy_(own_value[kinds.of_unit])
    spread_importances.diagonal().copy_(own_importance[kinds.of_unit])
    return spread_values, spread_importances


@dataclass(frozen=True)
class _Slopes:
    """A node's part of the derivatives of the only column.

    Attributes:
        by_values: (k, p), by the value of another unit of each kind, or of the sink.
        by_importances: (k, p), by its importance.
        own_value: (k,), by the unit's own value.
        own_importance: (k,), by its own importance.
    """

    by_values: Tensor
    by_importances: Tensor
    own_value: Tensor
    own_importance: Tensor


class _Terms:
    """The factors of the integrand at some nodes, for k kinds of units; arrays are (X, k)."""

    def __init__(
        self, nodes: Nodes, weights: Tensor, values: Tensor, times: Tensor, sink: bool
    ) -> None:
        kinds = len(times)
        q, x = nodes.chance, nodes.x
        self.x, self.times = x, times
        self.w, self.v = weights[:kinds], values[:kinds]
        self.sink = (weights[-1], values[-1]) if sink else None
        self.weighed = x * self.w
        self.present = torch.exp(-self.weighed)  # E
        factor = 1 - q + q * self.present  # g
        log = torch.log(factor)
        self.others = torch.exp((log @ times)[:, None] - log) * nodes.weight  # P
        self.ratio = q * self.w * self.present / factor  # h_k = ratio_k v_k

    def values(self) -> Tensor:
        """These nodes' part of the Shapley values, (k, C)."""
        rest = self.ratio @ (self.times[:, None] * self.v)  # (X, C), sum_k h_k
        if self.sink is not None:
            rest = rest + self.sink[0] * self.sink[1]
        drop = self.others * (self.present - 1)
        own = (self.others * self.present).sum(dim=0) * self.w
        itself = (drop * self.ratio).sum(dim=0)
        return own[:, None] * self.v + drop.T @ rest - itself[:, None] * self.v

    def derivatives(self) -> _Slopes:
        """These nodes' part of the derivatives; there is one column."""
        v, x, ratio, w = self.v[:, 0], self.x, self.ratio, self.w
        there = self.others * self.present
        drop = there - self.others
        of_sink = 0.0 if self.sink is None else self.sink[0] * self.sink[1][0]
        rest = (ratio @ (self.times * v))[:, None] - ratio * v + of_sink
        bracket = there * (w * v) + drop * rest
        # log g and h of another unit j, by s_j: w d/dw
        log_slope = -x * ratio
        h_slope = ratio * v * (1 - self.weighed - log_slope)
        slopes = _Slopes(
            by_values=drop.T @ ratio,
            by_importances=bracket.T @ log_slope + drop.T @ h_slope,
            own_value=there.sum(dim=0) * w,
            own_importance=(there * ((1 - self.weighed) * v - x * rest)).sum(dim=0) * w,
        )
        if self.sink is None:
            return slopes
        return self._with_sink(slopes, self.sink, drop, bracket)

    def _with_sink(
        self, slopes: _Slopes, sink: tuple[Tensor, Tensor], drop: Tensor, bracket: Tensor
    ) -> _Slopes:
        """Adds the derivatives by the sink's value and importance as the last slot."""
        weight, value = sink[0], sink[1][0]
        dropped = drop.sum(dim=0) * weight
        by_importance = -(bracket * self.x).sum(dim=0) * weight + dropped * value
        return _Slopes(
            torch.cat([slopes.by_values, dropped[:, None]], dim=1),
            torch.cat([slopes.by_importances, by_importance[:, None]], dim=1),
            slopes.own_value,
            slopes.own_importance,
        )
