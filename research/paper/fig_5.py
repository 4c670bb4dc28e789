"""Figures 5 and 12: the value and importance of each word of a printed review."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, at_most, reproduction
from research.paper.imdb import DATA, STUDY, Found, Study
from research.paper.imdb_methods import EFF, OURS, gives
from slalom_xai.data.tables.table import quote_names
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.model_answers import Array
from slalom_xai.reports.figures import highlighted, scatter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Words that the paper names in its figure.
NEGATIVE = ("frustrating", "hated", "bad", "crappy", "horrible")
POSITIVE = ("energetic", "beautiful")
ARTICLE = "the"


@reproduction(
    name="fig-5",
    title="Both good and bad words are important, and their values have opposite signs",
    source=f"{PAPER}, Figures 5 and 12",
    study=STUDY,
    hours=1,
    data=DATA,
)
def fig_5(settings: Settings) -> Outcome:
    """The review of Fig. 5 for each model, with the paper's method and with `slalom`."""
    return outcome(Study(settings, "fig-5").printed())


def outcome(found: Found) -> Outcome:
    """Values and importances of the words that the paper names; see ``imdb.Study.printed``."""
    explanations = {
        (spec, method): Explanation.from_dict(json.loads(found.rows[spec.key]["printed"][method]))
        for spec in found.models
        for method in (EFF, OURS)
    }
    table = pd.DataFrame(
        [
            {"model": spec.name, "method": method} | row
            for (spec, method), explanation in explanations.items()
            for row in named_words(explanation)
        ]
    )
    figures: dict[str, partial[Figure]] = {}
    for (spec, method), explanation in explanations.items():
        end = f"{spec.key}-{method}"
        if gives(explanation, "importance"):
            figures[f"scatter-{end}"] = partial(scatter, explanation)
        figures[f"text-{end}"] = partial(highlighted, explanation, score="linearized")
    paper = table[table["method"] == EFF]
    return Outcome(
        checks=_checks(paper),
        tables={"words": table},
        figures=figures,
        remarks=(
            "The review as printed in Fig. 5. A word of several tokens has the mean of theirs. "
            "`rank` is the share of the review's tokens that are less important. The paper prints "
            "no numbers; it draws BERT and GPT-2.",
            *(
                f"The {spec.name} reads the beginning of the review only, without "
                f"{quote_names(unread(explanation))}."
                for (spec, method), explanation in explanations.items()
                if method == EFF and unread(explanation)
            ),
            *found.remarks,
        ),
        finding=_finding(paper),
    )


def _checks(paper: pd.DataFrame) -> tuple[Check, ...]:
    """What the figure shows of the paper's method, from its rows of the table."""
    good, bad = (paper[paper["word"].isin(words)] for words in (POSITIVE, NEGATIVE))
    article = paper[paper["word"] == ARTICLE]
    return (
        at_most(
            "slalom-eff: value of the bad words, mean of a model, largest",
            bad.groupby("model")["value"].mean().max(),
            0.0,
        ),
        at_least(
            "slalom-eff: value of the good words, mean of a model, smallest",
            good.groupby("model")["value"].mean().min(),
            0.0,
        ),
        at_least(
            "slalom-eff: share of words less important than these, mean, smallest",
            pd.concat([good, bad]).groupby("model")["rank"].mean().min(),
            0.5,
        ),
        at_most(
            'slalom-eff: share of words less important than "the", largest',
            article["rank"].max(),
            0.5,
        ),
    )


def unread(explanation: Explanation) -> list[str]:
    """The named words that a model did not read, because the review is too long for it."""
    words = (*NEGATIVE, *POSITIVE, ARTICLE)
    return [word for word in words if not _places(explanation, word).any()]


def named_words(explanation: Explanation) -> list[dict[str, object]]:
    """The named words of an explained review, as far as the model read it."""
    values, importances = explanation.scores("value"), np.full(len(explanation), np.nan)
    if gives(explanation, "importance"):
        importances = explanation.scores("importance")
    rows: list[dict[str, object]] = []
    left_out = unread(explanation)
    for word in (*NEGATIVE, *POSITIVE, ARTICLE):
        if word in left_out:
            continue
        places = _places(explanation, word)
        importance = float(importances[places].mean())
        rank = float((importances < importance).mean())
        if np.isnan(importance):
            rank = importance
        rows.append(
            {
                "word": word,
                "paper": float("nan"),
                "ours": float(values[places].mean()),
                "s.e.": float("nan"),
                "value": float(values[places].mean()),
                "importance": importance,
                "rank": rank,
            }
        )
    return rows


def _places(explanation: Explanation, word: str) -> Array:
    """Which units stand in the first place of a word, whole and in any case, (n,) of booleans."""
    match = re.search(rf"\b{word}\b", explanation.text, re.IGNORECASE)
    assert match is not None
    inside = [match.start() <= unit.start and unit.end <= match.end() for unit in explanation.units]
    return np.array(inside, dtype=bool)


def _finding(table: pd.DataFrame) -> str:
    each = []
    for model, part in table.groupby("model", sort=False):
        kinds = [part[part["word"].isin(words)] for words in (POSITIVE, NEGATIVE, (ARTICLE,))]
        good, bad, article = ((kind["value"].mean(), kind["rank"].mean()) for kind in kinds)
        each.append(
            f"For the {model}, good words have a mean value of {good[0]:.2f} and are more "
            f"important than {100 * good[1]:.0f}% of the tokens; bad words have {bad[0]:.2f} and "
            f'{100 * bad[1]:.0f}%, "the" {article[0]:.2f} and {100 * article[1]:.0f}%.'
        )
    return " ".join(each)
