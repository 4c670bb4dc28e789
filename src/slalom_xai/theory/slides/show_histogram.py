"""The histogram task solved twice, with attention that says everything and attention that says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, RED, panels
from slalom_xai.theory.paper.synthetic import one_thread
from slalom_xai.theory.slides.histogram import (
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
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
WORD = "DATAIAIAIA"


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
    found = {start: solve(start, settings.seed) for start in settings.track(STARTS, "models")}
    after = {
        start: kicked(solution, settings.seed)
        for start, solution in settings.track(found.items(), "kicked models")
    }
    table = pd.DataFrame([_row(start, found[start], after[start], words) for start in STARTS])
    line = between(found["letters"].model, found["places"].model, words)
    letters, places = table.iloc[0], table.iloc[1]
    return Outcome(
        checks=(
            at_least(
                "share of letters counted rightly, both models", table["accuracy"].min(), 0.99
            ),
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
            at_most(
                "start with places, kicked and trained on: the same", places["after a kick"], 1.3
            ),
            at_least(
                "the largest error on the straight line between the two, over the larger one at "
                "its ends",
                line.max() / max(line[0], line[-1]),
                3.0,
            ),
        ),
        tables={"models": table},
        figures={"attention": lambda: _draw(found, line)},
        remarks=(
            "Kicked: every weight is moved by 5 % of its matrix's size and the model is trained "
            "for 300 more steps. Mean attention: each word "
            "is read with the average attention over all words, which cannot depend on its "
            "letters.",
        ),
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


def _draw(found: dict[str, Solution], line: Floats) -> Figure:
    """Both attentions on the slides' word, with the counts they lead to, and the error on the way from one to the other."""
    figure, axes = panels(3, width=3.1, height=3.0)
    word = spell(WORD)
    for place, start in enumerate(STARTS):
        model = found[start].model
        with torch.no_grad():
            weights, said = (
                model.attention(word)[0].numpy(),
                (model(word)[0].argmax(dim=-1) + 1).tolist(),
            )
        axes[place].imshow(weights, cmap="Blues", vmin=0, vmax=max(0.3, float(weights.max())))
        axes[place].set_xticks(range(len(WORD) + 1), [*WORD, "mark"], fontsize=7)
        axes[place].set_yticks(
            range(len(WORD)),
            [f"{letter} → {count}" for letter, count in zip(WORD, said, strict=True)],
            fontsize=7,
        )
        right = said == counts(word)[0].tolist()
        axes[place].set_title(
            f"start with {start}: {'all counts right' if right else 'not all right'}", fontsize=9
        )
    axes[2].semilogy(np.linspace(0, 1, len(line)), line, "-", color=BLUE)
    axes[2].semilogy([0, 1], line[[0, -1]], "o", color=RED)
    axes[2].set_xticks([0, 1], list(STARTS))
    axes[2].set_title("error between the two", fontsize=9)
    return figure
