"""Growth, drawn on logarithmic axes beside the floor.

Time and memory are shown against calls, length, classes and texts.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

Record = dict[str, Any]
AXIS_LABELS = {
    "calls": "model calls",
    "tokens": "tokens in the text",
    "classes": "classes",
    "texts": "texts",
}
# Colours that are apart for colour-blind readers, too.
TIME_COLOUR, FLOOR_COLOUR, MEMORY_COLOUR = "#0072b2", "#999999", "#d55e00"


def plots(records: list[Record], folder: Path) -> list[Path]:
    """One SVG for each machine that growth was measured on.

    Raises:
        SystemExit: no growth among the results.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "speed"  # the same file from the same results
    grown = [one for one in records if one["part"] == "growth" and one.get("seconds")]
    if not grown:
        raise SystemExit("error: no growth among these results: run --part growth first")
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _draw([one for one in grown if one["machine"] == machine], folder, machine)
        for machine in dict.fromkeys(one["machine"] for one in grown)
    ]


def _draw(records: list[Record], folder: Path, machine: str) -> Path:
    import matplotlib.pyplot as plt

    axes = [axis for axis in AXIS_LABELS if any(one["axis"] == axis for one in records)]
    rows = 1
    if any(one.get("memory") for one in records):
        rows = 2
    figure, panels = plt.subplots(
        rows,
        len(axes),
        figsize=(3.2 * len(axes), 2.8 * rows),
        sharex="col",
        squeeze=False,
        layout="constrained",
    )
    for index, axis in enumerate(axes):
        latest = {(one["method"], one["at"]): one for one in records if one["axis"] == axis}
        for method in dict.fromkeys(name for name, _ in latest):
            points = [latest[key] for key in sorted(latest) if key[0] == method]
            _time(panels[0][index], points, method)
            if rows == 2:
                _memory(panels[1][index], points, method)
        for panel in panels[:, index]:
            _ticks(panel, sorted({at for _, at in latest}))
        panels[-1][index].set_xlabel(AXIS_LABELS[axis])
        panels[0][index].set_title(_held(points), fontsize=8)
    panels[0][0].set_ylabel("seconds")
    if rows == 2:
        panels[1][0].set_ylabel("MiB beyond the model")
    panels[0][0].legend(fontsize=8)
    gpu = "threads" not in machine
    path = folder / f"speed-growth-{'gpu' if gpu else 'cpu'}.svg"
    figure.suptitle(machine, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def _ticks(panel: Any, at: list[int]) -> None:
    """Plain numbers: every measured place, or every other where there are many."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    panel.set_xscale("log")
    panel.set_yscale("log")
    shown = at
    if len(at) >= 6:
        shown = at[::2]
    panel.set_xticks(shown, minor=False)
    panel.xaxis.set_minor_locator(NullLocator())
    low, high = panel.get_ylim()
    panel.set_ylim(min(low, high / 10), high)  # at least a decade, so that flat looks flat
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    panel.yaxis.set_minor_formatter(NullFormatter())
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _time(panel: Any, points: list[Record], method: str) -> None:
    at = [one["at"] for one in points]
    panel.loglog(
        at,
        [statistics.median(one["floor"]) for one in points],
        "s--",
        color=FLOOR_COLOUR,
        label="forward passes alone",
        markersize=4,
    )
    panel.loglog(
        at,
        [statistics.median(one["seconds"]) for one in points],
        "o-",
        color=TIME_COLOUR,
        label=method,
        markersize=4,
    )
    panel.grid(visible=True, alpha=0.3)


def _memory(panel: Any, points: list[Record], method: str) -> None:
    known = [one for one in points if one.get("memory")]
    if known:
        panel.loglog(
            [one["at"] for one in known],
            [one["memory"] for one in known],
            "o-",
            color=MEMORY_COLOUR,
            label=method,
            markersize=4,
        )
    panel.grid(visible=True, alpha=0.3)


def _held(points: list[Record]) -> str:
    """What stays the same along a curve."""
    one = points[0]
    rest = [f"{one[axis]} {axis}" for axis in ("calls", "tokens", "classes") if axis != one["axis"]]
    return f"{one['model']}: {', '.join(rest)}"
