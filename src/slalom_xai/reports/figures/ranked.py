"""Scores as bars: of one explanation, sorted, or of several, word by word, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.errors import InputError, quote_text
from slalom_xai.explanation import Array, Explanation
from slalom_xai.methods.scores import DEFAULT_SCORE
from slalom_xai.reports.figures.canvas import (
    DARK,
    GREY,
    GRID,
    TITLES,
    WIDTH,
    find_strongest,
    headline,
    label,
    look,
    measured_in,
    new_figure,
    relative,
    score_title,
    strong,
    tint,
)
from slalom_xai.reports.figures.words import (
    Word,
    has_longer_words,
    merge_units,
    unit_labels,
    word_effects,
    word_scores,
)
from slalom_xai.reports.wording import source
from slalom_xai.slalom.trust import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 0.21  # inches for each bar
_WIDEST = 11.0  # inches, of panels side by side unless a width is given


def bars(
    explanation: Explanation,
    *,
    score: str = DEFAULT_SCORE,
    units: int = 20,
    interval: float | None = 0.9,
    width: float = WIDTH,
) -> Figure:
    """One score of the strongest units, sorted, with its error bars.

    A unit without effect has a grey name and no bar; where not all units find room, such units are
    left out.

    Args:
        explanation: of any method.
        score: any name that ``explanation.scores`` takes.
        units: how many to show at most.
        interval: the share that the error bars cover if errors are normal, such as 0.9; None draws
            one standard error. Units whose error the calls cannot tell have none.
        width: of the figure in inches; the height follows from the number of bars.
    """
    if units < 1 or (interval is not None and not 0 < interval < 1):
        raise InputError(
            f"units is {units} and interval is {interval}: give at least 1 for units, "
            "and a number between 0 and 1 for interval, or leave it out"
        )
    names, effect = unit_labels(explanation), explanation.has_effect
    scores = np.where(effect, explanation.scores(score), np.nan)
    chosen = _choose(scores, units)
    reach = _reach(explanation, score, interval)
    with look([*names, label(explanation.target)]):
        title = f"{TITLES[score]}, {headline(explanation)}"
        figure = new_figure(title, width, 1.0 + _BAR * max(len(chosen), 1))
        axes = figure.add_subplot()
        chosen_names = [names[index] for index in chosen]
        _draw_bars(axes, scores[chosen], chosen_names, relative(scores)[chosen])
        for index, tick in zip(chosen, axes.get_yticklabels(), strict=True):
            tick.set_color(DARK if effect[index] else GREY)
        if reach is not None:
            _draw_errors(axes, scores[chosen], reach[chosen])
        caption = _axis_caption(explanation, score, reach is not None, interval)
        axes.set_xlabel(caption, parse_math=False)
        which = "All"
        if len(chosen) < len(scores):
            which = f"The {len(chosen)} strongest of {len(scores)}"
        title = f"{which} {explanation.granularity}s; {headline(explanation)}"
        axes.set_title(title, loc="left", parse_math=False)
    return figure


def _choose(scores: Array, most: int) -> list[int]:
    """Which units are shown, the largest score first.

    Those without effect, whose score is NaN, come last, and only where all units find room.
    """
    chosen = find_strongest(scores, most)
    if len(scores) > most and np.isfinite(scores).any():
        chosen = [index for index in chosen if np.isfinite(scores[index])]
    return sorted(chosen, key=lambda index: (-np.nan_to_num(scores[index], nan=-np.inf), index))


def _reach(explanation: Explanation, score: str, interval: float | None) -> Array | None:
    """How far each unit's error bar goes either way, (n,); None where there are no error bars."""
    errors = explanation.standard_errors.get(score)
    if errors is None or not errors.any():
        return None
    if interval is None:
        return errors
    return np.asarray(errors * NormalDist().inv_cdf((1 + interval) / 2))


def _draw_errors(axes: Axes, scores: Array, reach: Array) -> None:
    """Error bars around the ends of bars, (k,) each."""
    if not np.isfinite(reach).any():
        return
    axes.errorbar(
        scores,
        range(len(scores)),
        xerr=np.nan_to_num(reach),
        fmt="none",
        gid="errors",
        ecolor=DARK,
        elinewidth=0.9,
        capsize=2.2,
    )


def _axis_caption(
    explanation: Explanation, score: str, with_errors: bool, interval: float | None
) -> str:
    """What the bars show, in which unit, and what their error bars are."""
    scale = measured_in(explanation)
    if score == "importance":
        scale = "log scale"
    title = score_title(explanation, score)
    if not with_errors:
        return f"{title} ({scale})"
    if interval is None:
        return f"{title} ({scale}; bars: one standard error)"
    return f"{title} ({scale}; bars: {interval:.0%} intervals)"


def _draw_bars(axes: Axes, scores: Array, names: Sequence[str], intensities: Array) -> None:
    """Horizontal bars from the top down; negative ones are hatched, and NaN has none."""
    without = np.isnan(scores)
    drawn = axes.barh(
        range(len(scores)), np.where(without, 0.0, scores), height=0.72, linewidth=0.6
    )
    for index in np.flatnonzero(without).tolist():
        axes.text(0, index, " no effect", color=GREY, fontsize="x-small", va="center")
    for bar, intensity in zip(drawn, intensities, strict=True):
        up = bool(intensity >= 0)
        bar.set_facecolor(tint(math.copysign(0.35 + 0.5 * abs(intensity), intensity)))
        bar.set_edgecolor(strong(up))
        if not up:
            bar.set_hatch("/////")
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(scores)), names)
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def side_by_side(
    explanations: Sequence[Explanation],
    *,
    score: str = DEFAULT_SCORE,
    titles: Sequence[str] | None = None,
    words: int = 24,
    width: float | None = None,
) -> Figure:
    """Several explanations of one text, a panel for each: methods, models, or classes.

    Words stand in reading order, and tokens are merged to words. Every panel has a scale of its
    own, because methods do not share one; read which words stand out, not how long bars are across
    panels.

    Args:
        explanations: of the same text.
        score: any name that ``explanation.scores`` takes; additive methods have one score under all
            names but "importance".
        titles: one for each panel; by default what tells the explanations apart.
        words: how many to show at most: those that stand out most in any panel.
        width: of the figure in inches; by default as the panels need.
    """
    given = list(explanations)
    same_words = _same_words(given)
    if titles is None:
        titles = _distinguishing_names(given)
    if words < 1 or len(titles) != len(given):
        raise InputError(
            f"{len(titles)} titles were given for {len(given)} explanations, and words is {words}: "
            "give a title for each, and at least one word"
        )
    scores = []
    for explanation, its_words in zip(given, same_words, strict=True):
        effect = word_effects(explanation, its_words)
        scores.append(np.where(effect, word_scores(explanation, its_words, score), np.nan))
    intensities = [relative(of_one) for of_one in scores]
    chosen = sorted(find_strongest(np.abs(intensities).max(axis=0), words))
    texts = [label(word.text) for word in same_words[0]]
    width = width or min(1.3 + 1.5 * len(given), _WIDEST)
    with look([*texts, *titles]):
        figure = new_figure(f"Side by side, {TITLES[score]}", width, 1.2 + _BAR * len(chosen))
        panels = figure.subplots(1, len(given), sharey=True, squeeze=False)[0]
        for index, axes in enumerate(panels):
            chosen_texts = [texts[word] for word in chosen]
            heading = _heading(given[index], score, titles[index])
            _draw_bars(axes, scores[index][chosen], chosen_texts, intensities[index][chosen])
            _finish_panel(axes, heading, float(np.nan_to_num(np.abs(scores[index][chosen])).max()))
        figure.supxlabel(f"{TITLES[score]} (each panel on its own scale)", fontsize="medium")
    return figure


def _finish_panel(axes: Axes, heading: str, largest: float) -> None:
    """The heading of a panel, and an axis with 0 in its middle that goes to the largest score."""
    axes.set_title(heading, fontsize="small", parse_math=False)
    limit = 1.08 * (largest or 1.0)
    axes.set_xlim(-limit, limit)
    axes.locator_params(axis="x", nbins=3, steps=[1, 2, 5, 10])
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _same_words(explanations: Sequence[Explanation]) -> list[tuple[Word, ...]]:
    """The words of each explanation, which must be the same."""
    if not explanations:
        raise InputError("there is nothing to compare: give at least one explanation")
    first = explanations[0]
    for index, other in enumerate(explanations):
        if (other.text, other.text_pair) != (first.text, first.text_pair):
            raise InputError(
                f"explanation {index} is of {quote_text(other.text, 40)}, but the first is of "
                f"{quote_text(first.text, 40)}: give explanations of one text"
            )
    same_words = [merge_units(explanation) for explanation in explanations]
    for index, words in enumerate(same_words):
        if _spans(words) != _spans(same_words[0]):
            raise InputError(
                f"explanation {index} has other words than the first: "
                "explain with the same granularity and truncation"
            )
    return same_words


def _spans(words: Sequence[Word]) -> list[tuple[int, int, int]]:
    return [(word.part, word.start, word.end) for word in words]


def _distinguishing_names(explanations: Sequence[Explanation]) -> list[str]:
    """What tells explanations apart: the methods, the classes, the models, or their number."""
    methods = [explanation.method for explanation in explanations]
    targets = [explanation.target for explanation in explanations]
    models = [explanation.model for explanation in explanations]
    for names in (methods, targets, models):
        if len(set(names)) > 1:
            return [label(name) for name in names]
    if len(explanations) == 1:
        return [label(methods[0])]
    return [str(number + 1) for number in range(len(explanations))]


def _heading(explanation: Explanation, score: str, name: str) -> str:
    """The name of a panel, and below it what is known of its scores.

    That is where they come from, and how much their explanation predicts.
    """
    told = []
    found = source(explanation, score)
    if found == "measured" and has_longer_words(explanation):
        found = "partly measured"
    if found is not None:
        told.append(found)
    fidelity = explanation.fidelity
    if fidelity is not None and not math.isnan(fidelity.any.r2):
        told.append(f"reproduces {percent(fidelity.any.r2)}")
    return f"{name}\n{'; '.join(told)}"
