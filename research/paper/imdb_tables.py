"""What the tables on IMDB reviews share: means over reviews beside what is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import Check, at_least
from research.drawing import BLUE, NEUTRAL, panels
from research.paper.imdb import Found
from research.paper.imdb_methods import FIDEL_ALTERNATING, WAYS
from research.paper.language import standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Printed = Mapping[tuple[str, str], Sequence[float]]  # by method and score: BERT, DistilBERT, GPT-2
MODELS = ("BERT type", "DistilBERT type", "GPT-2 type")  # in the order of ``Printed``
WHICH = (
    "Rows with the mark × are run as the paper's authors run them: LIME explains probabilities, "
    "gradients are those of the predicted class's logit (summed over the embedding), and Kernel "
    "SHAP puts [UNK] in the place of words. The other rows explain log odds and delete words. The "
    "paper's number stands in both. `slalom` and `linear` are not in the paper. Where a linear fit "
    "predicts deletions better, `slalom` gives that one, which has no importances. `slalom-fidel` "
    "is fitted by our solver."
)
_SOLVER = (
    f"`{FIDEL_ALTERNATING}` is fitted as in the paper, by alternating least squares, which goes on "
    "while a round brings anything; the authors' code stops after one."
)


def means(
    found: pd.DataFrame, number: str, printed: Printed, models: Sequence[str] = MODELS
) -> pd.DataFrame:
    """Means over reviews, one row per model, method and score.

    Args:
        found: see ``imdb.table_of``.
        number: the column.
        printed: the paper's numbers.
        models: the order of ``printed``.
    """
    rows = []
    for (model, method, score), group in found.groupby(["model", "method", "score"], sort=False):
        values = group[number].dropna().tolist()
        rows.append(
            {
                "model": model,
                "method": method,
                "as the authors": "×" if WAYS[str(method)].authors else "",
                "score": score,
                "paper": _paper(printed, models, str(model), str(method), str(score)),
                "ours": sum(values) / len(values) if values else float("nan"),
                "s.e.": standard_error(values),
                "texts": len(values),
            }
        )
    return pd.DataFrame(rows)


def _paper(printed: Printed, models: Sequence[str], model: str, method: str, score: str) -> float:
    """The printed number; a method is also found by the name before its comma."""
    for name in (method, method.partition(",")[0]):
        numbers = dict(zip(models, printed.get((name, score), ()), strict=False))
        if model in numbers:
            return numbers[model]
    return float("nan")


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table for readers, who know the only score of an additive method by no name."""
    only = np.array([len(WAYS[method].scores) == 1 for method in table["method"]], dtype=bool)
    return table.assign(score=table["score"].mask(only, "the only one"))


def pick(table: pd.DataFrame, method: str, score: str = "shapley") -> pd.Series[float]:
    """Our means of one method and score, by model."""
    rows = table[(table["method"] == method) & (table["score"] == score)]
    return rows.set_index("model")["ours"]


def ahead(statement: str, better: pd.Series[float], other: pd.Series[float], slack: float) -> Check:
    """Whether one is above another for every model, or below by the slack at most."""
    return at_least(f"{statement}, smallest lead", (better - other).min(), 0.0 - slack)


def solver(found: Found) -> tuple[str, ...]:
    """What the paper's solver is, if any review was explained with it."""
    cells = [cell for spec in found.models for cell in found.rows[spec.key].values()]
    return (_SOLVER,) if any(FIDEL_ALTERNATING in cell for cell in cells) else ()


def failures(found: Found) -> tuple[str, ...]:
    """A sentence for each model and method without numbers, with the first reason."""
    told = []
    for spec in found.models:
        for method in WAYS:
            cells = [cell for cell in found.rows[spec.key].values() if method in cell]
            without = [cell[method]["reason"] for cell in cells if "reason" in cell[method]]
            if without:
                told.append(
                    f"{method} has no numbers for {len(without)} of {len(cells)} reviews of the "
                    f"{spec.name}: {without[0]}."
                )
    return tuple(told)


def draw(table: pd.DataFrame, what: str) -> Figure:
    """A panel for each model: ours as bars, the paper's as crosses."""
    models = list(dict.fromkeys(table["model"]))
    figure, made = panels(len(models), width=3.6, height=4.6, share_y=True)
    for axes, model in zip(made, models, strict=True):
        part = table[table["model"] == model]
        names = [_name(str(row.method), str(row.score)) for row in part.itertuples()]
        axes.barh(names, part["ours"], xerr=part["s.e."].fillna(0), color=BLUE, label="ours")
        axes.scatter(part["paper"], names, color=NEUTRAL, marker="x", zorder=3, label="paper")
        axes.set(title=model, xlabel=what)
        axes.tick_params(axis="y", labelsize="xx-small")
    made[0].invert_yaxis()
    made[-1].legend(fontsize="xx-small", loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _name(method: str, score: str) -> str:
    return method if len(WAYS[method].scores) == 1 else f"{method}: {score}"
