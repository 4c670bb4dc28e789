"""Nodes and weights for the two integrals of ``exact_shapley``.

The integral over x > 0 runs over many orders of magnitude, so its nodes are Gauss-Legendre nodes in
log x. The integral over the chance q in [0, 1] has them in the third root of q: among many units,
some are present already where q is small, and that is where the integrand changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


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
