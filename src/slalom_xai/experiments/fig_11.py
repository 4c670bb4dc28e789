"""Fig. 11: the words of one review that people marked, and those that methods single out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from slalom_xai.experiments.base import PAPER, experiment
from slalom_xai.experiments.cells import Numbers
from slalom_xai.experiments.review_methods import EFF, OURS
from slalom_xai.experiments.yelp import DATA, HOURS, MAPS, STUDY, map_score, steak_maps
from slalom_xai.theory.base import Outcome, Settings, at_least
from slalom_xai.theory.drawing import BLUE, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PEOPLE = "people"
_LETTERS = 60  # of a line
_BETTER_THAN_CHANCE = 0.6


@experiment(
    name="fig-11",
    title="In one review, methods single out many of the words that people marked",
    source=f"{PAPER}, Fig. 11",
    study=STUDY,
    hours=HOURS / 500,
    data=DATA,
)
def fig_11(settings: Settings) -> Outcome:
    """Maps of one review: people's, the paper's four methods', and ours."""
    return outcome(steak_maps(settings, "fig-11"))


def outcome(found: Numbers) -> Outcome:
    """The maps of the review; see ``yelp.steak_maps``."""
    aurocs = found["auroc"]
    marked = np.array(found["marks"]) > 0
    rows = []
    for recipe in MAPS:
        scores = np.array(found["scores"].get(recipe.name, []))
        rows.append(
            {
                "model": found["model"],
                "method": recipe.name,
                "score": map_score(recipe),
                "paper": math.nan,
                "ours": aurocs.get(recipe.name, math.nan),
                "s.e.": math.nan,
                "reviews": 1,
                "of the ten highest": _marked_on_top(scores, marked, recipe == EFF),
            }
        )
    table = pd.DataFrame(rows)
    return Outcome(
        checks=tuple(
            at_least(f"AU-ROC of {name}", aurocs.get(name, math.nan), _BETTER_THAN_CHANCE)
            for name in (recipe.name for recipe in MAPS)
        ),
        tables={"auroc": table},
        figures={"maps": lambda: _draw(found)},
        remarks=(
            "`ours` is the AU-ROC against the words that all annotators marked (`human-distinct`); "
            "the paper prints no number. The last column counts marked tokens among the ten with "
            "the highest scores, without sign; importances as they are. "
            f"The {found['model']} is {found['origin']}.",
            *(f"{name} did not explain it: {why}" for name, why in found["refused"].items()),
        ),
        finding=(
            f"People agree on {int(marked.sum())} of {len(marked)} tokens; the AU-ROC is "
            f"{aurocs.get(EFF.name, math.nan):.3f} for slalom-eff's importances and "
            f"{aurocs.get(OURS.name, math.nan):.3f} for slalom."
        ),
    )


def _marked_on_top(scores: np.ndarray, marked: np.ndarray, as_they_are: bool) -> float:
    """How many of the ten highest scores are of marked tokens."""
    if not len(scores):
        return math.nan
    sizes = scores if as_they_are else np.abs(scores)
    return float(marked[np.argsort(-sizes, kind="stable")[:10]].sum())


def intensities(scores: Sequence[float], *, as_they_are: bool) -> list[float]:
    """Scores as shades from 0 to 1: sizes, or importances from the least to the greatest."""
    sizes = np.abs(np.asarray(scores, dtype=float))
    if as_they_are:
        sizes = np.asarray(scores, dtype=float) - np.min(scores)
    largest = float(sizes.max(initial=0.0))
    if largest == 0:
        return [0.0] * len(sizes)
    return [float(size) for size in sizes / largest]


def lines_of(text: str, letters: int) -> list[tuple[int, str]]:
    """A text in lines of at most so many letters, each with the place of its first one."""
    lines, place = [], 0
    for line in textwrap.wrap(text, letters, break_on_hyphens=False):
        place = text.index(line.split()[0], place)
        lines.append((place, text[place : place + len(line)]))
        place += len(line)
    return lines


def _draw(found: Numbers) -> Figure:
    """The review once for people and once for each method, its tokens shaded."""
    lines = lines_of(found["text"], _LETTERS)
    maps = {_PEOPLE: found["marks"]}
    for recipe in MAPS:
        if recipe.name in found["scores"]:
            scores = found["scores"][recipe.name]
            maps[recipe.name] = intensities(scores, as_they_are=recipe == EFF)
    rows = len(maps) * (len(lines) + 2)
    figure, (axes,) = panels(1, width=6.3, height=0.2 * rows)
    axes.set(xlim=(0, _LETTERS), ylim=(rows, 0))
    axes.axis("off")
    top = 1.0
    for name, shades in maps.items():
        axes.text(0, top, name, fontsize=9, fontweight="bold", va="center")
        for number, (start, line) in enumerate(lines):
            height = top + 1 + number
            for (first, last), shade in zip(found["spans"], shades, strict=True):
                if start <= first < start + len(line):
                    _shade(axes, first - start, last - start, height, shade)
            for column, letter in enumerate(line):
                axes.text(column + 0.5, height, letter, fontsize=8, ha="center", va="center")
        top += len(lines) + 2
    return figure


def _shade(axes: Axes, first: int, last: int, height: float, shade: float) -> None:
    axes.fill_between(
        [first, last], height - 0.5, height + 0.5, color=BLUE, alpha=0.7 * shade, lw=0
    )
