"""Figures 4c-d and 8: the SLALOM that a language is, and what is found again of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, reproduction
from research.drawing import BLUE, NEUTRAL, diagonal, panels
from research.paper.language import FAMILIES, regular, standard_error, unlearnt
from research.paper.slalom_language import STUDY, main_models, study
from research.paper.table_12 import REVIEWS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_QUANTITIES = ("values", "importances", "log odds")


@reproduction(
    name="fig-8",
    title="Values and importances of a SLALOM are found again in transformers that learnt it",
    source=f"{PAPER}, Figures 4c, 4d and 8",
    study=STUDY,
    hours=60,
    data=(REVIEWS,),
)
def fig_8(settings: Settings) -> Outcome:
    """Fitted against true values and importances, word by word."""
    return outcome(study(settings, REVIEWS, "fig-8"))


def outcome(models: pd.DataFrame) -> Outcome:
    """Correlations and scatter plots; see ``slalom_language.measured``."""
    main = main_models(regular(models))
    table = _correlations(main)
    wide = table.pivot(index="model", columns="quantity", values="ours")
    return Outcome(
        checks=tuple(
            at_least(
                f"{quantity}: correlation of fitted and true, smallest", wide[quantity].min(), 0.9
            )
            for quantity in _QUANTITIES
        ),
        tables={"correlations": table},
        figures={"scores": lambda: _draw_scores(main), "log-odds": lambda: _draw_log_odds(main)},
        remarks=(
            "Pearson's correlations over words, and over fresh rows of up to 8 words: log odds of "
            "the fitted SLALOM with those of the language. The paper draws them and prints none. "
            "tables-7-8 has the errors.",
            *unlearnt(models),
        ),
        finding=(
            "Fitted and true values correlate by "
            f"{wide['values'].min():.2f} to {wide['values'].max():.2f}, importances by "
            f"{wide['importances'].min():.2f} to {wide['importances'].max():.2f}, log odds by "
            f"{wide['log odds'].min():.2f} to {wide['log odds'].max():.2f}."
        ),
    )


def _correlations(models: pd.DataFrame) -> pd.DataFrame:
    """One row per model and quantity."""
    rows = []
    for (kind, depth), group in models.groupby(["kind", "depth"], sort=False):
        for quantity in _QUANTITIES:
            found = [_correlation(row, quantity) for _, row in group.iterrows()]
            rows.append(
                {
                    "model": f"{FAMILIES[str(kind)]}, layers: {depth}",
                    "quantity": quantity,
                    "paper": float("nan"),
                    "ours": sum(found) / len(found),
                    "s.e.": standard_error(found),
                    "runs": len(found),
                }
            )
    return pd.DataFrame(rows)


def _correlation(model: pd.Series, quantity: str) -> float:
    if quantity == "log odds":
        both = model["log odds"]["language"], model["log odds"]["SLALOM"]
    else:
        both = model["true"][quantity], model["fitted"][quantity]
    return float(np.corrcoef(*both)[0, 1])


def _draw_scores(models: pd.DataFrame) -> Figure:
    """Value against importance, true and fitted, of the first run of each model."""
    first = models[models["run"] == models["run"].min()]
    figure, made = panels(len(first), width=2.4, share_y=True)
    for axes, row in zip(made, first.to_dict("records"), strict=True):
        for name, colour, marker in (("true", NEUTRAL, "o"), ("fitted", BLUE, ".")):
            part = row[name]
            axes.plot(part["values"], part["importances"], marker, color=colour, label=name, ms=4)
        axes.set(xlabel="value")
        axes.set_title(f"{FAMILIES[row['kind']]}, layers: {row['depth']}", fontsize="x-small")
    made[0].set_ylabel("importance")
    made[0].legend(fontsize="xx-small")
    return figure


def _draw_log_odds(models: pd.DataFrame) -> Figure:
    """Log odds of the fitted SLALOM against the language's, of the first run of each model."""
    first = models[models["run"] == models["run"].min()]
    figure, made = panels(len(first), width=2.4, share_y=True)
    for axes, row in zip(made, first.to_dict("records"), strict=True):
        truth, fitted = row["log odds"]["language"], row["log odds"]["SLALOM"]
        diagonal(axes, min(truth), max(truth))
        axes.plot(truth, fitted, ".", color=BLUE, markersize=3)
        axes.set(xlabel="the language")
        axes.set_title(f"{FAMILIES[row['kind']]}, layers: {row['depth']}", fontsize="x-small")
    made[0].set_ylabel("log odds, fitted SLALOM")
    return figure
