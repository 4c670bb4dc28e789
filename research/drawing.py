"""The colours and panels of the claims' figures.

The look itself (fonts, spines, how a file is written) is that of every figure of the package and
is set in ``slalom_xai.reports.figures.canvas``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.errors import optional_package
from slalom_xai.reports.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#2166ac"  # what holds: the mended formula
RED = "#b2182b"  # what does not: the printed formula
GREEN = "#1b7837"
ORANGE = "#e08214"
PURPLE = "#762a83"
NEUTRAL = "#7f7f7f"  # axes, diagonals and what stands for the truth
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, NEUTRAL)  # of curves, one after another


def panels(
    count: int = 1, *, width: float = 3.6, height: float = 2.8, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side.

    Args:
        count: how many panels.
        width: of one panel, in inches.
        height: of the figure, in inches.
        share_y: whether all panels have the same vertical axis.
    """
    optional_package("matplotlib", "drawing a figure")
    return canvas.panels(count, width=width, height=height, share_y=share_y)


def diagonal(axes: Axes, low: float, high: float) -> None:
    """The line on which both coordinates are the same."""
    axes.plot([low, high], [low, high], color=NEUTRAL, linewidth=0.8)
