"""Points on the value-importance plane: markers, limits, a legend, and labels near the points.

Points without effect are small grey circles: their numbers mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slalom_xai.explanation import Array
from slalom_xai.reports.figures.canvas import FAINT, relative, renderer, strong, strongest, tint
from slalom_xai.reports.figures.placement import nearest, place_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS_PER_INCH = 72
_SMALLEST = 7.0  # square points, the area of a point without effect
_FAR = 10  # pixels between a point and its label; beyond, a line connects them


@dataclass(frozen=True)
class Points:
    """What is drawn on the plane.

    Attributes:
        values: (n,), the horizontal axis.
        importances: (n,), the vertical axis.
        effects: (n,), whose sign gives the marker and whose size its strength. NaN marks points
            without effect.
        labels: n names.
    """

    values: Array
    importances: Array
    effects: Array
    labels: Sequence[str]


def draw_points(axes: Axes, points: Points) -> None:
    """Triangles up and down, the weak ones first so that the strong lie on top."""
    without = np.isnan(points.effects)
    if without.any():
        axes.scatter(
            points.values[without],
            points.importances[without],
            s=_SMALLEST,
            marker="o",
            color=FAINT,
            linewidths=0,
            zorder=2,
            gid="without",
        )
    weakest_first = strongest(points.effects, len(points.effects))[::-1]
    order = np.array([index for index in weakest_first if not without[index]], dtype=np.int64)
    upwards = relative(points.effects)[order] >= 0
    _draw_triangles(axes, points, order[upwards], up=True)
    _draw_triangles(axes, points, order[~upwards], up=False)


def _draw_triangles(axes: Axes, points: Points, indices: Any, up: bool) -> None:
    """Draws the points with these indices (k,), all in one direction."""
    intensities = relative(points.effects)[indices]
    marker, name = "v", "down"
    if up:
        marker, name = "^", "up"
    axes.scatter(
        points.values[indices],
        points.importances[indices],
        s=_area(intensities),
        marker=marker,
        color=[tint(float(intensity)) for intensity in intensities],
        edgecolors=strong(up),
        linewidths=0.7,
        zorder=3,
        gid=name,
    )


def _area(intensities: Array) -> Array:
    """The areas of markers in square points, (n,)."""
    return np.asarray(14 + 50 * np.abs(intensities) ** 0.6)


def limit_plane(axes: Axes, points: Points, ends: Sequence[float] = ()) -> None:
    """Room around the points for their labels, and around these values."""
    _limit(axes.set_xlim, np.append(points.values, ends), 0.14)
    _limit(axes.set_ylim, points.importances, 0.12)


def _limit(set_limits: Callable[[float, float], Any], numbers: Array, room: float) -> None:
    """Limits one axis to its numbers, with a share of their spread as room on both sides."""
    low = high = 0.0
    finite = numbers[np.isfinite(numbers)]
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
    spread = high - low or max(abs(high), 1.0)
    set_limits(low - room * spread, high + room * spread)


def add_legend(axes: Axes, up: str, down: str, without: str | None = None) -> None:
    """The two markers in words, above the plane, and the grey ones where there are any."""
    handles = [_sample("^", 1.0, up), _sample("v", -1.0, down)]
    if without is not None:
        handles.append(_grey_sample(without))
    legend = axes.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.04),
        ncols=len(handles),
        handletextpad=0.3,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _sample(marker: str, sign: float, text: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [],
        [],
        linestyle="",
        marker=marker,
        markersize=7,
        markerfacecolor=tint(sign),
        markeredgecolor=strong(sign > 0),
        label=text,
    )


def _grey_sample(text: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker="o", markersize=3, color=FAINT, label=text)


def name_points(
    figure: Figure,
    axes: Axes,
    points: Points,
    named: Sequence[int],
    in_the_way: Array | None = None,
) -> None:
    """Labels at free places near their points, with a line to those further away.

    Args:
        figure: its layout is settled.
        axes: of the plane.
        points: all of them.
        named: indices of those that get a label, the most important first.
        in_the_way: (m, 3), centre and radius in pixels of what labels should rather not cover,
            beside the points themselves.
    """
    if not named:
        return
    pixels = axes.transData.transform(np.column_stack([points.values, points.importances]))
    sizes = _text_sizes(figure, axes, [points.labels[index] for index in named])
    radii = np.sqrt(_area(relative(points.effects))) / 2 * figure.dpi / _POINTS_PER_INCH
    markers = np.column_stack([pixels, radii])
    if in_the_way is not None:
        markers = np.concatenate([markers, in_the_way])
    measure = renderer(figure)
    taken = np.array([text.get_window_extent(measure).extents for text in axes.texts])
    boxes = place_labels(
        pixels[list(named)],
        sizes,
        markers,
        np.array(axes.bbox.extents),
        taken.reshape(-1, 4),
    )
    for index, box in zip(named, boxes, strict=True):
        if box is not None:
            _name(axes, points, index, pixels[index], box, _POINTS_PER_INCH / figure.dpi)


def _text_sizes(figure: Figure, axes: Axes, texts: Sequence[str]) -> Array:
    """Width and height of each label in pixels, with a little white around it, (k, 2)."""
    measure = renderer(figure)
    sizes = []
    for text in texts:
        trial = axes.text(0, 0, text, fontsize="small", parse_math=False)
        box = trial.get_window_extent(measure)
        sizes.append([box.width + 4, box.height + 1])
        trial.remove()
    return np.array(sizes)


def _name(
    axes: Axes, points: Points, index: int, anchor: Array, box: Array, to_points: float
) -> None:
    """One label, with a line where it stands apart.

    Args:
        axes: of the plane.
        points: all of them.
        index: which one gets its label.
        anchor: (2,), where its point is, in pixels.
        box: (4,), left, bottom, right and top of the label, in pixels.
        to_points: how many points a pixel has.
    """
    offset = ((box[:2] + box[2:]) / 2 - anchor) * to_points
    touch = nearest(anchor, box)
    arrow = None
    if float(np.hypot(*(touch - anchor))) > _FAR:
        arrow = {
            "arrowstyle": "-",
            "linewidth": 0.5,
            "color": "#8a8a8a",
            "shrinkA": 0,
            "shrinkB": 3,
            "relpos": tuple((touch - box[:2]) / (box[2:] - box[:2])),
        }
    axes.annotate(
        points.labels[index],
        (points.values[index], points.importances[index]),
        tuple(offset),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize="small",
        arrowprops=arrow,
        parse_math=False,
        zorder=5,
        gid=f"label-{index}",
    )
