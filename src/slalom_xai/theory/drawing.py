"""One look for the figures of the reproductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.errors import optional_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREY, GREEN, ORANGE, PURPLE = "#2166ac", "#b2182b", "#7f7f7f", "#1b7837", "#e08214", "#762a83"
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, GREY)


def panels(count: int = 1, *, width: float = 3.6, height: float = 2.8, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side."""
    optional_package("matplotlib", "drawing a figure")
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    FigureCanvasSVG(figure)
    made = list(figure.subplots(1, count, squeeze=False, sharey=share_y)[0])
    for axes in made:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_size(9)
        axes.yaxis.label.set_size(9)
        axes.title.set_size(9)
    return figure, made
