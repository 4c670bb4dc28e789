"""The fidelity curve: how wrong an explanation's predictions are as more of the text is removed.

``metrics.fidelity.deletion_errors`` calls the model and computes the numbers; here they are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slalom_xai.errors import InputError
from slalom_xai.explanation import Array
from slalom_xai.reports.figures.canvas import GRID, WIDTH, look, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Line(NamedTuple):
    """How a curve is drawn: it is known by any of the three."""

    colour: str
    marker: str
    dashes: Any


# Colours of Okabe and Ito, and others that the colour-blind can tell from them.
_LINES = (
    _Line("#2166ac", "o", "-"),
    _Line("#c95c0f", "s", "--"),
    _Line("#1a1a1a", "^", "-."),
    _Line("#009e73", "D", ":"),
    _Line("#cc79a7", "v", (0, (6, 2))),
    _Line("#56b4e9", "P", (0, (4, 1, 1, 1, 1, 1))),
    _Line("#8a6d00", "X", (0, (1, 1))),
    _Line("#7a7a7a", "*", (0, (8, 2, 2, 2))),
)


@dataclass(frozen=True)
class Curve:
    """Errors of one method.

    Attributes:
        name: of the method.
        deleted: (k,), how many units were removed.
        mse: (k,), mean squared error of the predicted changes.
        standard_errors: (k,), of ``mse``; NaN where there was one perturbed text.
        rows: (k,), how many perturbed texts.
    """

    name: str
    deleted: Array
    mse: Array
    standard_errors: Array
    rows: Array


def fidelity_curve(curves: Sequence[Curve], *, width: float = WIDTH, height: float = 3.4) -> Figure:
    """Mean squared error of predicted changes against the number of removed units.

    Lower is better. Bars are one standard error over the perturbed texts. The error has a log scale
    unless one of them is 0.

    Args:
        curves: from ``deletion_errors``.
        width: of the figure in inches.
        height: of the figure in inches.
    """
    if not curves:
        raise InputError("there is nothing to draw: give at least one curve")
    with look([curve.name for curve in curves]):
        figure = new_figure("Fidelity by number of removed units", width, height)
        axes = figure.add_subplot()
        for index, curve in enumerate(curves):
            # A little apart, so that error bars do not hide each other.
            _draw(axes, curve, _LINES[index % len(_LINES)], index - (len(curves) - 1) / 2)
        if all((curve.mse > 0).all() for curve in curves):
            _log_scale(axes, curves)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("units removed")
        axes.set_ylabel("mean squared error\nof the predicted change")
        axes.grid(axis="y", which="major", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        legend = axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _draw(axes: Axes, curve: Curve, line: _Line, shift: float) -> None:
    """One curve with its error bars, moved aside by so many times the distance of two curves."""
    axes.errorbar(
        curve.deleted + 0.07 * shift,
        curve.mse,
        yerr=np.nan_to_num(curve.standard_errors),
        label=curve.name,
        color=line.colour,
        marker=line.marker,
        linestyle=line.dashes,
        markersize=4.5,
        linewidth=1.3,
        elinewidth=0.7,
        capsize=1.8,
    )


def _log_scale(axes: Axes, curves: Sequence[Curve]) -> None:
    """A log axis with plain numbers; 2 and 5 are marked as well where there are few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    errors = np.concatenate([curve.mse for curve in curves])
    marked: tuple[int, ...] = (1,)
    if errors.max() < 100 * errors.min():
        marked = (1, 2, 5)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=marked))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
