"""Scores as bars: sorted with their errors, and several explanations of one text side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.errors import InputError, shortened
from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.figures.canvas import (
    TITLES,
    WIDTH,
    headline,
    label,
    look,
    new_figure,
    relative,
    scale,
    strong,
    tint,
)
from slalom_xai.reports.figures.plane import strongest
from slalom_xai.reports.figures.words import Word, merged, unit_labels, word_scores
from slalom_xai.surrogates.quality import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def bars(
    explanation: Explanation,
    *,
    score: str = "removal",
    units: int = 20,
    interval: float | None = 0.9,
    width: float = WIDTH,
) -> Figure:
    """One score of the strongest units, sorted, with its error bars.

    Args:
        explanation: of any method.
        score: any name that ``explanation.scores`` takes.
        units: how many to show at most.
        interval: the share that the error bars cover if errors are normal, such as 0.9; None draws one standard error. Units
            whose error the calls cannot tell have none.
        width: of the figure in inches; the height follows from the number of bars.
    """
    if units < 1 or (interval is not None and not 0 < interval < 1):
        raise InputError(
            f"units is {units} and interval is {interval}: give at least 1 for units, and a number between 0 and 1 for interval, or leave it out"
        )
    scores, names = explanation.scores(score), unit_labels(explanation)
    places = sorted(strongest(scores, units), key=lambda place: (-scores[place], place))
    errors = explanation.standard_errors.get(score)
    reach = (
        None
        if errors is None
        else errors[places]
        * (1.0 if interval is None else NormalDist().inv_cdf((1 + interval) / 2))
    )
    with look([*names, label(explanation.target)]):
        figure = new_figure(
            f"{TITLES[score]}, {headline(explanation)}", width, 1.0 + 0.21 * len(places)
        )
        axes = figure.add_subplot()
        _bars(axes, scores[places], [names[place] for place in places], relative(scores)[places])
        if reach is not None and np.isfinite(reach).any():
            axes.errorbar(
                scores[places],
                range(len(places)),
                xerr=np.nan_to_num(reach),
                fmt="none",
                gid="errors",
                ecolor="#1a1a1a",
                elinewidth=0.9,
                capsize=2.2,
            )
        axes.set_xlabel(_axis(explanation, score, reach is not None, interval), parse_math=False)
        chosen = (
            f"The {len(places)} strongest of {len(scores)}" if len(places) < len(scores) else "All"
        )
        axes.set_title(
            f"{chosen} {explanation.granularity}s; {headline(explanation)}",
            loc="left",
            parse_math=False,
        )
    return figure


def _axis(explanation: Explanation, score: str, with_errors: bool, interval: float | None) -> str:
    unit = "log scale" if score == "importance" else scale(explanation)
    errors = (
        ""
        if not with_errors
        else "; bars: one standard error"
        if interval is None
        else f"; bars: {interval:.0%} intervals"
    )
    return f"{TITLES[score]} ({unit}{errors})"


def _bars(axes: Axes, scores: Array, names: Sequence[str], intensities: Array) -> None:
    """Horizontal bars from the top down; negative ones are hatched."""
    drawn = axes.barh(range(len(scores)), scores, height=0.72, linewidth=0.6)
    for bar, intensity in zip(drawn, intensities, strict=True):
        up = bool(intensity >= 0)
        bar.set_facecolor(tint(math.copysign(0.35 + 0.5 * abs(intensity), intensity)))
        bar.set_edgecolor(strong(up))
        bar.set_hatch("" if up else "/////")
    axes.axvline(0, color="#6b6b6b", linewidth=0.8)
    axes.set_yticks(range(len(scores)), names)
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def side_by_side(
    explanations: Sequence[Explanation],
    *,
    score: str = "removal",
    titles: Sequence[str] | None = None,
    words: int = 24,
    width: float | None = None,
) -> Figure:
    """Several explanations of one text, a panel for each: methods, models, or classes.

    Words stand in reading order, and tokens are merged to words. Every panel has a scale of its own, because methods do not share
    one; read which words stand out, not how long bars are across panels.

    Args:
        explanations: of the same text.
        score: any name that ``explanation.scores`` takes; additive methods have one score under all names but "importance".
        titles: one for each panel; by default what tells the explanations apart.
        words: how many to show at most: those that stand out most in any panel.
        width: of the figure in inches; by default as the panels need.
    """
    given = list(explanations)
    found = _same_words(given)
    names = list(titles) if titles is not None else _names(given)
    if words < 1 or len(names) != len(given):
        raise InputError(
            f"{len(names)} titles were given for {len(given)} explanations, and words is {words}: give a title for each, and at least one word"
        )
    scores = np.array(
        [
            word_scores(explanation, each, score)
            for explanation, each in zip(given, found, strict=True)
        ]
    )
    intensities = np.array([relative(row) for row in scores])
    chosen = sorted(strongest(np.abs(intensities).max(axis=0), words))
    texts = [label(word.text) for word in found[0]]
    with look([*texts, *names]):
        figure = new_figure(
            f"Side by side, {TITLES[score]}",
            width or min(1.3 + 1.5 * len(given), 11.0),
            1.2 + 0.21 * len(chosen),
        )
        panels = figure.subplots(1, len(given), sharey=True, squeeze=False)[0]
        for place, axes in enumerate(panels):
            _bars(
                axes,
                scores[place][chosen],
                [texts[word] for word in chosen],
                intensities[place][chosen],
            )
            axes.set_title(_heading(given[place], names[place]), fontsize="small", parse_math=False)
            most = float(np.abs(scores[place][chosen]).max()) or 1.0
            axes.set_xlim(-1.08 * most, 1.08 * most)
            axes.locator_params(axis="x", nbins=3, steps=[1, 2, 5, 10])
            axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
            axes.set_axisbelow(True)
        figure.supxlabel(f"{TITLES[score]} (each panel on its own scale)", fontsize="medium")
    return figure


def _same_words(explanations: Sequence[Explanation]) -> list[tuple[Word, ...]]:
    """The words of each explanation, which must be the same."""
    if not explanations:
        raise InputError("there is nothing to compare: give at least one explanation")
    first = explanations[0]
    for place, other in enumerate(explanations):
        if (other.text, other.text_pair) != (first.text, first.text_pair):
            raise InputError(
                f"explanation {place} is of {shortened(other.text, 40)}, but the first is of {shortened(first.text, 40)}: give explanations of one text"
            )
    found = [merged(explanation) for explanation in explanations]
    for place, words in enumerate(found):
        if [(word.part, word.start, word.end) for word in words] != [
            (word.part, word.start, word.end) for word in found[0]
        ]:
            raise InputError(
                f"explanation {place} has other words than the first: explain with the same granularity and truncation"
            )
    return found


def _names(explanations: Sequence[Explanation]) -> list[str]:
    """What tells explanations apart: the methods, the classes, the models, or their number."""
    for names in (
        [e.method for e in explanations],
        [e.target for e in explanations],
        [e.model for e in explanations],
    ):
        if len(set(names)) > 1:
            return [label(name) for name in names]
    return (
        [label(explanations[0].method)]
        if len(explanations) == 1
        else [str(place + 1) for place in range(len(explanations))]
    )


def _heading(explanation: Explanation, name: str) -> str:
    fidelity = explanation.fidelity
    if fidelity is None or math.isnan(fidelity.wide.r2):
        return f"{name}\n"
    return f"{name}\npredicts {percent(fidelity.wide.r2)}"
