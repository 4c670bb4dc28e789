"""One picture of results: methods on one text beside their forward passes, and growth."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from research.benchmarks.speed.measure import OURS, ratio
from research.benchmarks.speed.tables import Record, latest, median, on_gpu

AXES = {"calls": "calls", "tokens": "tokens", "classes": "classes", "texts": "texts in a list"}
OUR_COLOUR, OTHER_COLOUR, DARK, LIGHT = "#0072b2", "#d9d9d9", "#222222", "#888888"


def draw(records: list[Record], folder: Path) -> Path:
    """Draws ``speed.svg``, of a CPU where there is one among the results.

    Raises:
        SystemExit: the results have nothing to draw.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = [one for one in latest(records) if "failed" not in one]
    bars = [one for one in records if one["part"] == "one" and "forward" in one]
    grown = [one for one in records if one["part"] == "growth"]
    if not bars or not grown:
        raise SystemExit("error: nothing to draw: run the parts one and growth first")
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context({**style, "svg.hashsalt": "speed", "svg.fonttype": "path"}):
        figure = plt.figure(figsize=(11, 4.8), layout="constrained")
        sides: Any = figure.subfigures(1, 2, width_ratios=(1.05, 1))
        left, right = sides
        _bars(left.subplots(), _same_machine(bars))
        panels = right.subplots(2, 2)
        points = _same_machine(grown)
        for panel, axis in zip(panels.flat, AXES, strict=True):
            _growth(panel, [one for one in points if one.get("axis") == axis], axis)
        panels[0, 0].legend(frameon=False, fontsize=8, handlelength=2.6)
        right.suptitle("How time grows", x=0.03, ha="left", weight="bold", fontsize=10)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "speed.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return path


def _same_machine(records: list[Record]) -> list[Record]:
    """Those of one machine and, but for growth, one model and setting."""
    first = min(records, key=on_gpu)
    keys = ("machine",) if first["part"] == "growth" else ("machine", "model", "setting")
    return [one for one in records if all(one[key] == first[key] for key in keys)]


def _bars(panel: Any, records: list[Record]) -> None:
    records = sorted(records, key=median, reverse=True)
    places = range(len(records))
    seconds = [median(one) for one in records]
    forward = [statistics.median(one["forward"]) for one in records]
    ours = [one["method"] in OURS for one in records]
    panel.barh(
        places,
        seconds,
        height=0.66,
        color=[OUR_COLOUR if own else OTHER_COLOUR for own in ours],
        edgecolor=DARK,
        linewidth=0.6,
        hatch=["" if own else "///" for own in ours],
    )
    for place, one, taken in zip(places, records, forward, strict=True):
        panel.plot([taken] * 2, [place - 0.45, place + 0.45], color=DARK, linewidth=2.2)
        panel.annotate(
            f"{median(one):.2g} s, {ratio(one['seconds'], one['forward']):.2g}×",
            (max(median(one), taken), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    panel.set_yticks(places, [one["method"] for one in records])
    for label, own in zip(panel.get_yticklabels(), ours, strict=True):
        label.set_weight("bold" if own else "normal")
    panel.set_xlim(0, 1.2 * max(*seconds, *forward))
    panel.set_xlabel("seconds, and how many times the forward passes alone (black line)")
    first = records[0]
    title = f"One text of {first['setting']}, {first['budget']} calls, {first['model']} model"
    panel.set_title(title, loc="left", weight="bold", fontsize=10)


def _growth(panel: Any, records: list[Record], axis: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    records = sorted(records, key=lambda one: int(one["at"]))
    at = [one["at"] for one in records]
    seconds = [median(one) for one in records]
    forward = [statistics.median(one["forward"]) for one in records]
    panel.loglog(at, seconds, "o-", color=OUR_COLOUR, markersize=4, label="slalom")
    panel.loglog(at, forward, "s--", color=DARK, markersize=3.5, label="its forward passes")
    if records:
        slope = [seconds[0] * one / at[0] for one in at]
        panel.loglog(at, slope, ":", color=LIGHT, linewidth=1.2, label="in proportion")
        panel.set_xticks(at)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    panel.yaxis.set_minor_formatter(NullFormatter())
    for ticks in (panel.xaxis, panel.yaxis):
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.grid(visible=True, alpha=0.25)
    panel.set_xlabel(AXES[axis])
    panel.set_ylabel("seconds")
