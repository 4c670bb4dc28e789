"""What noise in the answers does to a recovered SLALOM: the steps of App. B.6, and ours.

The proof compares every token with one reference, whichever that is. Where the two values nearly
agree, the share of a token is a small number over a small number, and noise decides it; a share
outside of 0 to 1 has no logit at all. Our recovery compares each token with the lowest or the
highest value, whichever is further away, and keeps shares between 0.001 and 0.999.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, at_least, at_most
from research.theory.paper.recovery_steps import Counted, follow_the_proof
from research.theory.paper.transformer import planted, random_slalom
from slalom_xai.methods.paper.exact import recover, references

NOISES = (1e-8, 1e-4, 1e-2)
_DRAWS = 60  # SLALOMs
_UNITS = 100
_PROOF, _OURS = "steps of the proof", "ours"

Recover = Callable[[Counted], Tensor]


def noise_table(seed: int) -> pd.DataFrame:
    """The error of the importances over the noise, for 60 SLALOMs of 100 tokens.

    An error is the root mean square over the tokens. The error of a SLALOM some of whose
    importances are NaN counts as infinite.
    """
    lines = []
    for noise in NOISES:
        line: dict[str, float] = {"noise": noise}
        for name, recovered in ((_PROOF, _by_the_proof), (_OURS, _by_ours)):
            errors = torch.stack([_error(recovered, seed, draw, noise) for draw in range(_DRAWS)])
            ranked = (errors / noise).nan_to_num(nan=float("inf")).sort().values
            line[f"{name}: median error / noise"] = float(ranked[_DRAWS // 2])
            line[f"{name}: 90% quantile"] = float(ranked[_DRAWS * 9 // 10])
            line[f"{name}: SLALOMs with NaN"] = int(errors.isnan().sum())
        lines.append(line)
    return pd.DataFrame(lines)


def _error(recovered: Recover, seed: int, draw: int, noise: float) -> Tensor:
    known = random_slalom(_UNITS, seed=_DRAWS * seed + draw)
    found = recovered(Counted(planted(known), noise=noise, seed=_DRAWS * seed + draw))
    return (found - known.importances[0]).square().mean().sqrt()


def _by_the_proof(model: Counted) -> Tensor:
    return follow_the_proof(model, _UNITS)[1]


def _by_ours(model: Counted) -> Tensor:
    singles = model.ask([[token] for token in range(_UNITS)])
    beside = references(singles)[0].tolist()
    pairs = model.ask([[token, beside[token]] for token in range(_UNITS)])
    return recover(singles, pairs)[0].importances[0]


def noise_checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """The proof's steps magnify noise; ours hardly do."""
    small, large = table[table["noise"] == 1e-4].iloc[0], table[table["noise"] == 1e-2].iloc[0]
    return (
        at_least(
            "noise of 0.0001, steps of the proof: median error over the noise",
            small[f"{_PROOF}: median error / noise"],
            10,
        ),
        at_most(
            "noise of 0.0001, ours: the same",
            small[f"{_OURS}: median error / noise"],
            5,
        ),
        at_least(
            "noise of 0.01, steps of the proof: SLALOMs of 60 with an importance that is NaN",
            large[f"{_PROOF}: SLALOMs with NaN"],
            15,
        ),
        at_most(
            "noise of 0.01, ours: median error over the noise",
            large[f"{_OURS}: median error / noise"],
            5,
        ),
    )
