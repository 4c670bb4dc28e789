"""Explanations with known scores, and what a reader finds in a figure."""

from __future__ import annotations

import numpy as np
import torch

from slalom_xai.explanation import Explanation
from slalom_xai.outputs import Outputs
from slalom_xai.surrogates.additive import AdditiveSurrogate
from slalom_xai.surrogates.formula import SlalomSurrogate
from slalom_xai.text import Unit, words


def explained(
    text="good bad film",
    values=None,
    importances=None,
    *,
    units=None,
    sink=True,
    errors=0.1,
    method="slalom",
    classes=1,
):
    """A SLALOM over the words of a text, or over the units given as (start, end)."""
    found = (
        words(text)
        if units is None
        else tuple(Unit(text[start:end], start, end) for start, end in units)
    )
    count = len(found)
    rng = np.random.default_rng(count)
    columns = torch.tensor(
        np.array(rng.normal(size=count) if values is None else values, dtype=float)
    ).reshape(1, count, 1)
    columns = columns * torch.linspace(1, -1, classes) if classes > 1 else columns
    weights = torch.tensor(
        np.array(rng.normal(size=count) if importances is None else importances, dtype=float)
    ).reshape(1, count)
    if method == "slalom":
        extra = (
            (
                torch.full((1, classes), 0.25, dtype=torch.float64),
                torch.zeros(1, dtype=torch.float64),
            )
            if sink
            else (None, None)
        )
        function = SlalomSurrogate(columns.double(), weights - weights.mean(), *extra)
    else:
        function = AdditiveSurrogate(columns[0].double(), torch.zeros(classes, dtype=torch.float64))
    names = (
        ("value", "importance", "removal", "shapley")
        if method == "slalom"
        else ("value", "removal", "shapley")
    )
    labels = ("no", "yes") if classes == 1 else tuple(f"class {index}" for index in range(classes))
    return Explanation(
        text=text,
        units=found,
        method=method,
        model="planted",
        granularity="token",
        removal="delete",
        outputs=Outputs("binary" if classes == 1 else "multiclass", labels),
        target_index=1,
        full=(0.5,) * classes,
        function=function,
        column_errors=({name: errors * (1.0 + np.arange(count)) for name in names},) * classes,
        column_fidelity=None,
        calls_fit=10,
        calls_check=0,
    )


def texts(figure, gid=""):
    """All texts of a figure whose id starts with ``gid``, in drawing order."""
    from matplotlib.text import Text

    return [
        text
        for text in figure.findobj(Text)
        if text.get_text() and str(text.get_gid() or "").startswith(gid)
    ]


def boxes(figure, gid):
    """Where those texts are, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # puts labels beside their points
    return [
        Text.get_window_extent(text, renderer).extents for text in texts(figure, gid)
    ]  # without the line to its point


def overlap_share(found):
    """The largest share of any box that another one covers."""
    worst = 0.0
    for place, (left, bottom, right, top) in enumerate(found):
        for other in found[place + 1 :]:
            width, height = (
                min(right, other[2]) - max(left, other[0]),
                min(top, other[3]) - max(bottom, other[1]),
            )
            if width > 0 and height > 0:
                areas = (
                    (right - left) * (top - bottom),
                    (other[2] - other[0]) * (other[3] - other[1]),
                )
                worst = max(worst, width * height / min(areas))
    return worst
