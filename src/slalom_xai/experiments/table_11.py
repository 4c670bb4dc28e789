"""Tables 11b and 11c: AOPC of explanations of Yelp reviews."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from slalom_xai.experiments.base import PAPER, experiment
from slalom_xai.experiments.language import standard_error
from slalom_xai.experiments.review_methods import (
    EFF,
    FIDEL,
    GRADIENT_PRINTED,
    IG_PRINTED,
    LIME_PRINTED,
    LINEARIZED,
    LRP_PRINTED,
    OURS,
    SETUP,
    SHAP_PRINTED,
    VALUE,
)
from slalom_xai.experiments.yelp import (
    BERT,
    CLASSICAL,
    DATA,
    DISTILBERT,
    GPT2,
    HOURS,
    STUDY,
    Found,
    study,
)
from slalom_xai.surrogates.scores import DEFAULT_SCORE
from slalom_xai.theory.base import Check, Outcome, Settings, at_least
from slalom_xai.theory.drawing import BLUE, NEUTRAL, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = {"insertion": -1, "deletion": 1}  # which direction is better
Score = tuple[str, str]  # a method and its score
Means = dict[Score, float]
_COLUMNS: tuple[Score, ...] = (
    (FIDEL.name, VALUE),
    (FIDEL.name, LINEARIZED),
    (EFF.name, VALUE),
    (EFF.name, LINEARIZED),
    (LIME_PRINTED.name, DEFAULT_SCORE),
    (SHAP_PRINTED.name, DEFAULT_SCORE),
    (IG_PRINTED.name, DEFAULT_SCORE),
    (GRADIENT_PRINTED.name, DEFAULT_SCORE),
    (LRP_PRINTED.name, DEFAULT_SCORE),
)
# As printed, by number and model, in the order of the columns.
_PRINTED = {
    ("insertion", BERT): (0.015, 0.011, 0.011, 0.011, 0.017, 0.012, 0.224, 0.214, 0.010),
    ("insertion", DISTILBERT): (0.018, 0.019, 0.032, 0.032, 0.014, 0.020, 0.250, 0.249, 0.017),
    ("insertion", GPT2): (0.033, 0.032, 0.045, 0.045, 0.129, 0.021, 0.251, 0.244, 0.039),
    ("deletion", BERT): (0.657, 0.667, 0.865, 0.863, 0.797, 0.859, 0.249, 0.281, 0.855),
    ("deletion", DISTILBERT): (0.645, 0.642, 0.813, 0.813, 0.746, 0.854, 0.201, 0.243, 0.768),
    ("deletion", GPT2): (0.747, 0.753, 0.726, 0.727, 0.444, 0.849, 0.292, 0.290, 0.740),
}
_LIN: Score = (EFF.name, LINEARIZED)
_LIME: Score = (LIME_PRINTED.name, DEFAULT_SCORE)
_SHAP: Score = (SHAP_PRINTED.name, DEFAULT_SCORE)
_OURS: Score = (OURS.name, DEFAULT_SCORE)
_GRADIENTS: tuple[Score, ...] = (
    (IG_PRINTED.name, DEFAULT_SCORE),
    (GRADIENT_PRINTED.name, DEFAULT_SCORE),
)
_BEHIND = -0.02  # how far ours may stay behind the best other score


@experiment(
    name="table-11",
    title="Linearized SLALOM scores rank the tokens of Yelp reviews as LIME and SHAP do",
    source=f"{PAPER}, Tables 11b and 11c",
    study=STUDY,
    hours=HOURS / 4,
    data=DATA,
)
def table_11(settings: Settings) -> Outcome:
    """Insertion and deletion of every method."""
    return outcome(study(settings, "table-11"))


def outcome(found: Found) -> Outcome:
    """Means over the reviews with curves; see ``yelp.study``."""
    table = _means(found)
    means = {number: _over_models(table, number) for number in NUMBERS}
    return Outcome(
        checks=tuple(check for number in NUMBERS for check in _checks(number, means[number])),
        tables={"aopc": table},
        figures={"aopc": lambda: _draw(table)},
        remarks=(
            "`aopc` of the true label, every five tokens; insertion is better when lower, "
            "deletion when higher. The reviews are those of Yelp-HAT; the paper's are others. "
            "Checks are about means over models, in which better is higher for both numbers.",
            SETUP,
            *found.remarks,
        ),
        finding=_finding(means),
    )


def _means(found: Found) -> pd.DataFrame:
    """One row per number, model, method and score, with the printed number if there is one."""
    scores = found.scores[found.scores["model"].isin(CLASSICAL)]
    rows = []
    for number in NUMBERS:
        for keys, group in scores.groupby(["model", "method", "score"], sort=False):
            model, method, score = map(str, keys)
            values = group[number].dropna().tolist()
            printed = dict(zip(_COLUMNS, _PRINTED.get((number, model), ()), strict=False))
            rows.append(
                {
                    "number": number,
                    "model": model,
                    "method": method,
                    "score": score,
                    "paper": printed.get((method, score), math.nan),
                    "ours": sum(values) / len(values) if values else math.nan,
                    "s.e.": standard_error(values),
                    "reviews": len(values),
                }
            )
    return pd.DataFrame(rows)


def _over_models(table: pd.DataFrame, number: str) -> Means:
    """The mean of each score over models; NaN for one that some model does not have."""
    models = table["model"].nunique()
    found: dict[Score, list[float]] = {}
    for row in table[table["number"] == number].to_dict("records"):
        found.setdefault((row["method"], row["score"]), []).append(row["ours"])
    return {
        one: sum(values) / len(values) if len(values) == models else math.nan
        for one, values in found.items()
    }


def _checks(number: str, means: Means) -> tuple[Check, ...]:
    """What the paper says of one number."""
    better = {one: NUMBERS[number] * mean for one, mean in means.items()}
    gradients = [_of(better, one) for one in _GRADIENTS]
    others = [
        mean for (method, _), mean in better.items() if method != OURS.name and not math.isnan(mean)
    ]
    return (
        at_least(
            f"{number}: slalom-eff's `lin` less LIME, better is positive",
            _of(better, _LIN) - _of(better, _LIME),
            0,
        ),
        at_least(
            f"{number}: slalom-eff's `lin` less the better of the gradients",
            min(_of(better, _LIN) - gradient for gradient in gradients),
            0,
        ),
        at_least(
            f"{number}: `slalom` less the best other score",
            _of(better, _OURS) - max(others, default=math.nan),
            _BEHIND,
        ),
    )


def _of(means: Means, one: Score) -> float:
    """NaN where there is none."""
    return means.get(one, math.nan)


def _finding(means: Mapping[str, Means]) -> str:
    parts = []
    for number in NUMBERS:
        lin, lime, shap, ours = (_of(means[number], one) for one in (_LIN, _LIME, _SHAP, _OURS))
        parts.append(
            f"{number} is {lin:.3f} for slalom-eff's linearized scores, {lime:.3f} for LIME, "
            f"{shap:.3f} for Kernel SHAP and {ours:.3f} for slalom"
        )
    return f"Mean over models: {'; '.join(parts)}."


def _draw(table: pd.DataFrame) -> Figure:
    """A panel for each number, means over models: ours as bars, the paper's as crosses."""
    figure, made = panels(2, width=4.0, height=3.8)
    for axes, number in zip(made, NUMBERS, strict=True):
        part = table[table["number"] == number]
        means = part.groupby(["method", "score"], sort=False)[["ours", "paper"]].mean()
        labels = [f"{method}:{score}" for method, score in means.index]
        axes.bar(labels, means["ours"], color=BLUE, label="ours")
        axes.scatter(labels, means["paper"], color=NEUTRAL, marker="x", label="paper", zorder=3)
        axes.set(title=number)
        axes.tick_params(axis="x", rotation=90, labelsize="x-small")
    made[0].legend(fontsize="x-small")
    return figure
