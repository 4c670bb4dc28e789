"""Tables 1c and 11a: do the best words alone reach the class, and does it vanish without them?"""

from __future__ import annotations

import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, reproduction
from research.paper.imdb import DATA, HOURS, STUDY, Found, Study, table_of
from research.paper.imdb_methods import (
    EFF,
    FIDEL,
    GRAD,
    GRAD_LOGIT,
    IG,
    IG_LOGIT,
    LIME,
    LRP,
    OURS,
    SHAP,
)
from research.paper.imdb_tables import (
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

_INSERTION: Printed = {  # BERT, DistilBERT, GPT-2
    (FIDEL, "value"): (0.025, 0.028, 0.052),
    (FIDEL, "linearized"): (0.023, 0.024, 0.050),
    (EFF, "value"): (0.031, 0.027, 0.089),
    (EFF, "linearized"): (0.031, 0.027, 0.089),
    (LIME, "shapley"): (0.024, 0.027, 0.230),
    (SHAP, "shapley"): (0.026, 0.029, 0.042),
    (IG, "shapley"): (0.557, 0.495, 0.454),
    (GRAD, "shapley"): (0.611, 0.508, 0.493),
    (LRP, "shapley"): (0.030, 0.023, 0.069),
}
_DELETION: Printed = {
    (FIDEL, "value"): (0.893, 0.841, 0.837),
    (FIDEL, "linearized"): (0.901, 0.854, 0.844),
    (EFF, "value"): (0.881, 0.888, 0.782),
    (EFF, "linearized"): (0.885, 0.886, 0.784),
    (LIME, "shapley"): (0.875, 0.838, 0.479),
    (SHAP, "shapley"): (0.881, 0.864, 0.859),
    (IG, "shapley"): (0.084, 0.143, 0.289),
    (GRAD, "shapley"): (0.069, 0.131, 0.269),
    (LRP, "shapley"): (0.852, 0.865, 0.833),
}
_NEAR = 0.02  # on par
_FAR = 0.1  # by which gradients are behind


@reproduction(
    name="table-1c",
    title="Linearized SLALOM scores are on par with Kernel SHAP in insertion and deletion tests",
    source=f"{PAPER}, Tables 1c and 11a",
    study=STUDY,
    hours=HOURS,
    data=DATA,
)
def table_1c(settings: Settings) -> Outcome:
    """AOPC of all methods by insertion and by deletion."""
    return outcome(Study(settings, "table-1c").explanations())


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``imdb.Study.explanations``."""
    frame = table_of(found)
    insertion = means(frame, "insertion", _INSERTION)
    deletion = means(frame, "deletion", _DELETION)
    return Outcome(
        checks=(*_checks("insertion", insertion, -1), *_checks("deletion", deletion, 1)),
        tables={"insertion": shown(insertion), "deletion": shown(deletion)},
        figures={
            "insertion": lambda: draw(insertion, "insertion, lower is better"),
            "deletion": lambda: draw(deletion, "deletion, higher is better"),
        },
        remarks=(
            "`aopc`: 1 − the mean probability of the true label with the 5, 10, … best tokens only "
            "(insertion) or the worst only (deletion). Table 1c's caption says deletion; its "
            "numbers are insertion's.",
            WHICH,
            *solver(found),
            *found.remarks,
            *failures(found),
        ),
        finding=_finding(insertion, deletion),
    )


def _checks(number: str, table: pd.DataFrame, direction: int) -> tuple[Check, ...]:
    """The paper's claims: on par with Kernel SHAP, ahead of LIME and LRP, gradients far behind."""
    better = table.assign(ours=direction * table["ours"])
    linear, ours = pick(better, FIDEL, "linearized"), pick(better, OURS)
    rivals = pd.concat([pick(better, way) for way in (LIME, SHAP, LRP)], axis=1)
    gradients = pd.concat([pick(better, way) for way in (IG_LOGIT, GRAD_LOGIT)], axis=1)
    return (
        ahead(f"{number}: slalom-fidel on par with Kernel SHAP", linear, rivals.iloc[:, 1], _NEAR),
        ahead(f"{number}: slalom-fidel ahead of LIME", linear, rivals.iloc[:, 0], 0.0),
        ahead(f"{number}: slalom-fidel ahead of AttnLRP", linear, rivals.iloc[:, 2], 0.0),
        at_least(
            f"{number}: slalom-fidel ahead of gradients as the authors take them, smallest lead",
            (linear - gradients.max(axis=1)).min(),
            _FAR,
        ),
        ahead(f"{number}: slalom (shapley) on par with the best", ours, rivals.max(axis=1), _NEAR),
    )


def _finding(insertion: pd.DataFrame, deletion: pd.DataFrame) -> str:
    each = []
    for model in dict.fromkeys(insertion["model"]):
        parts = []
        for name, table in (("insertion", insertion), ("deletion", deletion)):
            fidel, ours = pick(table, FIDEL, "linearized")[model], pick(table, OURS)[model]
            shap, lime, lrp = (pick(table, way)[model] for way in (SHAP, LIME, LRP))
            parts.append(
                f"{name} is {fidel:.3f} for slalom-fidel, {ours:.3f} for slalom, {shap:.3f} for "
                f"Kernel SHAP, {lime:.3f} for LIME and {lrp:.3f} for AttnLRP"
            )
        each.append(f"For the {model}, {'; '.join(parts)}.")
    return " ".join(each)
