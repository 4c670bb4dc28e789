"""The histogram task solved twice, once with attention that says everything and once without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, RED, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from research.theory.slides.histogram import (
    STARTS,
    Solution,
    accuracy,
    between,
    blind,
    counts,
    draw_words,
    equal_letters,
    kicked,
    solve,
    spell,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORD = "DATAIAIAIA"
_STEPS, _FEW_STEPS = 1_500, 1_000  # of training, in full and in a small run


@reproduction(
    name="histogram-task",
    title=(
        "One task, two minima: attention to equal letters, or attention that does not depend on "
        "the letters"
    ),
    source=(
        "Cui, Behrens, Krzakala and Zdeborová 2024, on the slides of Lopardo, Precioso and "
        "Garreau 2024"
    ),
)
@one_thread()
def two_minima(settings: Settings) -> Outcome:
    """Trains the same architecture from two starts and asks what its attention is good for."""
    words = draw_words(2_000, torch.Generator().manual_seed(settings.seed + 99))
    steps = _STEPS
    if settings.small:
        steps = _FEW_STEPS
    starts = settings.track(STARTS, "models")
    solved = {start: solve(start, settings.seed, steps) for start in starts}
    rows = []
    for start, solution in settings.track(solved.items(), "kicked models"):
        after = kicked(solution, settings.seed)
        rows.append(_row(start, solution, after, words))
    table = pd.DataFrame(rows)
    line = between(solved["letters"].model, solved["places"].model, words)
    return Outcome(
        checks=(
            at_least(
                "share of letters counted rightly, both models", table["accuracy"].min(), 0.99
            ),
            *_start_checks(table.iloc[0], table.iloc[1]),
            at_least(
                "the largest error on the straight line between the two, over the larger one at "
                "its ends",
                line.max() / max(line[0], line[-1]),
                3.0,
            ),
        ),
        tables={"models": table},
        figures={"attention": lambda: _draw(solved, line)},
        remarks=(
            "Both starts are built by hand, near one of the two solutions each, and then trained. "
            "Kicked: every weight is moved by 5 % of its matrix's size and the model is trained "
            "for 300 more steps. Mean attention: each word is read with the average attention over "
            "all words, which cannot depend on its letters.",
        ),
    )


def _start_checks(letters: pd.Series, places: pd.Series) -> tuple[Check, ...]:
    """What attention is good for in either model."""
    return (
        at_least(
            "start with letters: equal letters over others in attention",
            letters["equal over others"],
            10.0,
        ),
        at_most("start with places: the same", places["equal over others"], 1.3),
        at_most(
            "start with letters: accuracy with the mean attention of all words put in",
            letters["accuracy, mean attention"],
            0.4,
        ),
        at_least("start with places: the same", places["accuracy, mean attention"], 0.6),
        at_least(
            "start with letters, kicked and trained on: equal letters over others",
            letters["after a kick"],
            10.0,
        ),
        at_most("start with places, kicked and trained on: the same", places["after a kick"], 1.3),
    )


def _row(
    start: str, solution: Solution, after: Solution, words: torch.Tensor
) -> dict[str, str | float]:
    model = solution.model
    return {
        "start": start,
        "accuracy": accuracy(model, words),
        "equal over others": equal_letters(model, words),
        "accuracy, mean attention": accuracy(model, words, blind(model, words)),
        "after a kick": equal_letters(after.model, words),
        "accuracy after": accuracy(after.model, words),
    }


def _draw(solved: dict[str, Solution], line: Floats) -> Figure:
    """Both attentions on the slides' word, and the error on the way from one to the other."""
    figure, axes = panels(3, width=3.1, height=3.0)
    for panel, start in zip(axes, STARTS, strict=False):
        _draw_attention(panel, start, solved[start])
    last = axes[2]
    last.semilogy(np.linspace(0, 1, len(line)), line, "-", color=BLUE)
    last.semilogy([0, 1], line[[0, -1]], "o", color=RED)
    last.set_xticks([0, 1], list(STARTS))
    last.set_title("error between the two", fontsize=9)
    return figure


def _draw_attention(panel: Axes, start: str, solution: Solution) -> None:
    """Which letters look at which, and the counts that this leads to."""
    word, model = spell(WORD), solution.model
    with torch.no_grad():
        weights = model.attention(word)[0].numpy()
        said = (model(word)[0].argmax(dim=-1) + 1).tolist()
    panel.imshow(weights, cmap="Blues", vmin=0, vmax=max(0.3, float(weights.max())))
    panel.set_xticks(range(len(WORD) + 1), [*WORD, "mark"], fontsize=7)
    labels = [f"{letter} → {count}" for letter, count in zip(WORD, said, strict=True)]
    panel.set_yticks(range(len(WORD)), labels, fontsize=7)
    verdict = "not all right"
    if said == counts(word)[0].tolist():
        verdict = "all counts right"
    panel.set_title(f"start with {start}: {verdict}", fontsize=9)
