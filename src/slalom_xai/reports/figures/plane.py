"""The value-importance plane: one point per unit, labels that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Array, Explanation
from slalom_xai.reports.figures.canvas import (
    WIDTH,
    headline,
    label,
    look,
    new_figure,
    relative,
    renderer,
    scale,
    signed,
    strong,
    tint,
)
from slalom_xai.reports.figures.placement import nearest, place_labels
from slalom_xai.reports.figures.words import unit_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 40  # more than this are a thicket


@dataclass(frozen=True)
class Points:
    """What is drawn on the plane.

    Attributes:
        values: (n,), the horizontal axis.
        importances: (n,), the vertical axis.
        effects: (n,), whose sign gives the marker and whose size its strength.
        labels: n names.
    """

    values: Array
    importances: Array
    effects: Array
    labels: Sequence[str]


def scatter(
    explanation: Explanation,
    *,
    labels: int = LABELS,
    errors: bool = False,
    width: float = WIDTH,
    height: float = 4.2,
) -> Figure:
    """Value against importance of every unit: what each says, and how loudly.

    Triangles point up where deleting the unit would lower the output, down where it would raise it; the stronger, the larger and
    darker. A dashed line marks the model's output, towards which values are averaged.

    Args:
        explanation: made by a method with importances.
        labels: how many units are named at most, the strongest first; one that finds no free place stays without a name.
        errors: draw one standard error both ways for the named units.
        width: of the figure in inches.
        height: of the figure in inches.

    Raises:
        InputError: an additive explanation, which has no importances.
    """
    if explanation.importances is None:
        raise InputError(
            f"method {explanation.method!r} has no importances: it is additive; draw bars, or explain with method='slalom'"
        )
    points = Points(
        explanation.values,
        explanation.importances,
        explanation.scores("removal"),
        unit_labels(explanation),
    )
    with look([*points.labels, label(explanation.target)]):
        figure = new_figure(f"Value and importance, {headline(explanation)}", width, height)
        axes = figure.add_subplot()
        limit_plane(axes, points)
        axes.set_xlabel(f"value ({scale(explanation)})", parse_math=False)
        axes.set_ylabel("importance (log scale)")
        named = strongest(points.effects, labels)
        if errors:
            _whiskers(axes, explanation, points, named)
        draw_points(axes, points)
        _output(axes, explanation.prediction)
        everything = _sink(axes, explanation, points)
        legend(axes, f"argues for {label(explanation.target)}", "argues against")
        figure.draw_without_rendering()  # settles where the axes are
        figure.set_layout_engine("none")
        sink = list(range(len(points.values), len(everything.values)))
        name_points(
            figure,
            axes,
            everything,
            [*sink, *named],
            _in_the_way(axes, explanation, points, named if errors else ()),
        )
    return figure


def _in_the_way(
    axes: Axes, explanation: Explanation, points: Points, named: Sequence[int]
) -> Array:
    """Points (m, 3) on the dashed line and on the whiskers, in pixels, that labels should rather not cover."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    steps = np.linspace(0, 1, 40)
    lines = [
        np.column_stack([np.full(40, explanation.prediction), bottom + steps * (top - bottom)])
    ]
    errors = explanation.standard_errors
    for place in named if "value" in errors and "importance" in errors else ():
        for axis, name in enumerate(("value", "importance")):
            arm = np.tile([points.values[place], points.importances[place]], (40, 1))
            arm[:, axis] += (2 * steps - 1) * np.nan_to_num(errors[name][place])
            lines.append(arm.clip([left, bottom], [right, top]))
    return np.column_stack(
        [axes.transData.transform(np.concatenate(lines)), np.full(40 * len(lines), 1.0)]
    )


def strongest(effects: Array, count: int) -> list[int]:
    """Places of the largest effects, either way, strongest first."""
    return [
        int(place)
        for place in np.argsort(-np.abs(np.nan_to_num(effects)), kind="stable")[: max(count, 0)]
    ]


def draw_points(axes: Axes, points: Points) -> None:
    """Triangles up and down, the weak ones first so that the strong lie on top."""
    intensities = relative(points.effects)
    order = np.array(strongest(points.effects, len(points.effects))[::-1], dtype=np.int64)
    for up in (True, False):
        places = order[(intensities[order] >= 0) == up]
        axes.scatter(
            points.values[places],
            points.importances[places],
            s=_area(intensities[places]),
            marker="^" if up else "v",
            color=[tint(float(intensity)) for intensity in intensities[places]],
            edgecolors=strong(up),
            linewidths=0.7,
            zorder=3,
            gid="up" if up else "down",
        )


def _area(intensities: Array) -> Array:
    """The areas of markers in square points."""
    return np.asarray(14 + 50 * np.abs(intensities) ** 0.6)


def limit_plane(axes: Axes, points: Points) -> None:
    """Room around the points for their labels."""
    for numbers, set_limits, room in (
        (points.values, axes.set_xlim, 0.14),
        (points.importances, axes.set_ylim, 0.12),
    ):
        finite = numbers[np.isfinite(numbers)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        spread = high - low or max(abs(high), 1.0)
        set_limits(low - room * spread, high + room * spread)


def _whiskers(axes: Axes, explanation: Explanation, points: Points, named: Sequence[int]) -> None:
    """Crosses of one standard error, cut off at the axes."""
    errors = explanation.standard_errors
    if not named or "value" not in errors or "importance" not in errors:
        return
    places = list(named)
    axes.errorbar(
        points.values[places],
        points.importances[places],
        xerr=np.nan_to_num(errors["value"][places]),
        yerr=np.nan_to_num(errors["importance"][places]),
        fmt="none",
        ecolor="#9a9a9a",
        elinewidth=0.6,
        zorder=1,
    )


def _output(axes: Axes, prediction: float) -> None:
    low, high = axes.get_xlim()
    if low < prediction < high:
        axes.axvline(prediction, color="#9a9a9a", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.text(
            prediction,
            1.0,
            f"output {signed(prediction)}",
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize="x-small",
        )


def _sink(axes: Axes, explanation: Explanation, points: Points) -> Points:
    """The sink as a diamond; at the border, with its numbers, where it lies outside. Returns the points with the sink among them."""
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
        edgecolors="#1a1a1a",
        linewidths=0.9,
        zorder=4,
        gid="sink",
    )
    inside = bool((low <= (value, importance)).all() and ((value, importance) <= high).all())
    name = "sink" if inside else f"sink, further out: ({signed(value)}, {signed(importance)})"
    return Points(
        np.append(points.values, x),
        np.append(points.importances, y),
        np.append(points.effects, 0.0),
        [*points.labels, name],
    )


def legend(axes: Axes, up: str, down: str) -> None:
    """The two markers in words, below the plane."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=marker,
            markersize=7,
            markerfacecolor=tint(sign),
            markeredgecolor=strong(sign > 0),
            label=text,
        )
        for marker, sign, text in (("^", 1.0, up), ("v", -1.0, down))
    ]
    box = axes.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.04), ncols=2, handletextpad=0.3
    )
    for text in box.get_texts():
        text.set_parse_math(False)


def name_points(
    figure: Figure,
    axes: Axes,
    points: Points,
    named: Sequence[int],
    in_the_way: Array | None = None,
) -> None:
    """Labels at free places near their points, with a line to those further away."""
    if not named:
        return
    measure = renderer(figure)
    pixels = axes.transData.transform(np.column_stack([points.values, points.importances]))
    trials = [
        axes.text(0, 0, points.labels[place], fontsize="small", parse_math=False) for place in named
    ]
    sizes = np.array(
        [
            [box.width + 4, box.height + 1]
            for box in (trial.get_window_extent(measure) for trial in trials)
        ]
    )
    for trial in trials:
        trial.remove()
    radii = np.sqrt(_area(relative(points.effects))) / 2 * figure.dpi / 72
    markers = np.column_stack([pixels, radii])
    if in_the_way is not None:
        markers = np.concatenate([markers, in_the_way])
    others = [text.get_window_extent(measure).extents for text in axes.texts]
    boxes = place_labels(
        pixels[list(named)],
        sizes,
        markers,
        np.array(axes.bbox.extents),
        np.array(others).reshape(-1, 4),
    )
    for place, box in zip(named, boxes, strict=True):
        if box is not None:
            _name(axes, points, place, pixels[place], box, 72 / figure.dpi)


def _name(
    axes: Axes, points: Points, place: int, anchor: Array, box: Array, to_points: float
) -> None:
    """One label, with a line where it stands apart."""
    offset = ((box[:2] + box[2:]) / 2 - anchor) * to_points
    touch = nearest(anchor, box)
    far = float(np.hypot(*(touch - anchor))) > 10
    arrow = {
        "arrowstyle": "-",
        "linewidth": 0.5,
        "color": "#8a8a8a",
        "shrinkA": 0,
        "shrinkB": 3,
        "relpos": tuple((touch - box[:2]) / (box[2:] - box[:2])),
    }
    axes.annotate(
        points.labels[place],
        (points.values[place], points.importances[place]),
        tuple(offset),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize="small",
        arrowprops=arrow if far else None,
        parse_math=False,
        zorder=5,
        gid=f"label-{place}",
    )
