"""Exact Shapley values of a SLALOM (Appendix B.7, Eqs. 66 to 69).

The Shapley value of token i is the mean gain F(S and i) − F(S), where a set S of k of the other
n − 1 tokens has the weight 1 / (n binom(n − 1, k)). Eq. 66 prints the binomial itself. The package
computes the values as an integral in polynomial time; here they are compared with three sums that
share nothing with it: over all sets of a few tokens, over numbers of tokens where a text has two
kinds of them, and the sum of all values, which must be F(all) − F(none).
"""

from __future__ import annotations

import itertools
import math
import time
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, diagonal, panels
from research.theory.paper.transformer import random_slalom
from slalom_xai.methods.paper.formula import SlalomSurrogate
from slalom_xai.methods.paper.shapley import shapley_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 10  # tokens in the figure
_APART = 1e-12  # by how much the values of two equal words differ


def brute_force(surrogate: SlalomSurrogate, *, as_printed: bool = False) -> Tensor:
    """Shapley values (n,) of one output as a sum over all sets.

    Args:
        surrogate: at most some 15 units; an empty set gives the sink's value, or 0.
        as_printed: weight sets with the binomial of Eq. 66 instead of its inverse.
    """
    units = surrogate.units
    every = list(itertools.product((0.0, 1.0), repeat=units))
    kept = torch.tensor(every, dtype=torch.float64)  # (2^n, n), in the order of binary numbers
    output = torch.cat([surrogate.empty()[:1], surrogate.predict(kept[1:])[:, 0]])  # (2^n,)
    sizes, index = kept.sum(dim=1).long(), torch.arange(len(kept))
    weight = _set_weights(units, as_printed)
    shapley = []
    for unit in range(units):
        without = index[kept[:, unit] == 0]
        gain = output[without + 2 ** (units - 1 - unit)] - output[without]
        shapley.append((weight[sizes[without]] * gain).sum())
    return torch.stack(shapley)


def _set_weights(units: int, as_printed: bool) -> Tensor:
    """The weight of a set by its size, (n + 1,); no unit joins the set of all n."""
    binomials = [math.comb(units - 1, size) for size in range(units)]
    weights = torch.tensor([*binomials, 1], dtype=torch.float64)
    if not as_printed:
        weights = 1 / weights
    return weights / units


def two_kinds(
    values: tuple[float, float], log_weights: tuple[float, float], each: int
) -> tuple[float, float]:
    """Exact Shapley values of a text of two words, as sums over how many of each are there.

    Args:
        values: of the two words.
        log_weights: their importances.
        each: how often each word occurs.
    """
    first = _kind_value(values, log_weights, each)
    second = _kind_value(values[::-1], log_weights[::-1], each)
    return first, second


def _kind_value(values: tuple[float, ...], log_weights: tuple[float, ...], each: int) -> float:
    """The Shapley value of one occurrence of the first of two words."""
    weights = math.exp(log_weights[0]), math.exp(log_weights[1])
    total = 0.0
    for own, other in itertools.product(range(each), range(each + 1)):
        ways = _log_comb(each - 1, own) + _log_comb(each, other)
        chance = math.exp(ways - _log_comb(2 * each - 1, own + other)) / (2 * each)
        before = _average(values, weights, own, other)
        after = _average(values, weights, own + 1, other)
        total += chance * (after - before)
    return total


def _average(
    values: tuple[float, ...], weights: tuple[float, float], first: int, second: int
) -> float:
    """The output of a text with so many of each word; 0 where there is none."""
    if first + second == 0:
        return 0.0
    above = first * weights[0] * values[0] + second * weights[1] * values[1]
    return above / (first * weights[0] + second * weights[1])


def _log_comb(many: int, few: int) -> float:
    """The logarithm of a binomial, which does not overflow."""
    return math.lgamma(many + 1) - math.lgamma(few + 1) - math.lgamma(many - few + 1)


@reproduction(
    name="shapley",
    title="The exact Shapley values of a SLALOM take polynomial time; the printed weights are "
    "upside down",
    source="Leemann et al. 2024, Appendix B.7, Eqs. 66 to 69, mended; the integral is ours",
)
def shapley(settings: Settings) -> Outcome:
    """The integral against sums over sets, against texts of two words, and over many units."""
    cases = itertools.product((2, 3, 6, 12), (False, True))
    small = pd.DataFrame([_small(units, sink, settings.seed) for units, sink in cases])
    long = pd.DataFrame([_two_words(each) for each in (10, 50, 250)])
    many = pd.DataFrame([_many(units, settings.seed) for units in (64, 128, 256, 512)])
    return Outcome(
        checks=_checks(small, long, many),
        tables={"small": small, "two-words": long, "many-units": many},
        figures={"weights": lambda: _draw(settings.seed)},
        remarks=(
            "In Eqs. 67 to 69 the share α of the token is that within S and the token, not within "
            "the whole text, and for the empty set it is 1, so that the quotient has no meaning "
            "there: what an empty text gives must be said beside it.",
        ),
    )


def _checks(small: pd.DataFrame, long: pd.DataFrame, many: pd.DataFrame) -> tuple[Check, ...]:
    printed = small["error of Eq. 66 as printed"]
    return (
        at_most(
            "up to 12 units: largest difference to the sum over all sets",
            small["error of the integral"].max(),
            1e-8,
        ),
        at_most(
            "two words, up to 250 times each: largest difference to the sum over how many of each",
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
            printed[small["units"] > 2].min(),
            0.05,
        ),
        at_most(
            "the same with 2 units, where both weights are 1/2",
            printed[small["units"] == 2].max(),
            1e-12,
        ),
    )


def _small(units: int, sink: bool, seed: int) -> dict[str, object]:
    """The integral, and Eq. 66 as printed, against the sum over all sets."""
    drawn = random_slalom(units + 1, seed=seed + units)
    values, importances = drawn.values[:, :units], drawn.importances[:, :units]
    if sink:
        has_sink = "yes"
        sink_parts = drawn.values[:, units], drawn.importances[:, units]
        known = SlalomSurrogate(values, importances, *sink_parts).normalise()
    else:
        has_sink = "no"
        known = SlalomSurrogate(values, importances).normalise()
    truth = brute_force(known)
    integral = shapley_values(known)[:, 0]
    printed = brute_force(known, as_printed=True)
    return {
        "units": units,
        "sink": has_sink,
        "sets": 2**units,
        "error of the integral": float((integral - truth).abs().max()),
        "error of Eq. 66 as printed": float((printed - truth).abs().max()),
    }


def _two_words(each: int) -> dict[str, float]:
    """A long text of two words against the sums over how many of each are there.

    Equal units are computed once. Tiny differences in value make sure that none are equal, so that
    as many are computed as the text has.
    """
    values, log_weights = (2.0, -1.0), (0.7, -0.7)
    pattern = torch.tensor([0] * each + [1] * each)
    apart = _APART * torch.arange(2 * each, dtype=torch.float64)
    known = SlalomSurrogate(
        (torch.tensor(values, dtype=torch.float64)[pattern] + apart)[None, :, None],
        torch.tensor(log_weights, dtype=torch.float64)[pattern][None],
    )
    integral = shapley_values(known)[:, 0]
    truth = torch.tensor(two_kinds(values, log_weights, each), dtype=torch.float64)[pattern]
    return {
        "units": 2 * each,
        "first word": float(integral[0]),
        "second word": float(integral[-1]),
        "error": float((integral - truth).abs().max()),
    }


def _many(units: int, seed: int) -> dict[str, float]:
    """The sum of many values, and how long they take."""
    known = random_slalom(units, seed=seed)
    started = time.perf_counter()
    integral = shapley_values(known)[:, 0]
    seconds = time.perf_counter() - started
    full = float(known.predict(torch.ones(1, units)))
    return {
        "units": units,
        "error of the sum": abs(float(integral.sum()) - full),
        "seconds": round(seconds, 2),
    }


def _draw(seed: int) -> Figure:
    """The weights of sets by size, right and as printed; the integral against the sum."""
    figure, (left, right) = panels(2, width=3.4, height=2.8)
    sizes = range(_SHOWN)
    mended = _set_weights(_SHOWN, as_printed=False)[:_SHOWN]
    printed = _set_weights(_SHOWN, as_printed=True)[:_SHOWN]
    left.semilogy(sizes, mended, color=BLUE, marker="o", label="the Shapley value")
    left.semilogy(sizes, printed, color=RED, marker="o", label="Eq. 66 as printed")
    left.set(xlabel=f"tokens already there, of {_SHOWN}", ylabel="weight of a set")
    left.legend(fontsize=8, frameon=False)
    known = random_slalom(_SHOWN, seed=seed)
    truth = brute_force(known)
    diagonal(right, float(truth.min()), float(truth.max()))
    right.plot(truth, shapley_values(known)[:, 0], "o", color=BLUE, markersize=4)
    right.set(xlabel="sum over 1024 sets", ylabel="integral", title="Shapley values of ten tokens")
    return figure
