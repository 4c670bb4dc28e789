"""Figure 6: who predicts what deleting words does?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, panels
from research.paper.imdb import DATA, HOURS, STUDY, Found, Study
from research.paper.imdb_methods import (
    EFF,
    FIDEL,
    FIDEL_ALTERNATING,
    LIME,
    LRP,
    MOST_DELETED,
    OURS,
    SHAP,
    SHAP_UNK,
    WAYS,
)
from research.paper.imdb_tables import MODELS, failures, solver
from research.paper.language import STYLES, standard_error
from slalom_xai.metrics.model_answers import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REDUCTION = (0.45, 0.41, 0.70)  # 1 - MSE of fidel / MSE of LRP at 10 deletions, by model
_WIDE = "wide"
_RIVALS = (LRP, LIME, SHAP)


@reproduction(
    name="fig-6",
    title="SLALOM predicts what deleting up to ten words does better than additive scores do",
    source=f"{PAPER}, Figure 6",
    study=STUDY,
    hours=HOURS,
    data=DATA,
)
def fig_6(settings: Settings) -> Outcome:
    """Errors of the predicted change of the log odds, by the number of deletions."""
    return outcome(Study(settings, "fig-6").explanations())


def outcome(found: Found) -> Outcome:
    """Means over reviews; see ``imdb.Study.explanations``."""
    errors = errors_of(found)
    reductions, table = _reductions(errors), _table(errors)
    return Outcome(
        checks=_checks(errors),
        tables={"reduction": reductions, "errors": table},
        figures={"errors": lambda: _draw(errors)},
        remarks=(
            "Mean squared errors of the predicted change of the log odds, on random deletions of "
            "1 to 10 tokens, the same for all methods, mean over reviews. The last column deletes "
            "any number of tokens up to all but one, which the paper leaves out. Additive scores "
            "predict that a deletion takes the token's score away. All explain log odds; "
            f"{SHAP_UNK} is the paper's Kernel SHAP. LIME of probabilities and gradients of a "
            "logit are on other scales and are left out. slalom-fidel is fitted by our solver.",
            *solver(found),
            "Few deletions are few rows, so some of them are among those that methods asked.",
            *found.remarks,
            *failures(found),
        ),
        finding=_finding(errors),
    )


def errors_of(found: Found) -> dict[tuple[str, str], Array]:
    """Errors by model and method, (reviews, 11): those of 1 to 10 deletions and the wide ones.

    NaN stands where a method does not work on a review, or the review is too short.
    """
    errors: dict[tuple[str, str], Array] = {}
    for spec in found.models:
        cells = [cell for name, cell in found.rows[spec.key].items() if "review" in name]
        for label, way in WAYS.items():
            rows = np.array([_errors(cell.get(label, {})) for cell in cells])
            if way.predicts and np.isfinite(rows).any():
                errors[spec.name, label] = rows
    return errors


def _errors(measured: Mapping[str, Any]) -> list[float]:
    few = measured.get("errors", [])
    if len(few) < MOST_DELETED:
        return [float("nan")] * (MOST_DELETED + 1)
    return [*few, measured["wide"]]


def _table(errors: dict[tuple[str, str], Array]) -> pd.DataFrame:
    rows = []
    for (model, method), found in errors.items():
        whole = found[np.isfinite(found).all(axis=1)]
        means = whole.mean(axis=0)
        rows.append(
            {"model": model, "method": method}
            | {f"{k} deleted": means[k - 1] for k in (1, 2, 5, 10)}
            | {
                "s.e. of 10": standard_error(whole[:, MOST_DELETED - 1].tolist()),
                _WIDE: means[-1],
                "s.e. of wide": standard_error(whole[:, -1].tolist()),
                "texts": len(whole),
            }
        )
    return pd.DataFrame(rows)


def _reductions(errors: dict[tuple[str, str], Array]) -> pd.DataFrame:
    """By how much SLALOMs have less error than AttnLRP at ten deletions, and `slalom` elsewhere."""
    rows = []
    for model in dict.fromkeys(model for model, _ in errors):
        for method in (FIDEL, FIDEL_ALTERNATING, EFF, OURS):
            for place, name in ((MOST_DELETED - 1, "10 deletions"), (MOST_DELETED, "wide")):
                if not {(model, method), (model, LRP)} <= errors.keys():
                    continue
                ours, theirs = both(errors[model, method], errors[model, LRP])
                share, error = reduction(ours[:, place], theirs[:, place])
                printed = float("nan")
                if method in (FIDEL, FIDEL_ALTERNATING) and place < MOST_DELETED:
                    printed = _REDUCTION[MODELS.index(model)]
                rows.append(
                    {
                        "model": model,
                        "quantity": f"1 − error of {method} / error of {LRP}, {name}",
                        "paper": printed,
                        "ours": share,
                        "s.e.": error,
                        "texts": len(ours),
                    }
                )
    return pd.DataFrame(rows)


def both(ours: Array, theirs: Array) -> tuple[Array, Array]:
    """The reviews for which two methods have errors, (reviews, 11) each."""
    known = np.isfinite(ours).all(axis=1) & np.isfinite(theirs).all(axis=1)
    return ours[known], theirs[known]


def reduction(ours: Array, theirs: Array) -> tuple[float, float]:
    """1 - the ratio of mean errors, and its standard error by leaving out each review in turn.

    Args:
        ours: (reviews,).
        theirs: the same of another method.
    """
    share = 1 - float(ours.mean() / theirs.mean())
    count = len(ours)
    if count < 2:
        return share, float("nan")
    without = 1 - (ours.sum() - ours) / (theirs.sum() - theirs)
    spread = float(((without - without.mean()) ** 2).sum())
    return share, float(np.sqrt((count - 1) / count * spread))


def _checks(errors: dict[tuple[str, str], Array]) -> tuple[Check, ...]:
    checks = []
    for rival in _RIVALS:
        ratios = _ratios(errors, OURS, rival)
        statement = f"error of slalom over that of {rival}, 1 to 10 deletions, largest"
        checks.append(at_most(statement, ratios[:, :MOST_DELETED].max(), 1.0))
    fidel = 1 - _ratios(errors, FIDEL, LRP)[:, MOST_DELETED - 1]
    checks.append(
        at_least("slalom-fidel has less error than attn-lrp at 10 deletions, smallest share",
                 fidel.min(), 0.0)
    )  # fmt: skip
    return tuple(checks)


def _ratios(errors: dict[tuple[str, str], Array], method: str, rival: str) -> Array:
    """Mean errors of one method over those of another, (models, 11); NaN where one is missing."""
    rows = []
    for model in dict.fromkeys(model for model, _ in errors):
        if {(model, method), (model, rival)} <= errors.keys():
            ours, theirs = both(errors[model, method], errors[model, rival])
            rows.append(ours.mean(axis=0) / theirs.mean(axis=0))
    return np.array(rows or [[float("nan")] * (MOST_DELETED + 1)])


def _finding(errors: dict[tuple[str, str], Array]) -> str:
    each = []
    for model in dict.fromkeys(model for model, _ in errors):
        own = {
            method: np.nanmean(found, axis=0)
            for (name, method), found in errors.items()
            if name == model
        }
        named = [
            method
            for method in (OURS, FIDEL, FIDEL_ALTERNATING, EFF, *_RIVALS, "linear")
            if method in own
        ]
        few = ", ".join(f"{own[method][MOST_DELETED - 1]:.3g} for {method}" for method in named)
        wide = ", ".join(f"{own[method][-1]:.3g} for {method}" for method in named)
        each.append(f"For the {model}, the error of 10 deletions is {few}; of any number, {wide}.")
    return " ".join(each)


def _draw(errors: dict[tuple[str, str], Array]) -> Figure:
    """A panel for each model: errors by the number of deletions."""
    models = list(dict.fromkeys(model for model, _ in errors))
    figure, made = panels(len(models), width=3.8, height=3.6)
    for axes, model in zip(made, models, strict=True):
        curves = {method: found for (name, method), found in errors.items() if name == model}
        for index, (method, found) in enumerate(curves.items()):
            axes.plot(
                range(1, MOST_DELETED + 1),
                np.nanmean(found, axis=0)[:MOST_DELETED],
                color=COLOURS[index % len(COLOURS)],
                linestyle=STYLES[index // len(COLOURS)],
                marker="o",
                markersize=2,
                label=method,
            )
        axes.set(title=model, xlabel="tokens deleted", yscale="log")
    made[0].set_ylabel("mean squared error of the log odds")
    made[-1].legend(fontsize="xx-small", loc="center right", ncols=2)
    return figure
