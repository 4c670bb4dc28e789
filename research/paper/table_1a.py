"""Tables 1a, 4 and 9: scores beside Naive-Bayes weights, and the accuracy of the models."""

from __future__ import annotations

import math

import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_most, reproduction
from research.paper.imdb import DATA, HOURS, STUDY, Found, Study, table_of
from research.paper.imdb_methods import EFF, FIDEL, GRAD, IG, LIME, LRP, OURS, SHAP
from research.paper.imdb_tables import (
    MODELS,
    WHICH,
    Printed,
    ahead,
    draw,
    failures,
    means,
    pick,
    shown,
    solver,
)

_PRINTED: Printed = {  # BERT, DistilBERT, GPT-2
    (FIDEL, "value"): (0.475, 0.602, 0.467),
    (FIDEL, "importance"): (0.031, 0.020, 0.017),
    (FIDEL, "linearized"): (0.474, 0.602, 0.468),
    (EFF, "value"): (0.619, 0.692, 0.618),
    (EFF, "importance"): (0.349, 0.373, 0.292),
    (EFF, "linearized"): (0.626, 0.693, 0.619),
    (LIME, "shapley"): (0.616, 0.691, 0.213),
    (SHAP, "shapley"): (0.554, 0.619, 0.560),
    (IG, "shapley"): (-0.125, -0.285, 0.033),
    (GRAD, "shapley"): (-0.123, -0.215, 0.031),
    (LRP, "shapley"): (0.639, 0.706, 0.615),
}
_ACCURACY = (0.90, 0.88, 0.74)  # BERT, DistilBERT, GPT-2
_NEAR = 0.02  # as much as this is a tie
_COMPARABLE = 0.1


@reproduction(
    name="table-1a",
    title="Values and linearized scores of SLALOM rank words as a Naive-Bayes model does",
    source=f"{PAPER}, Tables 1a, 4 and 9",
    study=STUDY,
    hours=HOURS,
    data=DATA,
)
def table_1a(settings: Settings) -> Outcome:
    """Rank correlations with Naive-Bayes weights, and the models' accuracies."""
    return outcome(Study(settings, "table-1a").explanations())


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``imdb.Study.explanations``."""
    table = means(table_of(found), "spearman", _PRINTED)
    return Outcome(
        checks=_checks(table),
        tables={"correlations": shown(table), "accuracy": _accuracies(found)},
        figures={"correlations": lambda: draw(table, "rank correlation")},
        remarks=(
            "Spearman's rank correlation with log((c₁ + 40) / (c₀ + 40)) over the distinct tokens "
            "of each review, c the counts of a word in the classes of the reviews that models "
            "learn from; pieces of a word share its weight. The places of a token share the mean "
            "of their scores. Importances are compared with the size of the weights.",
            WHICH,
            *solver(found),
            *found.remarks,
            *failures(found),
        ),
        finding=_finding(table),
    )


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    value, importance, linear = (
        pick(table, EFF, score) for score in ("value", "importance", "linearized")
    )
    return (
        ahead("slalom-eff: values above importances", value, importance, 0.0),
        ahead("slalom-eff: linearized above importances", linear, importance, 0.0),
        ahead("slalom-eff: linearized not below values", linear, value, _NEAR),
        ahead("slalom-eff's values above slalom-fidel's", value, pick(table, FIDEL, "value"), 0.0),
        ahead("slalom-eff, linearized, above LIME", linear, pick(table, LIME), _NEAR),
        ahead("slalom-eff, linearized, above Kernel SHAP", linear, pick(table, SHAP), _NEAR),
        at_most(
            "slalom-eff, linearized, against AttnLRP, largest difference",
            (linear - pick(table, LRP)).abs().max(),
            _COMPARABLE,
        ),
    )


def _accuracies(found: Found) -> pd.DataFrame:
    """Table 4."""
    rows = []
    for spec in found.models:
        cell = found.rows[spec.key].get("accuracy")
        if cell is None:
            continue
        share, texts = cell["accuracy"], cell["texts"]
        rows.append(
            {
                "model": spec.name,
                "here": spec.origin,
                "paper": _ACCURACY[MODELS.index(spec.name)],
                "ours": share,
                "s.e.": math.sqrt(share * (1 - share) / texts),
                "texts": texts,
            }
        )
    return pd.DataFrame(rows)


def _finding(table: pd.DataFrame) -> str:
    each = []
    for model in dict.fromkeys(table["model"]):
        numbers = [pick(table, EFF, score)[model] for score in ("value", "importance")]
        numbers += [pick(table, EFF, "linearized")[model], pick(table, LIME)[model]]
        numbers += [pick(table, SHAP)[model], pick(table, OURS, "value")[model]]
        value, importance, linear, lime, shap, ours = (f"{number:.2f}" for number in numbers)
        each.append(
            f"For the {model}, values of slalom-eff correlate by {value}, importances by "
            f"{importance} and linearized scores by {linear}; LIME reaches {lime}, Kernel SHAP "
            f"{shap} and the values of slalom {ours}."
        )
    return " ".join(each)
