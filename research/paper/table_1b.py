"""Tables 1b and 10: scores of reviews against the words that people marked."""

from __future__ import annotations

import math

import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, reproduction
from research.paper.imdb_methods import EFF, LIME, LRP, OURS, SHAP, WAYS
from research.paper.imdb_tables import WHICH, Printed, draw, means, pick
from research.paper.yelp import DATA, HOURS, PLAIN, STUDY, Found, Study
from research.paper.yelp_sizes import (
    BERT,
    CLASSICAL,
    DISTILBERT,
    GPT2,
    MAMBA_TYPE,
    SMOLLM2,
)

_MODELS = (BERT, DISTILBERT, GPT2, SMOLLM2, MAMBA_TYPE)  # the last two: BLOOM-7.1B, Mamba-2.8B
_PRINTED: Printed = {
    (EFF, "value"): (0.786, 0.688, 0.674, 0.739, 0.615),
    (EFF, "importance"): (0.807, 0.681, 0.685, 0.712, 0.437),
    (EFF, "linearized"): (0.801, 0.686, 0.683, 0.740, 0.535),
    (LIME, "shapley"): (0.805, 0.702, 0.632),
    (SHAP, "shapley"): (0.800, 0.668, 0.671),
    (LRP, "shapley"): (0.813, 0.703, 0.699),
}
_ACCURACY = {BERT: 0.88, DISTILBERT: 0.86, GPT2: 0.88}  # Table 4, on 100 reviews
_TWO = ("value", "importance", "linearized")  # the paper's v, s and lin
_NEAR = 0.02  # how far ours may stay behind the best other score
_PREDICTIVE = 0.6
_LEARNT = 0.6  # the accuracy below which a model has learnt nothing that could be explained


@reproduction(
    name="table-1b",
    title="Scores find the words that people marked, the importances best",
    source=f"{PAPER}, Tables 1b, 4 and 10",
    study=STUDY,
    hours=HOURS,
    data=DATA,
)
def table_1b(settings: Settings) -> Outcome:
    """AU-ROC of every method against the words that all annotators marked."""
    return outcome(Study(settings, "table-1b").explanations())


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``yelp.Study.explanations``."""
    everywhere = found.scores[found.scores["method"].isin(PLAIN)]  # others have fewer reviews
    table = means(everywhere, "auroc", _PRINTED, _MODELS)
    nothing = _learnt_nothing(found)
    return Outcome(
        checks=_checks(table[~table["model"].isin(nothing)]),
        tables={"auroc": table, "models": _models(found)},
        figures={"auroc": lambda: draw(table, "AU-ROC")},
        remarks=(
            "AU-ROC of scores without their sign (importances as they are) against the words of "
            "Yelp-HAT that all annotators marked, over the distinct tokens of a review without "
            "punctuation (`human-distinct`), mean over reviews. A review counts for nothing where "
            "only later places of tokens are marked. The table of the models has their accuracy on "
            "all reviews of Yelp-HAT that can be used.",
            WHICH,
            f"Beside {SMOLLM2} stand the numbers of BLOOM-7.1B, and beside the {MAMBA_TYPE}, which "
            "is small and has learnt from the reviews alone, those of Mamba-2.8B.",
            *(f"The {model} learnt next to nothing: no check is about it." for model in nothing),
            *found.remarks,
        ),
        finding=_finding(table),
    )


def _models(found: Found) -> pd.DataFrame:
    """How often each model is right, and how long its reviews are."""
    rows = []
    for model, group in found.reviews.groupby("model", sort=False):
        accuracy, texts = found.accuracies.get(str(model), (math.nan, 0))
        rows.append(
            {
                "model": model,
                "paper": _ACCURACY.get(str(model), math.nan),
                "ours": accuracy,
                "s.e.": math.sqrt(accuracy * (1 - accuracy) / texts) if texts else math.nan,
                "texts": texts,
                "tokens": group["units"].mean(),
            }
        )
    return pd.DataFrame(rows)


def _learnt_nothing(found: Found) -> list[str]:
    """The models whose answers are hardly better than chance; half of the reviews are positive."""
    return [model for model, (accuracy, _) in found.accuracies.items() if accuracy < _LEARNT]


def _checks(table: pd.DataFrame) -> tuple[Check, ...]:
    """What the paper says, of the models that are there, and how ours compares."""
    asking = table[~table["method"].map(lambda method: WAYS[method].inside)]
    checks = [
        at_least(f"{model}: `slalom` less {what}", difference, -_NEAR)
        for what, others in (
            ("the best other score", table),
            ("the best of those that only ask", asking),
        )
        for model, difference in (pick(table, OURS) - _best_other(others)).items()
    ]
    value, importance, linearized = (pick(table, EFF, score) for score in _TWO)
    classical = [model for model in CLASSICAL if model in value.index]
    checks.append(
        at_least(
            "slalom-eff: importances less values, mean over the classical models",
            (importance - value)[classical].mean(),
            0,
        )
    )
    for model in (*classical, SMOLLM2):
        if model in linearized.index:
            statement = f"{model}: AU-ROC of slalom-eff's linearized scores"
            checks.append(at_least(statement, linearized[model], _PREDICTIVE))
    return tuple(checks)


def _best_other(table: pd.DataFrame) -> pd.Series[float]:
    """The best mean of another method than ours, by model."""
    others = table[table["method"] != OURS]
    return others.groupby("model", sort=False)["ours"].max()


def _finding(table: pd.DataFrame) -> str:
    """What was found, model by model."""
    value, importance, linearized = (pick(table, EFF, score) for score in _TWO)
    ours, best = pick(table, OURS), _best_other(table)
    parts = [
        f"{model}: slalom-eff {value[model]:.3f} (v), {importance[model]:.3f} (s), "
        f"{linearized[model]:.3f} (lin), slalom {ours[model]:.3f}, the best other {best[model]:.3f}"
        for model in best.index
    ]
    found = f"AU-ROC, {'; '.join(parts)}."
    if MAMBA_TYPE not in best.index:
        return found
    gain = importance[MAMBA_TYPE] - value[MAMBA_TYPE]
    return f"{found} On the {MAMBA_TYPE}, importances less values are {gain:+.3f} (paper: −0.178)."
