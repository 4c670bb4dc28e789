"""Fig. 11: the words of one review that people marked, and those that methods single out."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, reproduction
from research.cells import Numbers
from research.paper.imdb_methods import EFF, OURS
from research.paper.yelp import DATA, MAPS, STUDY, Study
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.model_answers import Array
from slalom_xai.reports.figures import highlighted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOP = 10
_PREDICTIVE = 0.6


@reproduction(
    name="fig-11",
    title="In one review, methods single out many of the words that people marked",
    source=f"{PAPER}, Figure 11",
    study=STUDY,
    hours=1,
    data=DATA,
)
def fig_11(settings: Settings) -> Outcome:
    """Maps of one review: people's, those of the paper's four methods, and ours."""
    return outcome(Study(settings, "fig-11").maps())


def outcome(found: Numbers) -> Outcome:
    """The maps of the review; see ``yelp.Study.maps``."""
    explanations = {
        method: Explanation.from_dict(json.loads(saved))
        for method, saved in found["explanations"].items()
    }
    aurocs, marks = found["auroc"], np.array(found["marks"])
    rows = [
        {
            "model": found["model"],
            "method": method,
            "score": MAPS[method],
            "paper": math.nan,
            "ours": aurocs[method],
            "s.e.": math.nan,
            "texts": 1,
            f"marked of the first {_TOP}": _marked_first(explanation, MAPS[method], marks),
        }
        for method, explanation in explanations.items()
    ]
    return Outcome(
        checks=tuple(
            at_least(f"AU-ROC of {method}", aurocs.get(method, math.nan), _PREDICTIVE)
            for method in MAPS
        ),
        tables={"auroc": pd.DataFrame(rows)},
        figures=_figures(explanations, marks),
        remarks=(
            "`ours` is the AU-ROC of the score against the words that all annotators marked "
            "(`human-distinct`); the paper prints no number. The last column counts marked tokens "
            f"among the {_TOP} with the highest scores, without sign, importances as they are.",
            f"The {found['model']} is {found['origin']}.",
            *(f"{method} has no map: {reason}." for method, reason in found["refused"].items()),
        ),
        finding=(
            f"All annotators marked {int(marks.sum())} of {len(marks)} tokens; the AU-ROC is "
            f"{aurocs.get(EFF, math.nan):.3f} for slalom-eff's importances and "
            f"{aurocs.get(OURS, math.nan):.3f} for slalom."
        ),
    )


def _marked_first(explanation: Explanation, score: str, marks: Array) -> int:
    """How many of the tokens with the highest scores are marked."""
    scores = explanation.scores(score)
    if score != "importance":
        scores = np.abs(scores)
    first = np.argsort(-scores, kind="stable")[:_TOP]
    return int(marks[first].sum())


def _figures(explanations: dict[str, Explanation], marks: Array) -> dict[str, partial[Figure]]:
    """The review once for people and once for each method."""
    figures: dict[str, partial[Figure]] = {}
    for method, explanation in explanations.items():
        if not figures:
            people = Explanation.from_scores(
                explanation.text, explanation.units, marks, label="marked", method="annotators"
            )
            figures["people"] = partial(highlighted, people)
        figures[method] = partial(highlighted, explanation, score=MAPS[method])
    return figures
