"""Figure 3: log odds of a repeated word. A sum rises with each copy; transformers hardly do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, NEUTRAL, panels
from research.paper.language import (
    FAMILIES,
    HOURS,
    STUDY,
    STYLES,
    WEIGHT,
    kinds_of,
    standard_error,
    study,
    unlearnt,
)
from research.paper.language_models import NET, WORD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SLOPE, _RANGE, _LINE = "slope over 1 to 20 copies", "range over 2 to 20 copies", "R² of a line"


@reproduction(
    name="fig-3",
    title="Fully connected nets learn that log odds add up over repeats; transformers do not",
    source=f"{PAPER}, Figure 3",
    study=STUDY,
    hours=HOURS,
)
def fig_3(settings: Settings) -> Outcome:
    """Log odds for 1 to 20 copies of a word whose weight is 1.5."""
    return outcome(study(settings))


def outcome(models: pd.DataFrame) -> Outcome:
    """What the study's models say to repeats; see ``language.study``."""
    curves = {}
    rows = []
    for name, kind, group in kinds_of(models):
        repeats = np.array(group["repeats"].tolist())  # (runs, 20)
        curves[name] = repeats
        rows.append({"model": name, "kind": kind, **_numbers(kind, repeats)})
    table = pd.DataFrame(rows)
    nets, transformers = table[table["kind"] == NET], table[table["kind"] != NET]
    wrong = (nets["ours"] / WEIGHT - 1).abs()
    flat = transformers["ours"]
    return Outcome(
        checks=(
            at_most("nets: slope against 1.5, largest relative difference", wrong.max(), 0.3),
            at_least("nets: R² of a line through the curve, smallest", nets[_LINE].min(), 0.98),
            at_most("transformers: range over 2 to 20 copies, largest", flat.max(), 1.0),
        ),
        tables={"repeats": table.drop(columns=["kind", _LINE])},
        figures={"repeats": lambda: _draw(curves)},
        remarks=(
            f'Log odds for "{WORD}" repeated; mean over runs. The paper shows curves: nets along '
            "1.5 per copy, transformers level.",
            *unlearnt(models),
        ),
        finding=_finding(nets["ours"], flat),
    )


def _numbers(kind: str, repeats: np.ndarray) -> dict[str, object]:
    """What is compared with the figure: the slope of a net, the range of a transformer."""
    copies = np.arange(1, repeats.shape[1] + 1)
    if kind == NET:
        slopes = [float(np.polyfit(copies, run, 1)[0]) for run in repeats]
        fits = [float(np.corrcoef(copies, run)[0, 1] ** 2) for run in repeats]
        return {
            "quantity": _SLOPE,
            "paper": "about 1.5",
            "ours": float(np.mean(slopes)),
            "s.e.": standard_error(slopes),
            "runs": len(slopes),
            _LINE: min(fits),
        }
    ranges = [float(np.ptp(run[1:])) for run in repeats]
    return {
        "quantity": _RANGE,
        "paper": "level",
        "ours": float(np.mean(ranges)),
        "s.e.": standard_error(ranges),
        "runs": len(ranges),
        _LINE: float("nan"),
    }


def _finding(slopes: pd.Series[float], ranges: pd.Series[float]) -> str:
    return (
        f"The nets rise by {slopes.min():.2f} to {slopes.max():.2f} per copy; "
        f"the transformers move by {ranges.min():.2f} to {ranges.max():.2f} over 19 more copies."
    )


def _draw(curves: dict[str, np.ndarray]) -> Figure:
    """A panel for the nets and one for the transformers: means over runs."""
    groups = [[name for name in curves if _is_net(name) == net] for net in (True, False)]
    figure, made = panels(2)
    for axes, names in zip(made, groups, strict=True):
        for index, name in enumerate(names):
            colour, style = COLOURS[index % 5], STYLES[index // 5 % len(STYLES)]
            copies = np.arange(1, curves[name].shape[1] + 1)
            axes.plot(copies, curves[name].mean(axis=0), style, color=colour, label=name)
        axes.plot(copies, WEIGHT * copies, ":", color=NEUTRAL, label="1.5 per copy")
        axes.set(xlabel=f'copies of "{WORD}"', ylabel="log odds")
        axes.legend(fontsize="xx-small")
    made[1].set_ylim(-1, 12)
    return figure


def _is_net(name: str) -> bool:
    return not name.startswith(tuple(FAMILIES.values()))
