"""The results of a benchmark as figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from slalom_xai.bench.results import summary_table
from slalom_xai.reports.figures.canvas import look, new_figure, save
from slalom_xai.system.writable import make_folder

BEST, REST = "#2166ac", "#9db8d2"  # colours of the best method and of the others
_WIDTH = 6.4  # of a figure, in inches
_FRAME = 0.6  # what the axis and its label take of the height, in inches
_BAR = 0.34  # what each bar adds to the height, in inches


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """One bar chart for the first number of each metric, as SVG; returns the files.

    Args:
        frame: results as ``tidy`` gives them.
        folder: where to save; created where it is missing.

    Raises:
        InputError: matplotlib is not installed, or a file cannot be written.
    """
    make_folder("--out", folder)
    files = []
    for metric, rows in frame.groupby("metric", sort=False):
        number = str(rows["number"].iloc[0])
        table = summary_table(frame, str(metric), number).dropna(subset=["mean"])
        if table.empty:
            continue
        title = f"{metric}: {number}"
        direction = rows["direction"].iloc[0]
        if direction:
            title += f" ({direction} is better)"
        path = folder / f"{metric}.svg"
        _bar_chart(table, title, path)
        files.append(path)
    return files


def _bar_chart(table: pd.DataFrame, title: str, path: Path) -> None:
    """Draws a bar with its interval for each method.

    Args:
        table: as ``summary_table`` gives it, with a mean in each row.
        title: what the bars show.
        path: where to save.
    """
    means = table["mean"].to_numpy()
    ends = table[["low", "high"]].to_numpy().T  # (2, methods)
    colours = []
    for is_best in table["best"]:
        colours.append(BEST if is_best else REST)
    with look(table["method"]):
        figure = new_figure(title, _WIDTH, _FRAME + _BAR * len(table))
        axes = figure.add_subplot()
        axes.barh(
            table["method"],
            means,
            xerr=np.nan_to_num(np.abs(ends - means)),
            color=colours,
            error_kw={"elinewidth": 1, "capsize": 2},
        )
        axes.invert_yaxis()
        axes.set_xlabel(title)
        save(figure, path)
