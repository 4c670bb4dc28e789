"""Points on the value-importance plane: markers, limits, a legend, and labels near the points.

Points without effect are small grey circles: their numbers mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slalom_xai.reports.figures.canvas import (
    FAINT,
    find_strongest,
    relative,
    renderer,
    strong,
    tint,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where labels go: near their points, over nothing else that can be read.
#
# Labels are placed one after the other. For each, boxes at several distances and angles from its
# point are candidates. Those that leave the paper, or meet a label or a line that is already
# there, are out. Of the others the cheapest wins: distance costs, and so does every marker that
# is covered.
#
# Boxes are (left, bottom, right, top), segments are (start, end) points; everything is in pixels.


Array = NDArray[np.float64]

_RADII = (5.0, 9.0, 14.0, 21.0, 30.0, 42.0, 58.0, 80.0)  # distances that are tried, in pixels
_ANGLES = 24  # directions that are tried; more find tighter places, and take longer
_CROWDED = 12.0  # covering a marker is as bad as so many pixels of distance
_STEPS = np.linspace(0, 1, 12)[:, None]  # where a line is checked, as shares of its length


def place_labels(
    anchors: Array, sizes: Array, markers: Array, bounds: Array, taken: Array
) -> list[Array | None]:
    """Finds a free box for each label, in order: the first come first.

    Args:
        anchors: (n, 2), the points that labels belong to, in pixels.
        sizes: (n, 2), width and height of each label.
        markers: (m, 3), centre and radius of everything a label should rather not cover.
        bounds: left, bottom, right and top of the paper.
        taken: (t, 4), boxes of other texts that are already there.

    Returns:
        For each label its box (4,), or None where no place is free of other labels and lines.
    """
    boxes = taken
    lines = np.zeros((0, 2, 2))
    placed: list[Array | None] = []
    for anchor, size in zip(anchors, sizes, strict=True):
        candidates, distances = _candidates(anchor, size)
        ends = nearest(anchor, candidates)
        own_lines = np.stack([np.broadcast_to(anchor, ends.shape), ends], axis=1)
        free = _inside(candidates, bounds)
        free &= ~_overlap(candidates, boxes)
        free &= ~_meet(own_lines, lines)
        free &= _within(_along(lines), candidates) == 0
        free &= ~_through(own_lines, boxes)
        if not free.any():
            placed.append(None)
            continue
        close = markers[(np.abs(markers[:, :2] - anchor) < _RADII[-1] + size).all(axis=1)]
        covered = _within(close[:, :2], candidates, close[:, 2]) + _touched(own_lines, close)
        cost = distances + _CROWDED * covered
        best = int(np.where(free, cost, np.inf).argmin())
        placed.append(candidates[best])
        boxes = np.vstack([boxes, candidates[best]])
        lines = np.concatenate([lines, own_lines[best : best + 1]])
    return placed


def nearest(anchor: Array, boxes: Array) -> Array:
    """The points of boxes (..., 4) that are nearest to an anchor, (..., 2)."""
    return np.clip(anchor, boxes[..., :2], boxes[..., 2:])


def _candidates(anchor: Array, size: Array) -> tuple[Array, Array]:
    """Boxes around an anchor, (c, 4), and how far each is from it, (c,).

    Boxes to the right and left count as nearer than those above and below.
    """
    angles = np.linspace(0, 2 * np.pi, _ANGLES, endpoint=False)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # The side of the box that faces the point is what is so far away, not its centre.
    to_centre = np.clip(directions * 1.5, -1, 1) * size / 2
    centres = np.concatenate([anchor + radius * directions + to_centre for radius in _RADII])
    boxes = np.concatenate([centres - size / 2, centres + size / 2], axis=1)
    above = np.tile(np.abs(directions[:, 1]), len(_RADII))  # a label beside its point reads best
    return boxes, np.repeat(_RADII, _ANGLES) + 2 * above


def _inside(boxes: Array, bounds: Array) -> NDArray[np.bool_]:
    """Which boxes (c, 4) lie within the bounds (4,)."""
    after = (boxes[:, :2] >= bounds[:2]).all(axis=1)
    before = (boxes[:, 2:] <= bounds[2:]).all(axis=1)
    return np.asarray(after & before)


def _overlap(boxes: Array, others: Array) -> NDArray[np.bool_]:
    """Which boxes (c, 4) meet any of the others (b, 4)."""
    after = boxes[:, None, :2] >= others[None, :, 2:]
    before = boxes[:, None, 2:] <= others[None, :, :2]
    apart = np.any(after | before, axis=2)
    return np.asarray(np.any(~apart, axis=1))


def _within(points: Array, boxes: Array, radii: Array | float = 0.0) -> Array:
    """How many points (..., 2), with their radii, each box (c, 4) covers, (c,)."""
    flat = points.reshape(-1, 2)
    reach = np.broadcast_to(np.asarray(radii, dtype=float), (len(flat),))[None, :, None]
    after = (flat[None] > boxes[:, None, :2] - reach).all(axis=2)
    before = (flat[None] < boxes[:, None, 2:] + reach).all(axis=2)
    return np.asarray((after & before).sum(axis=1), dtype=float)


def _along(segments: Array) -> Array:
    """Points on each segment (s, 2, 2), (s, steps, 2)."""
    return np.asarray(segments[:, None, 0] + _STEPS * (segments[:, 1] - segments[:, 0])[:, None])


def _through(segments: Array, boxes: Array) -> NDArray[np.bool_]:
    """Which segments (c, 2, 2) run through any of the boxes (b, 4)."""
    points = _along(segments)[:, :, None]
    inside = np.all(points > boxes[:, :2], axis=3) & np.all(points < boxes[:, 2:], axis=3)
    return np.asarray(np.any(inside, axis=(1, 2)))


def _touched(segments: Array, markers: Array) -> Array:
    """How many markers (m, 3) each segment (c, 2, 2) touches on its way, (c,).

    All segments start at one marker, which is left out.
    """
    others = markers[np.hypot(*(markers[:, :2] - segments[0, 0]).T) > 0.5]
    along = (segments[:, 1] - segments[:, 0])[:, None]
    from_start = others[None, :, :2] - segments[:, None, 0]
    share = ((from_start * along).sum(axis=2) / np.maximum((along**2).sum(axis=2), 1e-9)).clip(0, 1)
    gaps = from_start - share[..., None] * along
    touched = np.hypot(gaps[..., 0], gaps[..., 1]) < others[:, 2]
    return np.asarray(touched.sum(axis=1), dtype=float)


def _meet(segments: Array, others: Array) -> NDArray[np.bool_]:
    """Which segments (c, 2, 2) cross any of the others (o, 2, 2)."""
    start, end = segments[:, None, 0], segments[:, None, 1]
    first, last = others[None, :, 0], others[None, :, 1]
    others_parted = _turn(start, end, first) * _turn(start, end, last) < 0
    own_parted = _turn(first, last, start) * _turn(first, last, end) < 0
    return np.asarray((others_parted & own_parted).any(axis=1))


def _turn(start: Array, end: Array, point: Array) -> Array:
    """On which side of a line a point lies: the sign of the answer."""
    along, across = end - start, point - start
    return np.asarray(along[..., 0] * across[..., 1] - along[..., 1] * across[..., 0])


# Points on the value-importance plane: markers, limits, a legend, and labels near the points.


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
    weakest_first = find_strongest(points.effects, len(points.effects))[::-1]
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
