"""Figures 4a-b and 10: surrogates of the linear language's transformers on repeats of a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Outcome, Settings, at_most, reproduction
from research.drawing import BLUE, GREEN, NEUTRAL, ORANGE, RED, diagonal, panels
from research.paper.language import (
    HOURS,
    MODEL,
    STUDY,
    kinds_of,
    standard_error,
    study,
    unlearnt,
)
from research.paper.language_fits import GAM, LINEAR, SINK, SLALOM, SURROGATES
from research.paper.language_models import NET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = dict(zip(SURROGATES, (NEUTRAL, RED, ORANGE, GREEN, BLUE), strict=True))
_DRAWN = (LINEAR, GAM, SLALOM)  # as in the paper's figures


@reproduction(
    name="fig-10",
    title="A SLALOM follows a transformer on repeats of a word; additive models do not",
    source=f"{PAPER}, Figures 4a, 4b and 10",
    study=STUDY,
    hours=HOURS,
)
def fig_10(settings: Settings) -> Outcome:
    """Errors of five surrogates on 1 to 20 copies of a word."""
    return outcome(study(settings))


def outcome(models: pd.DataFrame) -> Outcome:
    """What the study's surrogates predict for copies; see ``language.measured``."""
    kept = models[(models["kind"] != NET) & models["copies"].notna()]
    table = _errors(kept)
    wide = table.pivot(index="model", columns="surrogate", values="ours")
    ratios = {name: wide[SLALOM] / wide[name] for name in (LINEAR, GAM)}
    return Outcome(
        checks=tuple(
            at_most(f"SLALOM's error on copies over that of {named}, largest", ratio.max(), 1.0)
            for named, ratio in zip(
                ("the linear model", "the GAM with LASSO 0.01"), ratios.values(), strict=True
            )
        ),
        tables={"copies": table},
        figures={"copies": lambda: _draw(kept), "scatter": lambda: _draw_scatter(kept)},
        remarks=(
            'Root mean squared errors of the log odds of 1 to 20 copies of "perfect", mean over '
            "runs. The paper draws these curves and prints no number. Surrogates are those of "
            "Table 6, fitted to texts of the language, which hardly ever repeat a word so often. "
            "In the second figure they predict fresh texts of the language.",
            *unlearnt(models),
        ),
        finding=(
            f"On copies of a word, SLALOM is nearer to {int((ratios[LINEAR] < 1).sum())} of "
            f"{len(wide)} models than the linear model and nearer to "
            f"{int((ratios[GAM] < 1).sum())} than the GAM; its error is "
            f"{wide[SLALOM].min():.2f} to {wide[SLALOM].max():.2f}, the linear model's "
            f"{wide[LINEAR].min():.2f} to {wide[LINEAR].max():.2f}, with a sink "
            f"{wide[SINK].min():.2f} to {wide[SINK].max():.2f}."
        ),
    )


def _errors(models: pd.DataFrame) -> pd.DataFrame:
    """One row per model and surrogate."""
    rows = []
    for name, _, group in kinds_of(models):
        for surrogate in SURROGATES:
            errors = []
            for copies, truth in zip(group["copies"], group["repeats"], strict=True):
                missed = np.asarray(copies[surrogate]) - np.asarray(truth)
                errors.append(float(np.sqrt(np.mean(missed**2))))
            rows.append(
                {
                    "model": name,
                    "surrogate": surrogate,
                    "paper": float("nan"),
                    "ours": sum(errors) / len(errors),
                    "s.e.": standard_error(errors),
                    "runs": len(errors),
                }
            )
    return pd.DataFrame(rows)


def _draw(models: pd.DataFrame) -> Figure:
    """A panel for each sort of model: log odds by copies, first run."""
    groups = list(kinds_of(models))
    figure, made = panels(len(groups), width=2.3, share_y=True)
    for axes, (name, _, group) in zip(made, groups, strict=True):
        first = group.iloc[0]
        copies = range(1, len(first["repeats"]) + 1)
        for surrogate in _DRAWN:
            predicted = first["copies"][surrogate]
            axes.plot(copies, predicted, color=_COLOURS[surrogate], label=surrogate)
        axes.plot(copies, first["repeats"], ".", color="black", label="the model")
        axes.set(xlabel='copies of "perfect"')
        axes.set_title(name, fontsize="x-small")
    made[0].set_ylabel("log odds")
    made[0].legend(fontsize="xx-small")
    return figure


def _draw_scatter(models: pd.DataFrame) -> Figure:
    """A panel for each sort of model: surrogates' log odds against the model's, first run."""
    groups = list(kinds_of(models))
    figure, made = panels(len(groups), width=2.3, share_y=True)
    for axes, (name, _, group) in zip(made, groups, strict=True):
        _scatter(axes, group["scatter"].iloc[0])
        axes.set(xlabel="log odds, the model")
        axes.set_title(name, fontsize="x-small")
    made[0].set_ylabel("log odds, surrogate")
    made[0].legend(fontsize="xx-small")
    return figure


def _scatter(axes: Axes, points: dict[str, list[float]]) -> None:
    truth = points[MODEL]
    diagonal(axes, min(truth), max(truth))
    for surrogate in _DRAWN:
        colour = _COLOURS[surrogate]
        axes.plot(truth, points[surrogate], ".", color=colour, markersize=3, label=surrogate)
