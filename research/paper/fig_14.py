"""Figure 14 and App. F.8: words that a model takes for bad, found in its scores and then used.

The distinct tokens of a few reviews are fitted together. Of the loud ones, some are negative to
the model though they are not so in the data; put into reviews that the model rightly takes for
positive, they should turn them, and words without a value should not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from research.base import PAPER, Outcome, Settings, at_least, reproduction
from research.drawing import BLUE, NEUTRAL, RED, panels
from research.paper.edited_reviews import (
    EDITS,
    FIRST,
    FLAGGED,
    NEUTRAL_WEIGHT,
    PRINTED,
    TRIED,
    CaseSize,
    CaseStudy,
    WordChoice,
    flips,
    paths,
    split_scores,
)
from research.paper.imdb import DATA, STUDY, Found

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "fig-14"
LOUD = 2.0  # importances above this matter, in the paper
LOUDEST = 0.1  # the share of tokens that are taken for loud where fewer than TRIED are above that
LOWEST = 0.2  # the share of tokens that are most negative to the model
CONTROL = "random words of small value"

SMALL = CaseSize(20, 100)
FULL = CaseSize(100, None)


@reproduction(
    name=NAME,
    title="Words that a model takes for bad, though they are not, turn reviews round",
    source=f"{PAPER}, Appendix F.8, Figure 14",
    study=STUDY,
    hours=2,
    data=DATA,
)
def fig_14(settings: Settings) -> Outcome:
    """Scores of a vocabulary, and reviews edited with what they show."""
    case = FULL if settings.full else SMALL
    return outcome(CaseStudy(settings, NAME, case, LOUD_AND_NEGATIVE).found())


def _mark(table: pd.DataFrame) -> pd.DataFrame:
    """Flagged are loud words among the most negative whose Naive-Bayes weight says nothing.

    Controls are words of a value below the median's size. Importances have no common scale: where
    hardly any is above the paper's bound, the loudest tenth is loud.
    """
    lowest = table["value"] <= table["value"].quantile(LOWEST)
    bound = LOUD
    if (table["importance"] > LOUD).sum() < TRIED:
        bound = float(table["importance"].quantile(1 - LOUDEST))
    loud = table["importance"] > bound
    flagged = table["whole"] & loud & lowest & table["neutral"]
    size = table["value"].abs()
    control = table["whole"] & (size < size.median()) & ~flagged
    return table.assign(loud=loud, flagged=flagged, control=control)


LOUD_AND_NEGATIVE = WordChoice(CONTROL, _mark)


def outcome(found: Found) -> Outcome:
    """Flips and paths; see ``CaseStudy.found``."""
    numbers, rows = split_scores(found.rows[found.models[0].key])
    scores = LOUD_AND_NEGATIVE.table(numbers)
    loud = scores[scores["loud"]]
    negative, positive = int((loud["value"] < 0).sum()), int((loud["value"] > 0).sum())
    counted = pd.DataFrame([flips(kind, rows) for kind in (FLAGGED, CONTROL)])
    followed = paths((FLAGGED, CONTROL), rows)
    turned = counted.set_index("words")["turned"]
    flagged = LOUD_AND_NEGATIVE.tried(scores)
    none = "" if len(flagged) else " No word was flagged, so that none was put in."
    return Outcome(
        checks=(
            at_least("loud tokens: negative over positive", negative / max(positive, 1), 1.0),
            at_least(
                "reviews turned by flagged words over those turned by the control (at least half "
                "a review)",
                turned[FLAGGED] / max(turned[CONTROL], 0.5),
                2.0,
            ),
        ),
        tables={
            "flips": counted,
            "paths": followed,
            "flagged": flagged[["token", "value", "importance", "naive-bayes"]],
        },
        figures={"scores": lambda: _draw(scores), "paths": lambda: _draw_paths(followed)},
        remarks=(
            f"{len(scores)} distinct tokens of the first {FIRST} test reviews, fitted to 5,000 "
            f"pairs. {int((scores['importance'] > LOUD).sum())} have an importance above "
            f"{LOUD:g}, the paper's bound; where these are fewer than {TRIED}, the loudest tenth "
            f"counts as loud. {negative} loud tokens have a negative value and {positive} a "
            f"positive one. Flagged are {int(scores['flagged'].sum())} words: loud, among the "
            f"lowest fifth of all values, and with a Naive-Bayes weight below {NEUTRAL_WEIGHT:g} "
            "in size.",
            f"Each of up to {EDITS} edits puts one word before, into the middle of or behind a "
            f"review, whichever of up to {TRIED} words lowers the log odds most. The control has "
            "as many random words with small values, and the same choice. The paper edits one "
            "review by hand.",
            *found.remarks[:1],
        ),
        finding=(
            f"Of {len(rows)} reviews, flagged words turn {turned[FLAGGED]:g} and random words of "
            f"small value {turned[CONTROL]:g}; {negative} loud tokens are negative and {positive} "
            f"positive.{none}"
        ),
    )


def _draw(scores: pd.DataFrame) -> Figure:
    """Value against importance of loud tokens, as in Fig. 14."""
    figure, (axes,) = panels(1, width=7.0, height=5.0)
    loud = scores[scores["loud"]]
    for row in loud.itertuples():
        colour = RED if row.flagged else NEUTRAL
        axes.annotate(str(row.token), (row.value, row.importance), fontsize=6, color=colour)
    axes.plot(loud["value"], loud["importance"], ".", color=BLUE, markersize=2)
    axes.axvline(0, color=NEUTRAL, linewidth=0.5)
    axes.set(xlabel="value (red: flagged)", ylabel="importance")
    return figure


def _draw_paths(paths: pd.DataFrame) -> Figure:
    """Mean log odds by edits."""
    figure, (axes,) = panels(1, width=4.2)
    for kind, colour in ((FLAGGED, RED), (CONTROL, BLUE)):
        part = paths[paths["words"] == kind]
        axes.errorbar(part["edits"], part["ours"], part["s.e."].fillna(0), color=colour, label=kind)
    axes.plot(range(EDITS + 1), PRINTED, "x", color=NEUTRAL, label="the paper's review")
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set(xlabel="edits", ylabel="log odds", xticks=range(EDITS + 1))
    axes.legend(fontsize="x-small")
    return figure
