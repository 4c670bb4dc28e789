"""Figure 7: Kernel SHAP's value of a repeated word.

In a sum each copy keeps its weight; in a transformer the copies share one answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, NEUTRAL, panels
from research.paper.language import (
    HOURS,
    STUDY,
    STYLES,
    WEIGHT,
    kinds_of,
    standard_error,
    study,
    unlearnt,
)
from research.paper.language_models import NET, REPLACEMENT, WORD

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@reproduction(
    name="fig-7",
    title="Kernel SHAP gives each copy of a word its weight in a net, and a share in a transformer",
    source=f"{PAPER}, Figure 7",
    study=STUDY,
    hours=HOURS,
)
def fig_7(settings: Settings) -> Outcome:
    """Kernel SHAP for 1 to 10 copies of a word whose weight is 1.5."""
    return outcome(study(settings))


def outcome(models: pd.DataFrame) -> Outcome:
    """What Kernel SHAP says of the study's models; see ``language.study``."""
    curves, rows = {}, []
    for name, kind, group in kinds_of(models):
        values = np.array(group["shap"].tolist())  # (runs, 10)
        curves[name] = values
        rows.append({"model": name, "kind": kind, **_numbers(kind, values)})
    table = pd.DataFrame(rows)
    nets = table.loc[table["kind"] == NET, "ours"]
    transformers = table.loc[table["kind"] != NET, "ours"]
    return Outcome(
        checks=(
            at_least("nets: value of 10 copies over that of 2, smallest", nets.min(), 0.7),
            at_most(
                "transformers: value of 10 copies over that of 2, largest",
                transformers.max(),
                0.5,
            ),
        ),
        tables={"shares": table.drop(columns="kind")},
        figures={"shares": lambda: _draw(curves)},
        remarks=(
            f'Kernel SHAP\'s value of a copy of "{WORD}", mean over the copies; a removed copy is '
            f'replaced by "{REPLACEMENT}". A value that stays gives a ratio of 1, a shared answer '
            "one of 2/10. The paper shows curves.",
            *unlearnt(models),
        ),
        finding=(
            f"From 2 copies to 10, a copy keeps {100 * nets.min():.0f} to {100 * nets.max():.0f}% "
            f"of its value in the nets and {100 * transformers.min():.0f} to "
            f"{100 * transformers.max():.0f}% in the transformers."
        ),
    )


def _numbers(kind: str, values: np.ndarray) -> dict[str, object]:
    ratios = (values[:, 9] / values[:, 1]).tolist()
    return {
        "paper": "about 1" if kind == NET else "about 0.2",
        "ours": float(np.mean(ratios)),
        "s.e.": standard_error(ratios),
        "runs": len(ratios),
        "value of 1 copy": float(values[:, 0].mean()),
        "of 2 copies": float(values[:, 1].mean()),
        "of 10 copies": float(values[:, 9].mean()),
    }


def _draw(curves: dict[str, np.ndarray]) -> Figure:
    figure, (axes,) = panels(1, width=4.8)
    for index, (name, values) in enumerate(curves.items()):
        colour, style = COLOURS[index % 5], STYLES[index // 5 % len(STYLES)]
        copies = np.arange(1, values.shape[1] + 1)
        axes.plot(copies, values.mean(axis=0), style, color=colour, label=name)
    axes.axhline(WEIGHT, color=NEUTRAL, linestyle=":")
    axes.set(xlabel=f'copies of "{WORD}"', ylabel="Kernel SHAP of a copy")
    axes.set_ylim(0, 1.6 * axes.get_ylim()[1])  # room for the names
    axes.legend(fontsize="xx-small", ncols=2)
    return figure
