"""Many explanations at once: what a model makes of each token over a corpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.figures.canvas import WIDTH, label, look, new_figure, scale
from slalom_xai.reports.figures.plane import (
    LABELS,
    Points,
    draw_points,
    legend,
    limit_plane,
    name_points,
    strongest,
)
from slalom_xai.reports.figures.words import unit_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TokenType:
    """One kind of token over all texts.

    Attributes:
        text: how it is most often written.
        value: mean over its places.
        importance: mean over its places; each text's importances sum to 0.
        removal: mean of what is lost without it.
        count: how many places there are.
    """

    text: str
    value: float
    importance: float
    removal: float
    count: int


def token_types(explanations: Sequence[Explanation], *, least: int = 1) -> list[TokenType]:
    """Mean scores of each kind of token, in the order they first appear.

    Units are of one kind where they have the same token ids, or the same characters for models that take strings.

    Args:
        explanations: of one model, method and label.
        least: places a kind must have.

    Raises:
        InputError: no explanations, additive ones, or ones of different labels.
    """
    if not explanations:
        raise InputError("there is nothing to draw: give at least one explanation")
    rows: dict[object, list[tuple[float, float, float]]] = defaultdict(list)
    names: dict[object, Counter[str]] = defaultdict(Counter)
    for place, explanation in enumerate(explanations):
        if explanation.importances is None:
            raise InputError(
                f"explanation {place} is by {explanation.method!r}, which has no importances: explain with method='slalom'"
            )
        if explanation.target != explanations[0].target:
            raise InputError(
                f"explanation {place} is of {explanation.target!r}, but the first is of {explanations[0].target!r}: use for_target to choose the same label"
            )
        scores = (explanation.values, explanation.importances, explanation.scores("removal"))
        for unit, name, value, importance, removal in zip(
            explanation.units, unit_labels(explanation), *scores, strict=True
        ):
            key: object = unit.token_ids or name
            rows[key].append((float(value), float(importance), float(removal)))
            names[key][name] += 1
    found = []
    for kind, numbers in rows.items():
        if len(numbers) >= least:
            means = [float(mean) for mean in np.mean(numbers, axis=0)]
            found.append(
                TokenType(
                    names[kind].most_common(1)[0][0], means[0], means[1], means[2], len(numbers)
                )
            )
    return found


def corpus_scatter(
    explanations: Sequence[Explanation],
    *,
    labels: int = LABELS,
    least: int = 1,
    width: float = WIDTH,
    height: float = 4.6,
) -> Figure:
    """Mean value against mean importance of every kind of token; the strongest are named.

    Args:
        explanations: of one model, method and label.
        labels: how many are named at most: those whose deletion changes most on average.
        least: places a kind of token must have to be drawn.
        width: of the figure in inches.
        height: of the figure in inches.
    """
    types = token_types(explanations, least=least)
    if not types:
        raise InputError(
            f"no token occurs {least} times or more: give more texts, or a smaller least"
        )
    numbers = np.array([(each.value, each.importance, each.removal) for each in types])
    points = Points(numbers[:, 0], numbers[:, 1], numbers[:, 2], [each.text for each in types])
    with look([*points.labels, label(explanations[0].target)]):
        figure = new_figure(
            f"{len(types)} kinds of tokens in {len(explanations)} texts", width, height
        )
        axes = figure.add_subplot()
        limit_plane(axes, points)
        axes.set_xlabel(f"mean value ({scale(explanations[0])})", parse_math=False)
        axes.set_ylabel("mean importance (log scale)")
        draw_points(axes, points)
        legend(axes, f"argues for {label(explanations[0].target)}", "argues against")
        texts = "text" if len(explanations) == 1 else "texts"
        axes.text(
            1,
            0.01,
            f"{len(types)} kinds of tokens in {len(explanations)} {texts}",
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize="x-small",
        )
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        name_points(figure, axes, points, strongest(points.effects, labels))
    return figure
