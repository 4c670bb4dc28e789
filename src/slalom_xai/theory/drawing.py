"""One look for the figures of the reproductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.errors import optional_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREY, GREEN, ORANGE, PURPLE = (
    "#2166ac",
    "#b2182b",
    "#7f7f7f",
    "#1b7837",
    "#e08214",
    "#762a83",
)
STYLE = {
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # text stays text, which keeps files small
}
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, GREY)


def panels(
    count: int = 1, *, width: float = 3.6, height: float = 2.8, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side; ``report.save`` draws and saves it in ``STYLE``."""
    optional_package("matplotlib", "drawing a figure")
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, list(figure.subplots(1, count, squeeze=False, sharey=share_y)[0])
