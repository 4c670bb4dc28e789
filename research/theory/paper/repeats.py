"""Transformers are not sums: what happens when one token is repeated.

Proposition 4.1 of Leemann et al. (2024): without positions and special tokens, attention over n
copies of a token averages n equal values, so the answer to [t, t, ..., t] is the answer to [t].
A sum would be n times as large. Corollary 4.2 concludes that no additive model

    F([t_1, ..., t_n]) = b + w_1(t_1) + ... + w_n(t_n)

is such a transformer, and Corollary 4.3 says the same for any number of layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, NEUTRAL, panels
from research.theory.paper.synthetic import (
    LONGEST,
    STEPS,
    WEIGHTS,
    WORDS,
    Ask,
    Shape,
    SmallTransformer,
    sample_rows,
    trained,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-9  # two answers in float64 are the same within this
_SHOWN = 20  # repeats in the figure
_FEW_STEPS = 60  # of training in a small run

_MODEL = "model"
_WEIGHTS = "weights"
_CHANGE = "largest change over repeats"
_RANGE = "range with the same first token"
_ADDITIVE = "error of any additive model ≥"


def spread_over_repeats(ask: Ask, words: int = len(WORDS), longest: int = LONGEST) -> float:
    """The largest difference between the answers to [t], [t, t], ..., over all tokens."""
    rows = [[word] * times for word in range(words) for times in range(1, longest + 1)]
    log_odds = ask(rows).reshape(words, longest)
    spreads = log_odds.amax(dim=1) - log_odds.amin(dim=1)
    return float(spreads.max())


def additive_bound(ask: Ask, first: int, second: int) -> float:
    """A lower bound for the largest error of every additive model, with any weights.

    An additive model has w_2(b) = F([a, b]) - F([a]) = F([b, b]) - F([b]). Where a function breaks
    the second equation by D, any additive model is off by at least D / 4 on one of the four rows.

    Args:
        ask: the function.
        first: the word a.
        second: the word b.
    """
    rows = [[first, second], [first], [second, second], [second]]
    mixed, one, twice, once = ask(rows).tolist()
    return float(abs((mixed - one) - (twice - once)) / 4)


@reproduction(
    name="repeated-token",
    title="Without positions and special tokens, a transformer answers [t], [t, t], ... "
    "alike, so it is not a sum",
    source="Leemann et al. 2024, Proposition 4.1, Corollaries 4.2 and 4.3",
)
def repeated_token(settings: Settings) -> Outcome:
    """Encoders and decoders of several depths, random and trained."""
    depths, steps = [1, 2, 4], STEPS
    if settings.small:
        depths, steps = [1, 2], _FEW_STEPS
    shapes = [Shape(family, layers) for family in ("encoder", "decoder") for layers in depths]
    probe = sample_rows(300, settings.seed + 1)
    repeats = [[WORDS.index("perfect")] * times for times in range(1, _SHOWN + 1)]
    rows, curves = [], {}
    for shape in settings.track(shapes, "training small transformers"):
        random = SmallTransformer(shape, settings.seed, spread=0.3)
        learnt = trained(shape, settings.seed, steps)
        for kind, model in (("random", random), ("trained", learnt)):
            rows.append({_MODEL: str(shape), _WEIGHTS: kind, **_measured(model, probe)})
        curves[str(shape)] = learnt.log_odds(repeats).tolist()
    table = pd.DataFrame(rows)
    return Outcome(
        checks=_checks(table),
        tables={"models": table},
        figures={"curves": lambda: _draw(curves)},
        remarks=(
            "The range shows that the answers depend on more than the first token, so Corollary "
            "4.2 applies. The last column holds for every additive model, also one with other "
            "weights at each position: it needs F([worst, perfect]) − F([worst]) = "
            "F([perfect, perfect]) − F([perfect]).",
        ),
    )


def _measured(model: SmallTransformer, probe: list[list[int]]) -> dict[str, float]:
    """What one model does with repeats, and how far from additive it is."""
    best, worst = WORDS.index("perfect"), WORDS.index("worst")
    same_first = model.log_odds([[0, *row[1:]] for row in probe])
    return {
        _CHANGE: spread_over_repeats(model.log_odds),
        _RANGE: float(same_first.amax() - same_first.amin()),
        _ADDITIVE: additive_bound(model.log_odds, worst, best),
    }


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    learnt = table[table[_WEIGHTS] == "trained"]
    one_layer = table[_MODEL].str.contains("1 layer")
    return (
        at_most(
            "Prop. 4.1: largest change of the answer over 1 to 30 repeats, one layer",
            table.loc[one_layer, _CHANGE].max(),
            SAME,
        ),
        at_most(
            "Cor. 4.3: the same with more layers",
            table.loc[~one_layer, _CHANGE].max(),
            SAME,
        ),
        at_least(
            "Cor. 4.2: smallest range of the answers to texts with the same first token",
            table[_RANGE].min(),
            0.05,
        ),
        at_least(
            "Cor. 4.2: smallest error that every additive model of a trained transformer has",
            learnt[_ADDITIVE].min(),
            0.1,
        ),
    )


def _draw(curves: dict[str, list[float]]) -> Figure:
    """The answers to 1 to 20 repeats of one word, a curve for each trained model."""
    figure, (axes,) = panels(1, width=5.2, height=3.0)
    times = np.arange(1, _SHOWN + 1)
    taught = WEIGHTS[WORDS.index("perfect")] * times
    axes.plot(times, taught, color=NEUTRAL, linestyle=":", label="what was to be learnt")
    for index, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(times, curve, color=colour, label=name, linewidth=1.3)
    axes.set(
        xlabel='times "perfect" is repeated',
        ylabel="log odds",
        ylim=(0, 15),
        title="Trained on a sum, without positions and [CLS]",
    )
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.legend(fontsize=7, frameon=False, ncols=2)
    return figure
