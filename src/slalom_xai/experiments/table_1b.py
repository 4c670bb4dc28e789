"""Tables 1b and 10: scores of reviews against the words that people marked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from slalom_xai.experiments.base import PAPER, experiment
from slalom_xai.experiments.language import standard_error
from slalom_xai.experiments.review_methods import (
    EFF,
    IMPORTANCE,
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
    MAMBA_TYPE,
    SMOLLM2,
    STUDY,
    Found,
    study,
)
from slalom_xai.surrogates.scores import DEFAULT_SCORE
from slalom_xai.theory.base import Check, Outcome, Settings, at_least
from slalom_xai.theory.drawing import BLUE, NEUTRAL, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Means = dict[tuple[str, str], float]  # by method and score
_COLUMNS = (
    (EFF.name, VALUE),
    (EFF.name, IMPORTANCE),
    (EFF.name, LINEARIZED),
    (LIME_PRINTED.name, DEFAULT_SCORE),
    (SHAP_PRINTED.name, DEFAULT_SCORE),
    (LRP_PRINTED.name, DEFAULT_SCORE),
)
# AU-ROC as printed, by model, in the order of the columns.
_PRINTED = {
    BERT: (0.786, 0.807, 0.801, 0.805, 0.800, 0.813),
    DISTILBERT: (0.688, 0.681, 0.686, 0.702, 0.668, 0.703),
    GPT2: (0.674, 0.685, 0.683, 0.632, 0.671, 0.699),
    SMOLLM2: (0.739, 0.712, 0.740),  # BLOOM's
    MAMBA_TYPE: (0.615, 0.437, 0.535),
}
_ACCURACY = {BERT: 0.88, DISTILBERT: 0.86, GPT2: 0.88}  # Table 4, on 100 reviews
_BEHIND = -0.02  # how far ours may stay behind the best other score
_PREDICTIVE = 0.6
_OURS = (OURS.name, DEFAULT_SCORE)


@experiment(
    name="table-1b",
    title="Scores find the words that people marked, the importances best",
    source=f"{PAPER}, Tables 1b, 4 and 10",
    study=STUDY,
    hours=HOURS,
    data=DATA,
)
def table_1b(settings: Settings) -> Outcome:
    """AU-ROC of every method against the words that all annotators marked."""
    return outcome(study(settings, "table-1b"))


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``yelp.study``."""
    table = _means(found)
    means = _by_model(table)
    return Outcome(
        checks=_checks(means),
        tables={"auroc": table, "models": _models(found)},
        figures={"auroc": lambda: _draw(table)},
        remarks=(
            "AU-ROC of scores without their sign (importances as they are) against the words of "
            "Yelp-HAT that all annotators marked, over the distinct tokens of a review without "
            "punctuation (`human-distinct`), mean over reviews. A score called `shapley` of a "
            "method with one score is that score.",
            SETUP,
            f"Beside {SMOLLM2}, a decoder of 30 layers, stand the numbers of BLOOM-7.1B, and "
            f"beside the {MAMBA_TYPE}, which is small and trained from scratch, those of "
            "Mamba-2.8B.",
            *found.remarks,
        ),
        finding=_finding(means),
    )


def _means(found: Found) -> pd.DataFrame:
    """One row per model, method and score, with the printed number where there is one."""
    rows = []
    for keys, group in found.scores.groupby(["model", "method", "score"], sort=False):
        model, method, score = map(str, keys)
        values = group["auroc"].dropna().tolist()
        printed = dict(zip(_COLUMNS, _PRINTED.get(model, ()), strict=False))
        rows.append(
            {
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


def _models(found: Found) -> pd.DataFrame:
    """What each model is, and how often it is right."""
    rows = []
    for model, group in found.reviews.groupby("model", sort=False):
        right = group["right"].dropna().tolist()
        rows.append(
            {
                "model": model,
                "what it is": found.origins[str(model)],
                "paper": _ACCURACY.get(str(model), math.nan),
                "ours": sum(right) / len(right) if right else math.nan,
                "s.e.": standard_error(right),
                "reviews": len(right),
                "tokens": group["units"].mean(),
            }
        )
    return pd.DataFrame(rows)


def _by_model(table: pd.DataFrame) -> dict[str, Means]:
    """The means of each model's scores."""
    found: dict[str, Means] = {}
    for row in table.to_dict("records"):
        found.setdefault(row["model"], {})[row["method"], row["score"]] = row["ours"]
    return found


def _checks(means: Mapping[str, Means]) -> tuple[Check, ...]:
    """What the paper says, of the models that are there."""
    checks = [
        at_least(f"{model}: `slalom` less the best other score", _lead(own), _BEHIND)
        for model, own in means.items()
    ]
    classical = [own for model, own in means.items() if model in CLASSICAL]
    gains = [_of(own, IMPORTANCE) - _of(own, VALUE) for own in classical]
    checks.append(
        at_least(
            "slalom-eff: importances less values, mean over the classical models",
            sum(gains) / len(gains) if gains else math.nan,
            0,
        )
    )
    for model in (*CLASSICAL, SMOLLM2):
        if model in means:
            linearized = _of(means[model], LINEARIZED)
            statement = f"{model}: AU-ROC of slalom-eff's linearized scores"
            checks.append(at_least(statement, linearized, _PREDICTIVE))
    return tuple(checks)


def _lead(own: Means) -> float:
    """Ours less the best score of another method, for one model."""
    others = [
        mean for (method, _), mean in own.items() if method != OURS.name and not math.isnan(mean)
    ]
    return own.get(_OURS, math.nan) - max(others, default=math.nan)


def _of(own: Means, score: str) -> float:
    """A score of slalom-eff; NaN where there is none."""
    return own.get((EFF.name, score), math.nan)


def _finding(means: Mapping[str, Means]) -> str:
    """What was found, model by model."""
    parts = []
    for model, own in means.items():
        value, importance, linearized = (_of(own, score) for score in EFF.scores)
        ours = own.get(_OURS, math.nan)
        parts.append(
            f"{model}: slalom-eff {value:.3f} (v), {importance:.3f} (s), {linearized:.3f} (lin), "
            f"slalom {ours:.3f}, {_lead(own):+.3f} to the best other"
        )
    found = "AU-ROC, " + "; ".join(parts) + "."
    if MAMBA_TYPE not in means:
        return found
    drop = _of(means[MAMBA_TYPE], VALUE) - _of(means[MAMBA_TYPE], IMPORTANCE)
    return f"{found} On the {MAMBA_TYPE}, importances are {drop:.3f} below values (paper: 0.178)."


def _draw(table: pd.DataFrame) -> Figure:
    """A panel for each model: ours as bars, the paper's as crosses."""
    names = list(dict.fromkeys(table["model"]))
    figure, made = panels(len(names), width=3.4, height=3.6, share_y=True)
    for axes, model in zip(made, names, strict=True):
        part = table[table["model"] == model]
        several = part["method"].duplicated(keep=False)
        labels = part["method"].where(~several, part["method"] + ":" + part["score"])
        axes.bar(labels, part["ours"], yerr=part["s.e."].fillna(0), color=BLUE, label="ours")
        axes.scatter(labels, part["paper"], color=NEUTRAL, marker="x", label="paper", zorder=3)
        axes.axhline(0.5, color=NEUTRAL, linewidth=0.8)
        axes.set(title=model)
        axes.tick_params(axis="x", rotation=90)
    made[0].set_ylabel("AU-ROC")
    made[0].set_ylim(bottom=0.3)
    made[0].legend(fontsize="x-small")
    return figure
