"""Tables 11b and 11c: AOPC of explanations of Yelp reviews."""

from __future__ import annotations

import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, judged, reproduction
from research.paper.imdb_methods import (
    EFF,
    FIDEL,
    GRAD,
    GRAD_LOGIT,
    IG,
    IG_LOGIT,
    LIME,
    LIME_CHANCE,
    LRP,
    OURS,
    SHAP,
    SHAP_UNK,
)
from research.paper.imdb_tables import WHICH, Printed, draw, means, pick
from research.paper.yelp import DATA, HOURS, STUDY, Found, Study

_INSERTION: Printed = {  # BERT, DistilBERT, GPT-2
    (FIDEL, "value"): (0.015, 0.018, 0.033),
    (FIDEL, "linearized"): (0.011, 0.019, 0.032),
    (EFF, "value"): (0.011, 0.032, 0.045),
    (EFF, "linearized"): (0.011, 0.032, 0.045),
    (LIME, "shapley"): (0.017, 0.014, 0.129),
    (SHAP, "shapley"): (0.012, 0.020, 0.021),
    (IG, "shapley"): (0.224, 0.250, 0.251),
    (GRAD, "shapley"): (0.214, 0.249, 0.244),
    (LRP, "shapley"): (0.010, 0.017, 0.039),
}
_DELETION: Printed = {
    (FIDEL, "value"): (0.657, 0.645, 0.747),
    (FIDEL, "linearized"): (0.667, 0.642, 0.753),
    (EFF, "value"): (0.865, 0.813, 0.726),
    (EFF, "linearized"): (0.863, 0.813, 0.727),
    (LIME, "shapley"): (0.797, 0.746, 0.444),
    (SHAP, "shapley"): (0.859, 0.854, 0.849),
    (IG, "shapley"): (0.249, 0.201, 0.292),
    (GRAD, "shapley"): (0.281, 0.243, 0.290),
    (LRP, "shapley"): (0.855, 0.768, 0.740),
}
_NEAR = 0.02  # how far ours may stay behind the best other score


@reproduction(
    name="table-11",
    title="Linearized SLALOM scores rank the tokens of Yelp reviews as LIME and SHAP do",
    source=f"{PAPER}, Tables 11b and 11c",
    study=STUDY,
    hours=HOURS / 4,
    data=DATA,
)
def table_11(settings: Settings) -> Outcome:
    """Insertion and deletion of every method."""
    return outcome(Study(settings, "table-11").curves())


def outcome(found: Found) -> Outcome:
    """Means over the reviews with curves; see ``yelp.Study.curves``."""
    insertion = means(found.scores, "insertion", _INSERTION)
    deletion = means(found.scores, "deletion", _DELETION)
    return Outcome(
        checks=judged(*_checks("insertion", insertion, -1), *_checks("deletion", deletion, 1)),
        tables={"insertion": insertion, "deletion": deletion},
        figures={
            "insertion": lambda: draw(insertion, "insertion, lower is better"),
            "deletion": lambda: draw(deletion, "deletion, higher is better"),
        },
        remarks=(
            "`aopc`: 1 − the mean probability of the true label with the 5, 10, … best tokens only "
            "(insertion) or the worst only (deletion). The reviews are those of Yelp-HAT; the "
            "paper takes others. Checks are about means over models.",
            WHICH,
            *found.remarks,
        ),
        finding=_finding({"insertion": insertion, "deletion": deletion}),
    )


def _checks(number: str, table: pd.DataFrame, direction: int) -> tuple[Check, ...]:
    """The paper's claims, with methods run as its authors ran them, and how ours compares."""
    better = table.assign(ours=direction * table["ours"])
    linear = pick(better, EFF, "linearized")
    gradients = pd.concat([pick(better, way) for way in (IG_LOGIT, GRAD_LOGIT)], axis=1)
    others = better[better["method"] != OURS].groupby(["method", "score"])["ours"].mean()
    return (
        at_least(
            f"{number}: lead of slalom-eff's linearized scores over LIME",
            (linear - pick(better, LIME_CHANCE)).mean(),
            0,
        ),
        at_least(
            f"{number}: lead of slalom-eff's linearized scores over the better gradients",
            (linear - gradients.max(axis=1)).mean(),
            0,
        ),
        at_least(
            f"{number}: lead of slalom over the best other score",
            pick(better, OURS).mean() - others.max(),
            -_NEAR,
        ),
    )


def _finding(tables: dict[str, pd.DataFrame]) -> str:
    parts = []
    for number, table in tables.items():
        linear, ours = pick(table, EFF, "linearized").mean(), pick(table, OURS).mean()
        lime, shap = (pick(table, way).mean() for way in (LIME_CHANCE, SHAP_UNK))
        parts.append(
            f"{number} is {linear:.3f} for slalom-eff's linearized scores, {lime:.3f} for LIME and "
            f"{shap:.3f} for Kernel SHAP as the authors run them, and {ours:.3f} for slalom"
        )
    return f"Mean over models: {'; '.join(parts)}."
