"""Recovery with the fewest calls: Proposition 5.2, and its counterpart with a sink."""

from __future__ import annotations

import torch
from torch import Tensor

from slalom_xai.surrogates.formula import SlalomSurrogate

NARROW = 1e-3  # a share this close to 0 or 1 leaves its importance to rounding


def references(singles: Tensor) -> tuple[Tensor, int, int]:
    """For each kind the kind to pair it with, and the two extremes all references are taken from.

    Args:
        singles: (K, C), the outputs on single units: their values.

    Returns:
        (K,) the extreme further away in value, then the place of the lowest and of the highest;
        the lowest is paired with the highest.
    """
    main = singles[:, int(singles.var(dim=0).argmax())] if len(singles) > 1 else singles[:, 0]
    low, high = int(main.argmin()), int(main.argmax())
    chosen = torch.where((main - main[low]) > (main[high] - main), low, high)
    return chosen, low, high


def recover(singles: Tensor, pairs: Tensor) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM without a sink that gives these answers.

    With ``g = (F[t, r] - v_r) / (v_t - v_r)`` the share of unit t beside its reference r,
    ``s_t - s_r = log(g / (1 - g))``; the printed Eq. 55 has the opposite sign.

    Args:
        singles: (K, C), outputs on single units.
        pairs: (K, C), outputs on each unit with its reference; the row of the highest unit is not used.

    Returns:
        the surrogate, and the kinds whose importance is ill determined.
    """
    chosen, low, high = references(singles)
    gap, rise = singles - singles[chosen], pairs - singles[chosen]
    share = (gap * rise).sum(dim=1) / (gap * gap).sum(dim=1).clamp(min=1e-30)
    doubtful = [
        k for k in range(len(singles)) if k != high and not NARROW < float(share[k]) < 1 - NARROW
    ]
    difference = torch.logit(share.clamp(NARROW, 1 - NARROW))
    importances = torch.zeros(len(singles), dtype=singles.dtype, device=singles.device)
    importances[low] = difference[low]  # beside the highest, whose importance is 0
    for k in range(len(singles)):
        if k not in (low, high):
            importances[k] = importances[chosen[k]] + difference[k]
    return SlalomSurrogate(singles[None], importances[None]).normalised(), doubtful


def recover_with_sink(
    empty: Tensor, singles: Tensor, doubles: Tensor
) -> tuple[SlalomSurrogate, list[int]]:
    """The SLALOM with a sink that gives these answers to nothing, each unit once, and each unit twice.

    With ``rho = (F2 - v_0) / (F1 - v_0)``, the weight beside the sink's is ``(2 - rho) / (2 (rho - 1))``.

    Args:
        empty: (C,), the output on no unit.
        singles: (K, C), outputs on each unit.
        doubles: (K, C), outputs on each unit twice.

    Returns:
        the surrogate, and the kinds whose scores are ill determined.
    """
    once, twice = singles - empty, doubles - empty
    ratio = (once * twice).sum(dim=1) / (once * once).sum(dim=1).clamp(min=1e-30)
    doubtful = [k for k in range(len(singles)) if not 1 + NARROW < float(ratio[k]) < 2 - NARROW]
    ratio = ratio.clamp(1 + NARROW, 2 - NARROW)
    weight = (2 - ratio) / (2 * (ratio - 1))
    values = empty + once * ((weight + 1) / weight)[:, None]
    sink = torch.zeros(1, dtype=singles.dtype, device=singles.device)
    return SlalomSurrogate(
        values[None], weight.log()[None], empty[None], sink
    ).normalised(), doubtful
