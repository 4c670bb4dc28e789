"""Putting two texts together averages their log odds and does not add them (Fig. 1).

A SLALOM F is an average of values v with weights e^s, so for two texts u and t

    F([u, t]) = (W(u) F(u) + W(t) F(t)) / (W(u) + W(t)),   W = the sum of e^s over a text,

which lies between F(u) and F(t). Any additive model has f(u) + f(t) − f([u, t]) = its offset, for
every pair of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, diagonal, panels
from research.theory.paper.embedded import PAIRS, embedded_log_odds
from research.theory.paper.synthetic import (
    Shape,
    SmallTransformer,
    counts,
    linear_log_odds,
    rms,
    sample_rows,
    trained,
)
from research.theory.paper.transformer import (
    answers,
    planted,
    random_rows,
    random_slalom,
    row_counts,
)
from slalom_xai.methods.paper.fit import fit_slalom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES: tuple[Shape, ...] = (
    Shape("encoder", 2),
    Shape("encoder", 2, special=True),
    Shape("encoder", 2, positions=True, special=True),
    Shape("decoder", 2, positions=True),
)
_UNITS = 12  # tokens of the planted SLALOM
_LIKE_PAPER, _ALL_LENGTHS = "as in the paper", "1 to 30 alike"  # lengths of the training rows


class Guesses(NamedTuple):
    """Log odds (m,) of pairs of rows: the model's answers, and two guesses at them."""

    truth: Tensor
    added: Tensor
    slalom: Tensor


@reproduction(
    name="concatenation",
    title="The log odds of two texts put together are an average of their log odds, not a sum",
    source="Leemann et al. 2024, Fig. 1",
)
def concatenation(settings: Settings) -> Outcome:
    """Pairs of texts on a planted SLALOM, on trained transformers and on the embedded model."""
    learnt, points = _learnt_pairs(settings)
    pairs, doubled = _embedded_pairs(), _embedded_doubled()
    return Outcome(
        checks=(
            *_planted_checks(settings.seed),
            *_learnt_checks(learnt),
            *_embedded_checks(pairs, doubled),
        ),
        tables={"embedded": pairs, "twice": doubled, "trained": learnt},
        figures={"sums": lambda: _draw(points, pairs)},
        remarks=(
            "The language that the small transformers learnt from is a sum: there f([u, t]) = f(u) "
            "+ f(t) without error. Trained on texts of all lengths, a transformer that has a "
            "special token or positions learns to add while the sum is small, as the curves of "
            "repeated-token-sink show. There adding is less wrong, and with some seeds hardly "
            "worse than the SLALOM: the table says how much, and nothing is checked.",
            "Any linear model has f(u) + f(t) − f(u t) = its offset for every pair. Where two "
            "pairs differ in this by D, a linear model is off by at least D / 6 on one of their "
            "six texts.",
        ),
    )


def _planted_checks(seed: int) -> tuple[Check, ...]:
    """200 pairs of rows on a planted SLALOM."""
    known = random_slalom(_UNITS, seed=seed)
    model = planted(known)
    left = random_rows(200, _UNITS, 8, seed + 1)
    right = random_rows(200, _UNITS, 8, seed + 2)
    first, second = answers(model, left)[:, 0], answers(model, right)[:, 0]
    both = answers(model, _joined(left, right))[:, 0]
    above = both - torch.maximum(first, second)
    below = torch.minimum(first, second) - both
    outside = torch.maximum(above, below).clamp(min=0)
    weight = known.importances[0].exp()
    left_weight = row_counts(left, _UNITS) @ weight
    right_weight = row_counts(right, _UNITS) @ weight
    average = (left_weight * first + right_weight * second) / (left_weight + right_weight)
    return (
        at_most(
            "planted SLALOM: how far F([u, t]) leaves the range from F(u) to F(t)",
            float(outside.max()),
            1e-12,
        ),
        at_most(
            "planted SLALOM: difference to the average of F(u) and F(t) weighted by their total "
            "weights",
            float((average - both).abs().max()),
            1e-12,
        ),
    )


def _joined(left: list[list[int]], right: list[list[int]]) -> list[list[int]]:
    return [one + other for one, other in zip(left, right, strict=True)]


def _learnt_pairs(settings: Settings) -> tuple[pd.DataFrame, dict[str, Guesses]]:
    """Pairs of rows on trained transformers: a table, and the guesses that the figure shows."""
    kinds = [*((shape, False) for shape in SHAPES), *((shape, True) for shape in SHAPES[1::2])]
    if settings.small:
        kinds = [(SHAPES[0], False), (SHAPES[2], False)]
    rows, points = [], {}
    for shape, even in settings.track(kinds, "training small transformers"):
        if even:
            model = trained(shape, settings.seed, steps=400, even=True)
        else:
            model = trained(shape, settings.seed)
        halves = [row[:15] for row in sample_rows(400, settings.seed + 2, even=True)]
        left, right = halves[::2], halves[1::2]
        guesses = _guesses(model, left, right, settings.seed)
        if not even:
            points[str(shape)] = guesses
        rows.append(_learnt_row(str(shape), even, guesses, _sum_on_the_truth(left, right)))
    return pd.DataFrame(rows), points


def _guesses(
    model: SmallTransformer, left: list[list[int]], right: list[list[int]], seed: int
) -> Guesses:
    """The sum of the parts, and the prediction of a SLALOM that was fitted to other rows."""
    seen = sample_rows(1500, seed + 1, even=True)
    outputs = model.log_odds(seen)[:, None]
    fitted = fit_slalom(counts(seen), outputs, sink=True, prior=1e-4).surrogate
    together = _joined(left, right)
    return Guesses(
        truth=model.log_odds(together),
        added=model.log_odds(left) + model.log_odds(right),
        slalom=fitted.predict(counts(together))[:, 0],
    )


def _sum_on_the_truth(left: list[list[int]], right: list[list[int]]) -> float:
    """The error of adding in the language itself, which is a sum: zero."""
    parts = linear_log_odds(left) + linear_log_odds(right)
    return float((parts - linear_log_odds(_joined(left, right))).abs().max())


def _learnt_row(
    name: str, even: bool, guesses: Guesses, error_on_truth: float
) -> dict[str, str | float]:
    lengths = _LIKE_PAPER
    if even:
        lengths = _ALL_LENGTHS
    added = rms(guesses.added - guesses.truth)
    slalom = rms(guesses.slalom - guesses.truth)
    return {
        "model": name,
        "lengths": lengths,
        "rms error: sum of the parts": added,
        "rms error: SLALOM": slalom,
        "sum / SLALOM": added / slalom,
        "error of the sum on the truth": error_on_truth,
    }


def _learnt_checks(learnt: pd.DataFrame) -> tuple[Check, ...]:
    like_paper = learnt[learnt["lengths"] == _LIKE_PAPER]
    return (
        at_least(
            "trained as in the paper: error of the sum over that of a SLALOM fitted to other rows",
            like_paper["sum / SLALOM"].min(),
            2.0,
        ),
    )


def _embedded_pairs() -> pd.DataFrame:
    """Each pair of texts on the embedded model: u is the neutral text, t the opinion."""
    opinions = [opinion for opinion, _ in PAIRS]
    neutral = embedded_log_odds([before for _, before in PAIRS])
    opinion = embedded_log_odds(opinions)
    both = embedded_log_odds(_whole_texts())
    return pd.DataFrame(
        {
            "t": opinions,
            "f(u)": neutral.tolist(),
            "f(t)": opinion.tolist(),
            "f(u) + f(t)": (neutral + opinion).tolist(),
            "f(u t)": both.tolist(),
        }
    )


def _whole_texts() -> list[str]:
    return [f"{before} {opinion}" for opinion, before in PAIRS]


def _embedded_doubled() -> pd.DataFrame:
    """Each pair as one text, written once and written twice."""
    texts = _whole_texts()
    once = embedded_log_odds(texts)
    twice = embedded_log_odds([f"{text} {text}" for text in texts])
    return pd.DataFrame(
        {
            "t": [opinion for opinion, _ in PAIRS],
            "f(t)": once.tolist(),
            "2 f(t)": (2 * once).tolist(),
            "f(t t)": twice.tolist(),
        }
    )


def _embedded_checks(pairs: pd.DataFrame, doubled: pd.DataFrame) -> tuple[Check, ...]:
    offset = pairs["f(u) + f(t)"] - pairs["f(u t)"]  # the same for all pairs, were the model linear
    parts, both = pairs[["f(u)", "f(t)"]], pairs["f(u t)"]
    within = (both > parts.min(axis=1)) & (both < parts.max(axis=1))
    as_same = (doubled["f(t t)"] - doubled["f(t)"]).abs().mean()
    as_twice = (doubled["f(t t)"] - 2 * doubled["f(t)"]).abs().mean()
    return (
        at_least(
            "embedded model: error that every linear model has, whatever its weights and offset",
            (offset.max() - offset.min()) / 6,
            0.2,
        ),
        at_least(
            "embedded model: part of the pairs whose f(u t) lies between f(u) and f(t)",
            within.mean(),
            0.8,
        ),
        at_most(
            "embedded model, a text written twice: error of 'the same' as a part of the error of "
            "'twice as much'",
            as_same / as_twice,
            1.0,
        ),
    )


def _draw(points: dict[str, Guesses], pairs: pd.DataFrame) -> Figure:
    """Guesses against answers: three trained models, then the embedded one."""
    shown = [str(shape) for shape in SHAPES if str(shape) in points and shape != SHAPES[1]]
    figure, made = panels(len(shown) + 1, width=2.6, height=2.8)
    for axes, name in zip(made, shown, strict=False):
        truth, added, slalom = points[name]
        diagonal(axes, float(truth.min()), float(truth.max()))
        axes.plot(truth[::2], added[::2], ".", color=RED, markersize=3, label="f(u) + f(t)")
        axes.plot(truth[::2], slalom[::2], ".", color=BLUE, markersize=3, label="SLALOM")
        axes.set_title(name.replace(", ", "\n", 1), fontsize=8)
        axes.set_xlabel("f([u, t])")
    both, last = pairs["f(u t)"], made[-1]
    diagonal(last, float(both.min()), float(both.max()))
    last.plot(both, pairs["f(u) + f(t)"], "o", color=RED, markersize=4)
    last.set_title("embedded model\nsix pairs of texts", fontsize=8)
    last.set_xlabel("f(u t)")
    made[0].legend(fontsize=7, frameon=False)
    return figure
