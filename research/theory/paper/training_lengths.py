"""How much a transformer counts repeats depends on the lengths of the rows that it learnt from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from torch import Tensor

from research.base import Check, Settings, at_least, at_most
from research.drawing import COLOURS, NEUTRAL, panels
from research.theory.paper.synthetic import (
    LONGEST,
    STEPS,
    WEIGHTS,
    WORDS,
    Shape,
    SmallTransformer,
    trained,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EVEN_STEPS = 400  # of training on rows of all lengths, which are harder than the paper's
_FEW_STEPS = 80  # in a small run, of models that do not learn to count
_SHAPES: tuple[Shape, ...] = (
    Shape("encoder", 2, special=True),
    Shape("encoder", 2, positions=True, special=True),
    Shape("decoder", 2, positions=True),
)
_EVEN, _PAPER = "1 to 30 alike", "as in the paper"  # lengths of the training rows
_SHOWN = (1, 2, 5, 10, 20)  # repeats in the table


def trained_evenly(shape: Shape, settings: Settings) -> SmallTransformer:
    """A model that learnt from rows of 1 to 30 words, each length as often."""
    steps = _EVEN_STEPS
    if settings.small and not shape.special and not shape.positions:
        steps = _FEW_STEPS
    return trained(shape, settings.seed, steps=steps, even=True)


def answers_by_length(settings: Settings) -> dict[tuple[str, str], Tensor]:
    """Answers to 1 to 30 times "perfect", by model and by the lengths of its training rows."""
    rows = [[WORDS.index("perfect")] * times for times in range(1, LONGEST + 1)]
    found = {}
    shapes, steps = _SHAPES, STEPS
    if settings.small:
        shapes, steps = _SHAPES[:1], _FEW_STEPS
    for shape in settings.track(shapes, "training on the paper's lengths"):
        if shape.special:
            found[str(shape), _EVEN] = trained_evenly(shape, settings).log_odds(rows)
        found[str(shape), _PAPER] = trained(shape, settings.seed, steps).log_odds(rows)
    return found


def length_table(answered: dict[tuple[str, str], Tensor]) -> pd.DataFrame:
    """Some of the answers, a line for each model and kind of lengths."""
    return pd.DataFrame([_row(key, log_odds) for key, log_odds in answered.items()])


def _row(key: tuple[str, str], log_odds: Tensor) -> dict[str, str | float]:
    model, lengths = key
    shown = {f"perfect × {times}": float(log_odds[times - 1]) for times in _SHOWN}
    return {"model": model, "lengths of the training rows": lengths, **shown}


def length_checks(lengths: pd.DataFrame) -> tuple[Check, ...]:
    """The sum that was taught rises by 28.5 from 1 to 20 times "perfect"."""
    rise = lengths[f"perfect × {_SHOWN[-1]}"] - lengths["perfect × 1"]
    paper = lengths["lengths of the training rows"] == _PAPER
    return (
        at_most(
            "trained on the paper's lengths: largest rise from 1 to 20 times 'perfect'",
            rise[paper].max(),
            0.5,
        ),
        at_least(
            "trained on 1 to 30 words alike, with [CLS]: smallest rise",
            rise[~paper].min(),
            1.0,
        ),
    )


def draw_lengths(answered: dict[tuple[str, str], Tensor]) -> Figure:
    """A panel for each model; dotted is the sum that was taught."""
    models = list(dict.fromkeys(model for model, _ in answered))
    figure, made = panels(len(models), width=2.6, height=2.6, share_y=True)
    times = list(range(1, LONGEST + 1))
    taught = [WEIGHTS[WORDS.index("perfect")] * count for count in times]
    for axes, model in zip(made, models, strict=True):
        axes.plot(times, taught, color=NEUTRAL, linestyle=":", linewidth=1)
        for lengths, colour in zip((_PAPER, _EVEN), COLOURS, strict=False):
            if (model, lengths) in answered:
                axes.plot(times, answered[model, lengths].tolist(), color=colour, label=lengths)
        axes.set(xlabel='times "perfect"', ylim=(0, 8))
        axes.set_title(model.replace(", ", "\n", 1), fontsize=8)
    made[0].set_ylabel("log odds")
    made[0].legend(fontsize=7, frameon=False, title="training rows", title_fontsize=7)
    return figure
