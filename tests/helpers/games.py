"""SLALOMs with known answers."""

from __future__ import annotations

import torch

from slalom_xai.methods.paper.formula import SlalomSurrogate


def surrogate(
    units: int = 5, heads: int = 1, classes: int = 1, sink: bool = True, seed: int = 0
) -> SlalomSurrogate:
    """A random one: values N(0, 2^2), importances N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    parts = (draw(heads, classes), draw(heads)) if sink else (None, None)
    return SlalomSurrogate(2 * draw(heads, units, classes), draw(heads, units), *parts).normalise()


def from_slots(values: torch.Tensor, importances: torch.Tensor, sink: bool) -> SlalomSurrogate:
    """From values (K, p, C) and importances (K, p) over slots, a sink last."""
    if not sink:
        return SlalomSurrogate(values, importances).normalise()
    of_units = values[:, :-1], importances[:, :-1]
    return SlalomSurrogate(*of_units, values[:, -1], importances[:, -1]).normalise()
