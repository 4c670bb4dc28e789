"""Many explanations at once: what a model makes of each token over a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.colour import HIGHLIGHT
from slalom_xai.reports.figures.canvas import (
    WIDTH,
    find_strongest,
    label,
    look,
    measured_in,
    new_figure,
    score_title,
)
from slalom_xai.reports.figures.plane import LABELS
from slalom_xai.reports.figures.points import (
    Points,
    add_legend,
    draw_points,
    limit_plane,
    name_points,
)
from slalom_xai.reports.figures.words import unit_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TokenType:
    """One kind of token over all texts.

    Attributes:
        text: how it is most often written.
        value: mean over the places where it has an effect; over all where it has none.
        importance: likewise; each text's importances sum to 0.
        shapley: mean Shapley value over all places.
        count: how many places there are.
        effects: at how many of them it has an effect.
    """

    text: str
    value: float
    importance: float
    shapley: float
    count: int
    effects: int


@dataclass
class _Occurrences:
    """All places of one kind of token.

    Attributes:
        names: how often it is written in which way.
        scores: value, importance and Shapley value at each place.
        effects: whether it has an effect at each place.
    """

    names: Counter[str] = field(default_factory=Counter)
    scores: list[tuple[float, float, float]] = field(default_factory=list)
    effects: list[bool] = field(default_factory=list)

    def mean(self) -> TokenType:
        """The kind of token with its mean scores."""
        scores, effects = np.array(self.scores), np.array(self.effects)
        counted = effects if effects.any() else np.ones_like(effects)
        value, importance = (float(mean) for mean in scores[counted, :2].mean(axis=0))
        shapley = float(scores[:, 2].mean())
        name = self.names.most_common(1)[0][0]
        return TokenType(name, value, importance, shapley, len(scores), int(effects.sum()))


def token_types(explanations: Sequence[Explanation], *, least: int = 1) -> list[TokenType]:
    """Mean scores of each kind of token, in the order they first appear.

    Units are of one kind where they have the same token ids, or the same characters for models that
    take strings.

    Args:
        explanations: of one model, method and label.
        least: places a kind must have.

    Raises:
        InputError: no explanations, additive ones, or ones of different labels.
    """
    if not explanations:
        raise InputError("there is nothing to draw: give at least one explanation")
    kinds: dict[object, _Occurrences] = {}
    for index, explanation in enumerate(explanations):
        _check_comparable(index, explanation, explanations[0])
        _collect(explanation, kinds)
    return [kind.mean() for kind in kinds.values() if len(kind.scores) >= least]


def _check_comparable(index: int, explanation: Explanation, first: Explanation) -> None:
    if explanation.importances is None:
        raise InputError(
            f"explanation {index} is by {explanation.method!r}, which has no importances: "
            "explain with method='slalom'"
        )
    if explanation.target != first.target:
        raise InputError(
            f"explanation {index} is of {explanation.target!r}, but the first is of "
            f"{first.target!r}: use for_target to choose the same label"
        )


def _collect(explanation: Explanation, kinds: dict[object, _Occurrences]) -> None:
    """Adds the units of one explanation to those of their kinds."""
    values, importances = explanation.values, explanation.scores("importance")
    shares, effect = explanation.scores(HIGHLIGHT), explanation.has_effect
    names = unit_labels(explanation)
    for index, unit in enumerate(explanation.units):
        kind = kinds.setdefault(unit.token_ids or names[index], _Occurrences())
        kind.names[names[index]] += 1
        kind.scores.append((float(values[index]), float(importances[index]), float(shares[index])))
        kind.effects.append(bool(effect[index]))


def corpus_scatter(
    explanations: Sequence[Explanation],
    *,
    labels: int = LABELS,
    least: int = 1,
    width: float = WIDTH,
    height: float = 4.6,
) -> Figure:
    """Mean value against mean importance of every kind of token; the strongest are named.

    Kinds that have an effect in no text are small grey circles without a name.

    Args:
        explanations: of one model, method and label.
        labels: how many are named at most: those with the largest mean Shapley values.
        least: places a kind of token must have to be drawn.
        width: of the figure in inches.
        height: of the figure in inches.
    """
    types = token_types(explanations, least=least)
    if not types:
        raise InputError(
            f"no token occurs {least} times or more: give more texts, or a smaller least"
        )
    points = _points(types)
    first = explanations[0]
    counted = f"{len(types)} kinds of tokens in {len(explanations)} texts"
    with look([*points.labels, label(first.target)]):
        figure = new_figure(counted, width, height)
        axes = figure.add_subplot()
        limit_plane(axes, points)
        value, importance = (
            _mean_title(explanations, "value"),
            _mean_title(explanations, "importance"),
        )
        axes.set_xlabel(f"{value} ({measured_in(first)})", parse_math=False)
        axes.set_ylabel(f"{importance} (log scale)")
        draw_points(axes, points)
        without = "without effect" if np.isnan(points.effects).any() else None
        add_legend(axes, f"argues for {label(first.target)}", "argues against", without)
        if len(explanations) == 1:
            counted = counted.removesuffix("s")
        corner: Any = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
        axes.text(1, 0.01, counted, **corner, fontsize="x-small")
        figure.draw_without_rendering()  # settles where the axes are
        figure.set_layout_engine("none")
        named = [index for index in find_strongest(points.effects, labels) if types[index].effects]
        name_points(figure, axes, points, named)
    return figure


def _mean_title(explanations: Sequence[Explanation], score: str) -> str:
    """What an axis shows, and where its numbers come from if that is the same in all texts."""
    titles = {score_title(explanation, score) for explanation in explanations}
    if len(titles) > 1:
        return f"mean {score}, measured or fitted"
    return f"mean {titles.pop()}"


def _points(types: Sequence[TokenType]) -> Points:
    return Points(
        values=np.array([each.value for each in types]),
        importances=np.array([each.importance for each in types]),
        effects=np.array([each.shapley if each.effects else np.nan for each in types]),
        labels=[each.text for each in types],
    )
