"""App. F.8 on two models: neutral words that the two scores call bad turn good reviews round.

As in Figure 14, the distinct tokens of a few reviews are fitted together, and words that say
nothing in the data are put into reviews that the model rightly takes for positive. Here they are
ranked by both scores at once, value times exp(importance), which is what one more word does in a
long text up to a factor. The control are random words that say nothing in the data, either.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from research.base import PAPER, Check, Outcome, Settings, at_least, reproduction
from research.paper.edited_reviews import (
    EDITS,
    FIRST,
    FLAGGED,
    TRIED,
    CaseSize,
    CaseStudy,
    WordChoice,
    flips,
    paths,
    split_scores,
)
from research.paper.imdb import DATA, Found
from research.paper.imdb_sizes import FULL as FULL_MODELS
from research.paper.imdb_sizes import SMALL as SMALL_MODELS
from research.paper.imdb_sizes import Size
from research.paper.review_models import EMBEDDED, ModelSpec

NAME = "case-study"
CONTROL = "random words"
WORDS = 100  # of an edited review at most: in a long one, four words are next to nothing
NEUTRAL = 1.0  # z-statistics below this size say nothing
AGAIN = 2.0  # as many reviews as the control's must turn

SMALL = CaseSize(20, WORDS)
FULL = CaseSize(100, WORDS)


@reproduction(
    name=NAME,
    title="Up to four neutral words, chosen by their two scores, turn reviews round",
    source=f"{PAPER}, Appendix F.8",
    study=NAME,
    hours=2,
    data=DATA,
)
def case_study(settings: Settings) -> Outcome:
    """Two models, their vocabularies, and reviews edited with what these show."""
    case, size = (FULL, FULL_MODELS) if settings.full else (SMALL, SMALL_MODELS)
    return outcome(study(settings, case, size).found())


def study(settings: Settings, case: CaseSize, size: Size) -> CaseStudy:
    """The embedded model and the first of a size."""
    embedded = ModelSpec("Embedded model", init=EMBEDDED, limit=512)
    two = replace(size, models=(embedded, size.models[0]))
    return CaseStudy(settings, NAME, case, PULLING, two, models=None)


def _mark(table: pd.DataFrame) -> pd.DataFrame:
    """Flagged are the neutral words with the lowest value times exp(importance)."""
    pull = table["value"] * np.exp(table["importance"])
    able = table["whole"] & (table["z"].abs() < NEUTRAL)
    lowest = pull[able & (table["value"] < 0)].nsmallest(TRIED)
    flagged = table.index.isin(lowest.index)
    return table.assign(pull=pull, flagged=flagged, control=able & ~flagged)


PULLING = WordChoice(CONTROL, _mark, by="pull")


def outcome(found: Found) -> Outcome:
    """Flips and paths of every model; see ``CaseStudy.found``."""
    checks: list[Check] = []
    counted, followed, words, said = [], [], [], []
    for spec in found.models:
        numbers, rows = split_scores(found.rows[spec.key])
        table = pd.DataFrame([flips(kind, rows) for kind in (FLAGGED, CONTROL)])
        turned = table.set_index("words")["turned"]
        ratio = turned[FLAGGED] / max(turned[CONTROL], 0.5)
        title = f"{spec.name}: reviews turned by flagged words over the control's (at least half)"
        checks.append(at_least(title, ratio, AGAIN))
        counted.append(table.assign(model=spec.name))
        followed.append(paths((FLAGGED, CONTROL), rows).assign(model=spec.name))
        words.append(PULLING.tried(PULLING.table(numbers)).assign(model=spec.name))
        said.append(
            f"{spec.name}: of {len(rows)} reviews, flagged words turn {turned[FLAGGED]:g} and "
            f"random words {turned[CONTROL]:g}."
        )
    shown = ["model", "token", "value", "importance", "z"]
    return Outcome(
        checks=tuple(checks),
        tables={
            "paths": _by_model(followed),
            "flips": _by_model(counted),
            "flagged": pd.concat(words)[shown],
        },
        remarks=(
            f"The tokens of the first {FIRST} test reviews are fitted to 5,000 pairs. Flagged are "
            f"the {TRIED} words with the lowest value times exp(importance) among neutral ones, "
            "which stand about as often in negative as in positive training reviews (a z-statistic "
            f"below {NEUTRAL:g} in size). The control has as many random words among the neutral, "
            "drawn anew for each review.",
            f"Each of up to {EDITS} edits puts one word before, into the middle of or behind a "
            f"review of up to {WORDS} words that the model rightly takes for positive, whichever "
            "lowers the log odds most. The paper edits one review by hand.",
            *found.remarks,
        ),
        finding=" ".join(said),
    )


def _by_model(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other, with the model first."""
    joined = pd.concat(tables, ignore_index=True)
    return joined[["model", *(name for name in joined.columns if name != "model")]]
