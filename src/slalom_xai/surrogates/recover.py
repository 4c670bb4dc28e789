"""Recovery with the fewest calls: Proposition 5.2, and its counterpart with a sink.

What it has to do: a model that *is* a SLALOM gives its parameters away in a few answers. A single
unit gives its value, and each unit beside a reference gives the difference of two importances.
Nothing is fitted here: these are closed forms.

Shapes: K kinds of units, C columns (explained outputs).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate


@dataclass(frozen=True)
class RecoverySettings:
    """Constants of the recovery.

    Attributes:
        margin: a share this close to 0 or 1 leaves its importance to rounding: single precision
            has seven digits, and the logit of such a share keeps about four of them.
        least_square: the least squared distance that is divided by.
    """

    margin: float = 1e-3
    least_square: float = 1e-30


RECOVERY = RecoverySettings()


def references(singles: Tensor) -> tuple[Tensor, int, int]:
    """For each kind the kind to pair it with, and the two extremes all references are taken from.

    Args:
        singles: (K, C), the outputs on single units: their values.

    Returns:
        (K,) the extreme further away in value, then the index of the lowest and of the highest;
        the lowest is paired with the highest.
    """
    main = singles[:, 0]
    if len(singles) > 1:
        main = singles[:, int(singles.var(dim=0).argmax())]
    low, high = int(main.argmin()), int(main.argmax())
    chosen = torch.where((main - main[low]) > (main[high] - main), low, high)
    return chosen, low, high


def recover(singles: Tensor, pairs: Tensor) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM without a sink that gives these answers.

    With ``g = (F[t, r] - v_r) / (v_t - v_r)`` the share of unit t beside its reference r,
    ``s_t - s_r = log(g / (1 - g))``; the printed Eq. 55 has the opposite sign.

    Args:
        singles: (K, C), outputs on single units.
        pairs: (K, C), outputs on each unit with its reference; the row of the highest unit is not
            used.

    Returns:
        the surrogate, and the kinds whose importance is ill determined.
    """
    margin = RECOVERY.margin
    chosen, low, high = references(singles)
    gap, rise = singles - singles[chosen], pairs - singles[chosen]
    share = _ratio(gap, rise)
    doubtful = [k for k in _outside(share, margin, 1 - margin) if k != high]
    difference = torch.logit(share.clamp(margin, 1 - margin))
    importances = torch.zeros(len(singles), dtype=singles.dtype, device=singles.device)
    importances[low] = difference[low]  # beside the highest, whose importance is 0
    for k in range(len(singles)):
        if k not in (low, high):
            importances[k] = importances[chosen[k]] + difference[k]
    return SlalomSurrogate(singles[None], importances[None]).normalised(), doubtful


def recover_with_sink(
    empty: Tensor, singles: Tensor, doubles: Tensor
) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM with a sink that gives these answers to nothing, each unit once, and each twice.

    With ``rho = (F2 - v_0) / (F1 - v_0)``, the weight of a unit beside the sink's is
    ``(2 - rho) / (2 (rho - 1))``.

    Args:
        empty: (C,), the output on no unit.
        singles: (K, C), outputs on each unit.
        doubles: (K, C), outputs on each unit twice.

    Returns:
        the surrogate, and the kinds whose scores are ill determined.
    """
    margin = RECOVERY.margin
    once, twice = singles - empty, doubles - empty
    ratio = _ratio(once, twice)
    doubtful = _outside(ratio, 1 + margin, 2 - margin)
    ratio = ratio.clamp(1 + margin, 2 - margin)
    weight = (2 - ratio) / (2 * (ratio - 1))
    values = empty + once * ((weight + 1) / weight)[:, None]
    sink = torch.zeros(1, dtype=singles.dtype, device=singles.device)
    surrogate = SlalomSurrogate(values[None], weight.log()[None], empty[None], sink)
    return surrogate.normalised(), doubtful


def _ratio(base: Tensor, other: Tensor) -> Tensor:
    """How often ``base`` (K, C) is contained in ``other``, by least squares over columns, (K,)."""
    squares = (base * base).sum(dim=1).clamp(min=RECOVERY.least_square)
    return (base * other).sum(dim=1) / squares


def _outside(numbers: Tensor, low: float, high: float) -> list[int]:
    """The indices of numbers (K,) that do not lie between two others; NaN does not."""
    return [k for k, number in enumerate(numbers.tolist()) if not low < number < high]
