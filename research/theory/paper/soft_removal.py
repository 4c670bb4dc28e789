"""Removing a part of a token, and the derivative by that part (Eq. 5 and Appendix B.7).

With a fraction λ_i of each token the SLALOM becomes differentiable:

    F(λ) = sum_i α_i(λ) v_i,   α_i(λ) = λ_i e^{s_i} / sum_j λ_j e^{s_j}.

At λ = 1 its derivative by λ_i is α_i (v_i − F) (Eq. 64). Eq. 65 of the paper drops −F α_i and keeps
v_i e^{s_i}. This is proportional to the derivative only where F = 0.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, RED, panels
from research.theory.paper.transformer import answers, planted, random_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.scores import slalom_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 10  # all sets of ten tokens can be asked
_DRAWS = 200  # random SLALOMs on which Eq. 65 is compared with the derivative


@reproduction(
    name="soft-removal",
    title="Fractions of a token make the model differentiable; the derivative is the token's share "
    "times (value − output)",
    source="Leemann et al. 2024, Eq. 5 and Appendix B.7, Eqs. 59 to 65",
)
def soft_removal(settings: Settings) -> Outcome:
    """Eq. 5 at its corners, Eq. 64 against autograd and differences, Eq. 65 against Eq. 64."""
    drawn = random_slalom(_UNITS, seed=settings.seed)
    # A text with an opinion: where F is 0, Eqs. 64 and 65 agree.
    known = SlalomSurrogate(drawn.values + 1.5, drawn.importances)
    slope = slalom_score(known, "slope", 0)
    linearized = slalom_score(known, "linearized", 0)
    gradient = _differentiated(known)
    steps = _differences(known, gradient)
    return Outcome(
        checks=(
            *_derivative_checks(known, slope, gradient, steps),
            *_linearized_checks(known, settings.seed),
        ),
        tables={"steps": steps, "example": _example()},
        figures={"scores": lambda: _draw(slope, linearized)},
        remarks=(
            "Eq. 65 drops the term −F·α, which is not the same for every token: it carries the "
            "token's own weight. The score linearized is v exp(s) as published, slope is the "
            "derivative.",
        ),
    )


def _differentiated(known: SlalomSurrogate) -> Tensor:
    """The derivative (n,) of the output by the fraction of each token, by autograd."""
    whole = torch.ones(1, _UNITS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(known.predict(whole).sum(), whole)
    return gradient[0]


def _differences(known: SlalomSurrogate, gradient: Tensor) -> pd.DataFrame:
    """Taking away a little of each token, one at a time, against the derivative (n,)."""
    rows = []
    whole = known.predict(torch.ones(1, _UNITS))
    for step in (1e-1, 1e-2, 1e-3, 1e-4):
        less = step * torch.eye(_UNITS, dtype=torch.float64)
        counts = torch.ones(_UNITS, _UNITS, dtype=torch.float64) - less
        quotients = (whole - known.predict(counts))[:, 0] / step
        rows.append((step, float((quotients - gradient).abs().max())))
    return pd.DataFrame(rows, columns=["part taken away", "largest error"])


def _corners(known: SlalomSurrogate) -> float:
    """Eq. 5 with every λ of zeros and ones, against the planted transformer without those tokens.

    The empty text is left out: a SLALOM without a sink has no answer to it.
    """
    every = list(itertools.product((0.0, 1.0), repeat=_UNITS))
    kept = torch.tensor(every[1:], dtype=torch.float64)  # (2^n - 1, n)
    rows = [torch.nonzero(one)[:, 0].tolist() for one in kept]
    return float((answers(planted(known), rows) - known.predict(kept)).abs().max())


def _derivative_checks(
    known: SlalomSurrogate, slope: Tensor, gradient: Tensor, steps: pd.DataFrame
) -> tuple[Check, ...]:
    errors = steps["largest error"].to_numpy()
    return (
        at_most(
            "λ of 0 or 1: largest difference to the transformer asked without the token",
            _corners(known),
            1e-12,
        ),
        at_most(
            "Eq. 64 against automatic differentiation",
            float((gradient - slope).abs().max()),
            1e-12,
        ),
        at_most(
            "Eq. 64 against differences: the error when the step is a tenth, as a part of that "
            "before",
            float((errors[1:] / errors[:-1]).max()),
            0.15,
        ),
        at_most("sum of Eq. 64 over the text", abs(float(slope.sum())), 1e-12),
    )


def _linearized_checks(known: SlalomSurrogate, seed: int) -> tuple[Check, ...]:
    left, misranked = _unlike(seed)
    whole = known.predict(torch.ones(1, _UNITS))
    centred = SlalomSurrogate(known.values - whole, known.importances)
    off_at_zero = _best_multiple(
        slalom_score(centred, "linearized", 0), slalom_score(centred, "slope", 0)
    )
    return (
        at_least(
            "Eq. 65: part of the derivative that no multiple of v exp(s) explains, mean of 200 "
            "SLALOMs",
            left,
            0.05,
        ),
        at_most(
            "the same where the output of the whole text is 0, which is when Eq. 65 holds",
            off_at_zero,
            1e-9,
        ),
        at_least(
            "Eq. 65: part of the pairs of tokens that it ranks unlike the derivative, mean of 200 "
            "SLALOMs",
            misranked,
            0.02,
        ),
    )


def _best_multiple(scores: Tensor, target: Tensor) -> float:
    """What the best multiple of the scores (n,) leaves of the target (n,), relative to its norm."""
    left = target - scores * (scores @ target) / (scores @ scores)
    return float(left.norm() / target.norm())


def _unlike(seed: int) -> tuple[float, float]:
    """How unlike v exp(s) and the derivative are, as means over random SLALOMs.

    Returns:
        What the best multiple leaves over, and the part of the pairs that are in another order.
    """
    first, second = torch.triu_indices(_UNITS, _UNITS, 1)
    left, wrong = [], []
    for draw in range(_DRAWS):
        known = random_slalom(_UNITS, seed=1000 * seed + draw)
        slope = slalom_score(known, "slope", 0)
        linearized = slalom_score(known, "linearized", 0)
        left.append(_best_multiple(linearized, slope))
        by_slope = slope[first] - slope[second]
        by_linearized = linearized[first] - linearized[second]
        wrong.append(float((by_slope * by_linearized < 0).double().mean()))
    return sum(left) / _DRAWS, sum(wrong) / _DRAWS


def _example() -> pd.DataFrame:
    """A mildly good word in a very good text.

    It pulls the output down, and its linearized score is positive all the same.
    """
    values = torch.tensor([[[4.0], [3.0], [1.0]]], dtype=torch.float64)
    known = SlalomSurrogate(values, torch.zeros(1, 3, dtype=torch.float64))
    names = ("value", "linearized", "slope", "removal", "shapley")
    scores = {name: slalom_score(known, name, 0).tolist() for name in names}
    return pd.DataFrame({"token": ["superb", "good", "decent"], **scores})


def _draw(slope: Tensor, linearized: Tensor) -> Figure:
    """The derivative against Eq. 65, a point for each token."""
    figure, (axes,) = panels(1, width=4.0, height=3.0)
    axes.axhline(0, color=NEUTRAL, linewidth=0.6)
    axes.axvline(0, color=NEUTRAL, linewidth=0.6)
    differ = slope * linearized < 0
    axes.scatter(linearized[~differ], slope[~differ], c=BLUE, s=22)
    axes.scatter(linearized[differ], slope[differ], c=RED, s=22)
    axes.set(
        xlabel="Eq. 65: v exp(s)",
        ylabel="Eq. 64: the derivative",
        title="Ten tokens of one text; red: the signs differ",
    )
    return figure
