"""The results of a benchmark as figures."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd

from slalom_xai.bench.tables import summary_table
from slalom_xai.system.files import write_file

BEST, REST = "#2166ac", "#9db8d2"


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """One bar chart for the first number of each metric, as SVG; returns the files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for metric, rows in frame.groupby("metric", sort=False):
        number = rows["number"].iloc[0]
        table = summary_table(frame, str(metric), str(number)).dropna(subset=["mean"])
        if table.empty:
            continue
        figure = Figure(figsize=(6.4, 0.6 + 0.34 * len(table)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        spread = np.abs(table[["low", "high"]].to_numpy().T - table["mean"].to_numpy())
        colours = [BEST if best else REST for best in table["best"]]
        axes.barh(
            table["method"],
            table["mean"],
            xerr=np.nan_to_num(spread),
            color=colours,
            error_kw={"elinewidth": 1, "capsize": 2},
        )
        axes.invert_yaxis()
        better = rows["direction"].iloc[0]
        axes.set_xlabel(f"{metric}: {number}" + (f" ({better} is better)" if better else ""))
        axes.spines[["top", "right"]].set_visible(False)
        made.append(folder / f"{metric}.svg")
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg")
        write_file(made[-1], drawn.getvalue())
    return made
