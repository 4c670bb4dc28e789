"""A vocabulary as a table in a terminal and as a plane of values and importances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slalom_xai.data.vocabulary.result import Vocabulary, VocabularyItem
from slalom_xai.errors import InputError
from slalom_xai.reports.colour import printable
from slalom_xai.reports.figures.canvas import FAINT, SCALES, WIDTH, label, look, new_figure
from slalom_xai.reports.figures.points import (
    Points,
    add_legend,
    draw_points,
    limit_plane,
    name_points,
)
from slalom_xai.slalom.trust import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_KINDS = {"sequences": "short sequences of random items", "deletions": "shortened texts"}


def render(vocabulary: Vocabulary, items: Sequence[VocabularyItem]) -> RenderableType:
    """Some items, and how far to trust the vocabulary."""
    title = Text(
        f"{len(vocabulary):,} items of {printable(vocabulary.model)}: what argues for "
        f"{printable(vocabulary.target)}",
        style="bold",
    )
    parts: list[RenderableType] = [title, _table(items)]
    parts.extend(Text(line) for line in trust(vocabulary))
    lengths = ", ".join(map(str, vocabulary.lengths))
    parts.append(
        Text(
            f"{vocabulary.calls:,} model calls, {vocabulary.calls_check:,} of them to test. "
            f"Values are measured: texts of {lengths} copies. Importances are fitted. Effect: what "
            "is lost when the item goes from a text, measured; spread: how that differs from text "
            "to text.",
            style="dim",
        )
    )
    return Group(*parts)


def trust(vocabulary: Vocabulary) -> list[str]:
    """How well a vocabulary predicts rows that it has not seen, a sentence for each kind."""
    return [
        f"It predicts {percent(quality.r2)} of the model's answers to {quality.rows:,} unseen "
        f"{_KINDS[kind]}; values alone, {percent(quality.values_alone)}."
        for kind, quality in vocabulary.quality.items()
    ]


def _table(items: Sequence[VocabularyItem]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("item")
    for name in ("value", "±", "importance", "±", "effect", "±", "spread", "texts"):
        table.add_column(name, justify="right")
    for item in items:
        table.add_row(
            Text(printable(item.item)),
            _number(item.value, signed=True),
            _number(item.value_se),
            _number(item.importance, signed=True),
            _number(item.importance_se),
            _number(item.effect, signed=True),
            _number(item.effect_se),
            _number(item.spread),
            f"{item.texts:,}",
        )
    return table


def _number(number: float, signed: bool = False) -> str:
    if not math.isfinite(number):
        return "–"
    return f"{number:+.2f}" if signed else f"{number:.2f}"


# The plane of a vocabulary, as in the paper's Figure 14: values against importances.


_HEIGHT = 4.8  # inches


def vocabulary_figure(vocabulary: Vocabulary, labels: int, always: Sequence[int]) -> Figure:
    """Value against importance of every item.

    Args:
        vocabulary: what is drawn.
        labels: how many items are named at most, the loudest first.
        always: numbers of items that are named in any case, with their errors.
    """
    if labels < 0:
        raise InputError(f"labels is {labels}: give how many items to name, 0 or more")
    points = _points(vocabulary)
    loud = [index for index in vocabulary.loudest(labels) if index not in set(always)]
    named = [*always, *loud][: max(labels, len(always))]
    title = f"{len(vocabulary):,} items of {vocabulary.model}"
    with look([*(points.labels[index] for index in named), label(vocabulary.target)]):
        figure = new_figure(title, WIDTH, _HEIGHT, outlines=False)
        axes = figure.add_subplot()
        limit_plane(axes, points)
        scale = SCALES[vocabulary.kind]
        axes.set_xlabel(
            f"value, measured ({scale} of {label(vocabulary.target)})", parse_math=False
        )
        axes.set_ylabel("importance, fitted (log scale)")
        _draw_errors(axes, vocabulary, always)
        draw_points(axes, points)
        add_legend(axes, f"argues for {label(vocabulary.target)}", "argues against")
        corner: Any = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
        axes.text(1, 0.01, label(title, 60), **corner, fontsize="x-small", parse_math=False)
        figure.draw_without_rendering()  # settles where the axes are
        figure.set_layout_engine("none")
        name_points(figure, axes, points, named)
    return figure


def _points(vocabulary: Vocabulary) -> Points:
    """Items argue for the target where their value is above the middle of all."""
    away = vocabulary.values - np.average(vocabulary.values, weights=np.exp(vocabulary.importances))
    return Points(
        values=vocabulary.values,
        importances=vocabulary.importances,
        effects=away * np.exp(vocabulary.importances),
        labels=[label(name) for name in vocabulary.names],
    )


def _draw_errors(axes: Any, vocabulary: Vocabulary, indices: Sequence[int]) -> None:
    """Crosses of one standard error."""
    if not indices:
        return
    some = list(indices)
    axes.errorbar(
        vocabulary.values[some],
        vocabulary.importances[some],
        xerr=np.nan_to_num(vocabulary.value_errors[some]),
        yerr=vocabulary.importance_errors[some],
        fmt="none",
        ecolor=FAINT,
        elinewidth=0.8,
        zorder=1,
    )
