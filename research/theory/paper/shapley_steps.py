"""The steps from Eq. 66 to Eq. 69, one by one.

Eq. 67 writes the output without token i by the output with it, and Eq. 68 is what follows:

    F(S) = (F(S and i) − α v) / (1 − α)
    F(S and i) − F(S) = α (v − F(S and i)) / (1 − α)

Here α is the share of token i in S and i. The appendix defines α for the whole text and prints it
without a set; read so, both are wrong. For the empty set α is 1 and the quotient has no meaning.
Eq. 69 has no sum: it is the term of one set, that of all others. So it is what the text loses
without token i (``removal``), and no Shapley value.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, diagonal, panels
from research.theory.paper.shapley import brute_force
from research.theory.paper.transformer import random_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import slalom_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES = (3, 6, 10)


@reproduction(
    name="shapley-steps",
    title="Eqs. 67 and 68 hold with the share within each set, not within the text, and Eq. 69 is "
    "the loss of one token, not a Shapley value",
    source="Leemann et al. 2024, Appendix B.7, Eqs. 67 to 69",
)
def shapley_steps(settings: Settings) -> Outcome:
    """Each step over all sets of a few tokens."""
    known = {units: random_slalom(units, seed=settings.seed + units) for units in _SIZES}
    table = pd.DataFrame([_steps(slalom) for slalom in known.values()])
    shown = known[_SIZES[-1]]
    return Outcome(
        checks=(
            at_most(
                "Eq. 67, share within S and the token: largest error",
                table["Eq. 67, share in the set"].max(),
                1e-10,
            ),
            at_most(
                "Eq. 68, the same: largest error",
                table["Eq. 68, share in the set"].max(),
                1e-10,
            ),
            at_least(
                "Eq. 68, share within the text: smallest of the largest errors",
                table["Eq. 68, share in the text"].min(),
                0.05,
            ),
            at_most(
                "Eq. 69 is what is lost without the token: largest difference",
                table["Eq. 69 and removal"].max(),
                1e-10,
            ),
            at_least(
                "Eq. 69 is no Shapley value: smallest of the largest differences",
                table["Eq. 69 and Shapley"].min(),
                0.05,
            ),
        ),
        tables={"steps": table},
        figures={"last": lambda: _draw(shown)},
        remarks=(
            "Errors over all tokens and all sets of the others but the empty one. Its term is "
            "F({i}) − F(none), which has to be said beside the sum.",
        ),
    )


def _steps(slalom: SlalomSurrogate) -> dict[str, float]:
    """The largest error of each step."""
    errors: dict[str, list[Tensor]] = {"67": [], "68": [], "in text": []}
    weights, values = slalom.importances[0].exp(), slalom.values[0, :, 0]
    of_text = weights / weights.sum()
    for unit in range(slalom.units):
        sets = _sets_without(slalom.units, unit)
        with_unit = sets.clone()
        with_unit[:, unit] = 1.0
        before, after = slalom.predict(sets)[:, 0], slalom.predict(with_unit)[:, 0]
        share = weights[unit] / (with_unit @ weights)
        errors["67"].append((after - share * values[unit]) / (1 - share) - before)
        errors["68"].append(gain(share, values[unit], after) - (after - before))
        errors["in text"].append(gain(of_text[unit], values[unit], after) - (after - before))
    largest = {name: float(torch.cat(each).abs().max()) for name, each in errors.items()}
    last, removal = last_step(slalom), slalom_score(slalom, "removal", 0)
    return {
        "tokens": slalom.units,
        "Eq. 67, share in the set": largest["67"],
        "Eq. 68, share in the set": largest["68"],
        "Eq. 68, share in the text": largest["in text"],
        "Eq. 69 and removal": float((last - removal).abs().max()),
        "Eq. 69 and Shapley": float((last - brute_force(slalom)).abs().max()),
    }


def gain(share: Tensor, value: Tensor, after: Tensor) -> Tensor:
    """What a token adds to a set (Eq. 68), from its share there, its value and the output."""
    return share * (value - after) / (1 - share)


def last_step(slalom: SlalomSurrogate) -> Tensor:
    """Eq. 69 for each token, (n,): the term of the set of all others."""
    weights = slalom.importances[0].exp()
    whole = slalom.predict(torch.ones(1, slalom.units))[0, 0]
    return gain(weights / weights.sum(), slalom.values[0, :, 0], whole)


def _sets_without(units: int, unit: int) -> Tensor:
    """All sets of the other tokens but the empty one, (2^(n-1) - 1, n)."""
    others = list(itertools.product((0.0, 1.0), repeat=units - 1))[1:]
    sets = torch.tensor(others, dtype=torch.float64)
    return torch.cat([sets[:, :unit], torch.zeros(len(sets), 1).double(), sets[:, unit:]], dim=1)


def _draw(slalom: SlalomSurrogate) -> Figure:
    """Eq. 69 against the loss of a token and against its Shapley value."""
    figure, (axes,) = panels(1, width=3.8)
    last = last_step(slalom)
    removal, truth = slalom_score(slalom, "removal", 0), brute_force(slalom)
    both = torch.cat([removal, truth])
    diagonal(axes, float(both.min()), float(both.max()))
    axes.plot(removal, last, "o", color=BLUE, markersize=4, label="what is lost without it")
    axes.plot(truth, last, "o", color=RED, markersize=4, label="Shapley value")
    axes.set(xlabel="exact, ten tokens", ylabel="Eq. 69 as printed")
    axes.legend(fontsize="x-small")
    return figure
