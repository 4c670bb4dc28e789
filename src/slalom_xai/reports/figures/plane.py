"""The value-importance plane: one point per unit, the model's output, its range and the sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.colour import HIGHLIGHT
from slalom_xai.reports.figures.canvas import (
    DARK,
    FAINT,
    WIDTH,
    find_strongest,
    format_signed,
    headline,
    label,
    look,
    measured_in,
    new_figure,
    score_title,
)
from slalom_xai.reports.figures.points import (
    Points,
    add_legend,
    draw_points,
    limit_plane,
    name_points,
)
from slalom_xai.reports.figures.words import unit_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 40  # more names than this are a thicket
_STEPS = 40  # points on a line that labels keep away from


def scatter(
    explanation: Explanation,
    *,
    labels: int = LABELS,
    errors: bool = False,
    width: float = WIDTH,
    height: float = 4.2,
) -> Figure:
    """Value against importance of every unit: what each argues for, and how strongly it is heard.

    Triangles point up where the Shapley value is positive, and down where it is negative; the
    larger, the larger and darker the triangle. Units without effect are small grey circles without
    a name. A dashed line marks the model's output, towards which values are averaged, and dotted
    lines the ends of its range.

    Args:
        explanation: made by a method with importances.
        labels: how many units are named at most, the strongest first; one that finds no free place
            stays without a name.
        errors: draw one standard error both ways for the named units.
        width: of the figure in inches.
        height: of the figure in inches.

    Raises:
        InputError: an additive explanation, which has no importances.
    """
    points = _points(explanation)
    named = [
        index for index in find_strongest(points.effects, labels) if explanation.has_effect[index]
    ]
    with_whiskers: Sequence[int] = ()
    if errors and {"value", "importance"} <= explanation.standard_errors.keys():
        with_whiskers = named
    with look([*points.labels, label(explanation.target)]):
        figure = new_figure(f"Value and importance, {headline(explanation)}", width, height)
        axes = figure.add_subplot()
        limit_plane(axes, points, explanation.range or ())
        value, importance = (
            score_title(explanation, "value"),
            score_title(explanation, "importance"),
        )
        axes.set_xlabel(f"{value} ({measured_in(explanation)})", parse_math=False)
        axes.set_ylabel(f"{importance} (log scale)")
        _draw_whiskers(axes, explanation, points, with_whiskers)
        draw_points(axes, points)
        _draw_range(axes, explanation.range)
        _draw_output(axes, explanation.prediction)
        everything = _draw_sink(axes, explanation, points)
        add_legend(
            axes,
            f"argues for {label(explanation.target)}",
            "argues against",
            None if explanation.has_effect.all() else "without effect",
        )
        figure.draw_without_rendering()  # settles where the axes are
        figure.set_layout_engine("none")
        sink = range(len(points.values), len(everything.values))
        in_the_way = _in_the_way(axes, explanation, points, with_whiskers)
        name_points(figure, axes, everything, [*sink, *named], in_the_way)
    return figure


def _points(explanation: Explanation) -> Points:
    if explanation.importances is None:
        raise InputError(
            f"method {explanation.method!r} has no importances: it is additive; "
            "draw bars, or explain with method='slalom'"
        )
    return Points(
        values=explanation.values,
        importances=explanation.importances,
        effects=np.where(explanation.has_effect, explanation.scores(HIGHLIGHT), np.nan),
        labels=unit_labels(explanation),
    )


def _in_the_way(
    axes: Axes, explanation: Explanation, points: Points, with_whiskers: Sequence[int]
) -> Array:
    """Points (m, 3) on the dashed line and on the whiskers, in pixels, with a radius.

    Labels should rather not cover them.
    """
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    steps = np.linspace(0, 1, _STEPS)
    output = np.full(_STEPS, explanation.prediction)
    lines = [np.column_stack([output, bottom + steps * (top - bottom)])]
    errors = explanation.standard_errors
    for index in with_whiskers:
        for axis, name in enumerate(("value", "importance")):
            arm = np.tile([points.values[index], points.importances[index]], (_STEPS, 1))
            arm[:, axis] += (2 * steps - 1) * np.nan_to_num(errors[name][index])
            lines.append(arm.clip([left, bottom], [right, top]))
    pixels = axes.transData.transform(np.concatenate(lines))
    return np.column_stack([pixels, np.full(len(pixels), 1.0)])


def _draw_whiskers(
    axes: Axes, explanation: Explanation, points: Points, with_whiskers: Sequence[int]
) -> None:
    """Crosses of one standard error, cut off at the axes."""
    if not with_whiskers:
        return
    errors = explanation.standard_errors
    indices = list(with_whiskers)
    axes.errorbar(
        points.values[indices],
        points.importances[indices],
        xerr=np.nan_to_num(errors["value"][indices]),
        yerr=np.nan_to_num(errors["importance"][indices]),
        fmt="none",
        ecolor=FAINT,
        elinewidth=0.6,
        zorder=1,
    )


def _draw_range(axes: Axes, ends: tuple[float, float] | None) -> None:
    """Dotted lines at the lowest and the highest output of the model."""
    if ends is None:
        return
    for name, end, aligned in zip(("lowest", "highest"), ends, ("right", "left"), strict=True):
        axes.axvline(end, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0, gid=name)
        axes.text(
            end,
            0.01,
            f" {name} {format_signed(end)} ",
            transform=axes.get_xaxis_transform(),
            ha=aligned,
            va="bottom",
            fontsize="x-small",
        )


def _draw_output(axes: Axes, prediction: float) -> None:
    """A dashed line at the model's output, where it lies on the plane."""
    low, high = axes.get_xlim()
    if not low < prediction < high:
        return
    axes.axvline(prediction, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.text(
        prediction,
        1.0,
        f"output {format_signed(prediction)}",
        transform=axes.get_xaxis_transform(),
        ha="center",
        va="bottom",
        fontsize="x-small",
    )


def _draw_sink(axes: Axes, explanation: Explanation, points: Points) -> Points:
    """The sink as a diamond; where it lies outside, at the border with its numbers.

    Returns:
        The points with the sink among them, the last.
    """
    if explanation.sink is None:
        return points
    value, importance = explanation.sink
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    margin = 0.02 * (high - low)
    x, y = np.clip([value, importance], low + margin, high - margin)
    axes.scatter(
        [x],
        [y],
        marker="D",
        s=26,
        facecolors="white",
        edgecolors=DARK,
        linewidths=0.9,
        zorder=4,
        gid="sink",
    )
    name = "sink"
    if not ((low <= (value, importance)).all() and ((value, importance) <= high).all()):
        name = f"sink, further out: ({format_signed(value)}, {format_signed(importance)})"
    return Points(
        values=np.append(points.values, x),
        importances=np.append(points.importances, y),
        effects=np.append(points.effects, 0.0),
        labels=[*points.labels, name],
    )
