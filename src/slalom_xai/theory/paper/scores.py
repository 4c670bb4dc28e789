"""From two scores to one: soft removal and its derivative (Eq. 5, Appendix B.7), and exact Shapley values."""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.surrogates.exact_shapley import shapley_values
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.surrogates.scores import slalom_score
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, GREY, RED, panels
from slalom_xai.theory.paper.transformer import answers, planted, random_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = 10


@reproduction(
    name="soft-removal",
    title=(
        "Fractions of a token make the model differentiable; the derivative is share times (value "
        "− output)"
    ),
    source="Leemann et al. 2024, Eq. 5 and Appendix B.7, Eqs. 59 to 65",
)
def soft_removal(settings: Settings) -> Outcome:
    """Eq. 5 at its corners, Eq. 64 against autograd and differences, Eq. 65 against Eq. 64."""
    drawn = random_slalom(_UNITS, seed=settings.seed)
    known = SlalomSurrogate(
        drawn.values + 1.5, drawn.importances
    )  # a text with an opinion: where F is 0, Eqs. 64 and 65 agree
    slope, linearized = slalom_score(known, "slope", 0), slalom_score(known, "linearized", 0)
    whole = torch.ones(1, _UNITS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(known.predict(whole).sum(), whole)
    steps = _differences(known, gradient[0])
    left, misranked = _unlike(settings.seed)
    centred = SlalomSurrogate(
        known.values - known.predict(torch.ones(1, _UNITS)), known.importances
    )
    off_at_zero = _best_multiple(
        slalom_score(centred, "linearized", 0), slalom_score(centred, "slope", 0)
    )
    ratios = steps["largest error"].to_numpy()
    return Outcome(
        checks=(
            at_most(
                "λ of 0 or 1: largest difference to the transformer asked without the token",
                _corners(known),
                1e-12,
            ),
            at_most(
                "Eq. 64 against automatic differentiation",
                float((gradient[0] - slope).abs().max()),
                1e-12,
            ),
            at_most(
                "Eq. 64 against differences: the error when the step is a tenth, as a part of "
                "that before",
                float((ratios[1:] / ratios[:-1]).max()),
                0.15,
            ),
            at_most("sum of Eq. 64 over the text", abs(float(slope.sum())), 1e-12),
            at_least(
                "Eq. 65: part of the derivative that no multiple of v exp(s) explains, mean of "
                "200 SLALOMs",
                left,
                0.05,
            ),
            at_most(
                "the same where the output of the whole text is 0, which is when Eq. 65 holds",
                off_at_zero,
                1e-9,
            ),
            at_least(
                "Eq. 65: part of the pairs of tokens that it ranks unlike the derivative, mean of "
                "200 SLALOMs",
                misranked,
                0.02,
            ),
        ),
        tables={"steps": steps, "example": _example()},
        figures={"scores": lambda: _draw_scores(slope, linearized)},
        remarks=(
            "Eq. 65 drops the term −F·α, which is not the same for every token: it carries the "
            "token's own weight. The score "
            "linearized is v exp(s) as published, slope is the derivative.",
        ),
    )


def _corners(known: SlalomSurrogate) -> float:
    """Eq. 5 with every λ of zeros and ones against the planted transformer on the tokens that are left."""
    kept = torch.tensor(list(itertools.product((0.0, 1.0), repeat=_UNITS))[1:], dtype=torch.float64)
    rows = [torch.nonzero(one)[:, 0].tolist() for one in kept]
    return float((answers(planted(known), rows) - known.predict(kept)).abs().max())


def _differences(known: SlalomSurrogate, gradient: Tensor) -> pd.DataFrame:
    """Taking away a little of each token, one at a time, against the derivative."""
    rows = []
    for step in (1e-1, 1e-2, 1e-3, 1e-4):
        counts = torch.ones(_UNITS, _UNITS, dtype=torch.float64) - step * torch.eye(
            _UNITS, dtype=torch.float64
        )
        found = (known.predict(torch.ones(1, _UNITS)) - known.predict(counts))[:, 0] / step
        rows.append((step, float((found - gradient).abs().max())))
    return pd.DataFrame(rows, columns=["part taken away", "largest error"])


def _best_multiple(scores: Tensor, target: Tensor) -> float:
    """What is left of the target after the best multiple of the scores, as a part of the target's norm."""
    left = target - scores * (scores @ target) / (scores @ scores)
    return float(left.norm() / target.norm())


def _unlike(seed: int) -> tuple[float, float]:
    """How unlike v exp(s) and the derivative are: what the best multiple leaves over, and the part of pairs in another order."""
    first, second = torch.triu_indices(_UNITS, _UNITS, 1)
    left, wrong = [], []
    for draw in range(200):
        known = random_slalom(_UNITS, seed=1000 * seed + draw)
        slope, linearized = slalom_score(known, "slope", 0), slalom_score(known, "linearized", 0)
        left.append(_best_multiple(linearized, slope))
        wrong.append(
            ((slope[first] - slope[second]) * (linearized[first] - linearized[second]) < 0)
            .double()
            .mean()
            .item()
        )
    return sum(left) / 200, sum(wrong) / 200


def _example() -> pd.DataFrame:
    """A mildly good word in a very good text pulls the output down, and its linearized score is positive all the same."""
    known = SlalomSurrogate(
        torch.tensor([[[4.0], [3.0], [1.0]]], dtype=torch.float64),
        torch.zeros(1, 3, dtype=torch.float64),
    )
    scores = {
        name: slalom_score(known, name, 0).tolist()
        for name in ("value", "linearized", "slope", "removal", "shapley")
    }
    return pd.DataFrame({"token": ["superb", "good", "decent"], **scores})


def _draw_scores(slope: Tensor, linearized: Tensor) -> Figure:
    figure, (axes,) = panels(1, width=4.0, height=3.0)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.axvline(0, color=GREY, linewidth=0.6)
    colours = [
        RED if left * right < 0 else BLUE
        for left, right in zip(slope.tolist(), linearized.tolist(), strict=True)
    ]
    axes.scatter(linearized, slope, c=colours, s=22)
    axes.set(
        xlabel="Eq. 65: v exp(s)",
        ylabel="Eq. 64: the derivative",
        title="Ten tokens of one text; red: the signs differ",
    )
    return figure


def brute_force(surrogate: SlalomSurrogate, *, as_printed: bool = False) -> Tensor:
    """Shapley values (n,) of one output as a sum over all sets.

    Args:
        surrogate: at most some 15 units; an empty set gives the sink's value, or 0.
        as_printed: weight sets with the binomial of Eq. 66 instead of its inverse.
    """
    units = surrogate.units
    kept = torch.tensor(list(itertools.product((0.0, 1.0), repeat=units)), dtype=torch.float64)
    output = torch.cat([surrogate.empty()[:1], surrogate.predict(kept[1:])[:, 0]])
    sizes, place = kept.sum(dim=1).long(), torch.arange(len(kept))
    binomials = torch.tensor(
        [math.comb(units - 1, size) if size < units else 1 for size in range(units + 1)],
        dtype=torch.float64,
    )
    weight = (binomials if as_printed else 1 / binomials) / units
    found = []
    for unit in range(units):
        without = place[kept[:, unit] == 0]
        gain = output[without + 2 ** (units - 1 - unit)] - output[without]
        found.append((weight[sizes[without]] * gain).sum())
    return torch.stack(found)


def two_kinds(
    values: tuple[float, float], log_weights: tuple[float, float], each: int
) -> tuple[float, float]:
    """Exact Shapley values of a text of two words, each occurring so often, by sums over how many of each are there."""
    found = []
    for own in (0, 1):
        mine, other = values[own], values[1 - own]
        heavy, light = math.exp(log_weights[own]), math.exp(log_weights[1 - own])
        total = 0.0
        for same, rest in itertools.product(range(each), range(each + 1)):
            chance = math.exp(
                _log_comb(each - 1, same)
                + _log_comb(each, rest)
                - _log_comb(2 * each - 1, same + rest)
            ) / (2 * each)
            before = (
                (same * heavy * mine + rest * light * other) / (same * heavy + rest * light)
                if same + rest
                else 0.0
            )
            after = ((same + 1) * heavy * mine + rest * light * other) / (
                (same + 1) * heavy + rest * light
            )
            total += chance * (after - before)
        found.append(total)
    return found[0], found[1]


def _log_comb(many: int, few: int) -> float:
    return math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)


@reproduction(
    name="shapley",
    title=(
        "The exact Shapley values of a SLALOM take polynomial time; the printed weights are "
        "upside down"
    ),
    source="Leemann et al. 2024, Appendix B.7, Eqs. 66 to 69, mended; the integral is ours",
)
def shapley(settings: Settings) -> Outcome:
    """The integral against sums over all sets, against long texts of two words, and over many units."""
    small = pd.DataFrame(
        [_small(units, sink, settings.seed) for units in (2, 3, 6, 12) for sink in (False, True)]
    )
    long = pd.DataFrame([_long(each) for each in (10, 50, 250)])
    many = pd.DataFrame([_many(units, settings.seed) for units in (64, 128, 256, 512)])
    two, more = small["units"] == 2, small["units"] > 2
    return Outcome(
        checks=(
            at_most(
                "up to 12 units: largest difference to the sum over all sets",
                small["error of the integral"].max(),
                1e-8,
            ),
            at_most(
                "two words, up to 250 times each: largest difference to the sum over how many of "
                "each",
                long["error"].max(),
                1e-7,
            ),
            at_most(
                "up to 512 units: sum of the values against F(all) − F(none)",
                many["error of the sum"].max(),
                1e-7,
            ),
            at_least(
                "weights of Eq. 66 as printed: smallest error from 3 units on",
                small.loc[more, "error of Eq. 66 as printed"].min(),
                0.05,
            ),
            at_most(
                "the same with 2 units, where both weights are 1/2",
                small.loc[two, "error of Eq. 66 as printed"].max(),
                1e-12,
            ),
        ),
        tables={"small": small, "two-words": long, "many-units": many},
        figures={"weights": lambda: _draw_weights(settings.seed)},
        remarks=(
            "In Eqs. 67 to 69 the share α of the token is that within S and the token, not within "
            "the whole text, and for the empty "
            "set it is 1, so that the quotient has no meaning there: what an empty text gives "
            "must be said beside it.",
        ),
    )


def _small(units: int, sink: bool, seed: int) -> dict[str, object]:
    drawn = random_slalom(units + 1, seed=seed + units)
    parts = (drawn.values[:, units], drawn.importances[:, units]) if sink else (None, None)
    known = SlalomSurrogate(
        drawn.values[:, :units], drawn.importances[:, :units], *parts
    ).normalised()
    truth = brute_force(known)
    return {
        "units": units,
        "sink": "yes" if sink else "no",
        "sets": 2**units,
        "error of the integral": float((shapley_values(known)[:, 0] - truth).abs().max()),
        "error of Eq. 66 as printed": float(
            (brute_force(known, as_printed=True) - truth).abs().max()
        ),
    }


def _long(each: int) -> dict[str, float]:
    values, log_weights = (2.0, -1.0), (0.7, -0.7)
    pattern = torch.tensor([0] * each + [1] * each)
    known = SlalomSurrogate(
        torch.tensor(values, dtype=torch.float64)[pattern][None, :, None],
        torch.tensor(log_weights, dtype=torch.float64)[pattern][None],
    )
    found = shapley_values(known)[:, 0]
    truth = torch.tensor(two_kinds(values, log_weights, each), dtype=torch.float64)[pattern]
    return {
        "units": 2 * each,
        "first word": float(found[0]),
        "second word": float(found[-1]),
        "error": float((found - truth).abs().max()),
    }


def _many(units: int, seed: int) -> dict[str, float]:
    known = random_slalom(units, seed=seed)
    started = time.perf_counter()
    found = shapley_values(known)[:, 0]
    seconds = time.perf_counter() - started
    full = float(known.predict(torch.ones(1, units)))
    return {
        "units": units,
        "error of the sum": abs(float(found.sum()) - full),
        "seconds": round(seconds, 2),
    }


def _draw_weights(seed: int) -> Figure:
    figure, (left, right) = panels(2, width=3.4, height=2.8)
    sizes = range(10)
    left.semilogy(
        sizes,
        [1 / math.comb(9, size) / 10 for size in sizes],
        color=BLUE,
        marker="o",
        label="the Shapley value",
    )
    left.semilogy(
        sizes,
        [math.comb(9, size) / 10 for size in sizes],
        color=RED,
        marker="o",
        label="Eq. 66 as printed",
    )
    left.set(xlabel="tokens already there, of 10", ylabel="weight of a set")
    left.legend(fontsize=8, frameon=False)
    known = random_slalom(_UNITS, seed=seed)
    truth = brute_force(known)
    ends = [float(truth.min()), float(truth.max())]
    right.plot(ends, ends, color=GREY, linewidth=0.8)
    right.plot(truth, shapley_values(known)[:, 0], "o", color=BLUE, markersize=4)
    right.set(xlabel="sum over 1024 sets", ylabel="integral", title="Shapley values of ten tokens")
    return figure
