"""Figure 14 and App. F.8: words that a model takes for bad, found in its scores and then used.

The distinct tokens of a few reviews are fitted together. Of the loud ones, some are negative to
the model though they are not so in the data; put into reviews that the model rightly takes for
positive, they should turn them, and words without a value should not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from slalom_xai.errors import InputError
from slalom_xai.experiments.base import PAPER, experiment
from slalom_xai.experiments.cells import Numbers, Work
from slalom_xai.experiments.imdb import DATA, STUDY, Found, Study
from slalom_xai.experiments.imdb_sizes import Size
from slalom_xai.experiments.language import standard_error
from slalom_xai.experiments.review_models import LABELS, label_of
from slalom_xai.experiments.vocabulary_fit import draw_pairs, fit_vocabulary, tokens_of
from slalom_xai.outputs import Outputs
from slalom_xai.theory.base import Outcome, Settings, at_least
from slalom_xai.theory.drawing import BLUE, NEUTRAL, RED, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOUD = 2.0  # importances above this matter, in the paper
LOUDEST = 0.1  # the share of tokens that are taken for loud where fewer than TRIED are above that
NEUTRAL_WEIGHT = 0.3  # Naive-Bayes weights below this size say nothing
LOWEST = 0.2  # the share of tokens that are most negative to the model
SEEN = 10  # times that a token must stand in the corpus as a word
EDITS = 4
TRIED = 15  # words of either kind that are tried for each edit
FIRST = 15  # reviews whose tokens are fitted
_AT_ONCE = 50  # reviews asked together
_PRINTED = (1.52, 0.68, 0.56, 0.10, -0.58)  # log odds of the paper's review, edit by edit
FLAGGED, CONTROL = "flagged words", "random words of small value"
_SCORES = "vocabulary"


@dataclass(frozen=True)
class CaseSize:
    """How much is computed.

    Attributes:
        reviews: that are edited.
        words: of these at most; None: any number.
        pairs: that the model is asked about.
    """

    reviews: int
    words: int | None
    pairs: int = 5000


SMALL = CaseSize(20, 100)
FULL = CaseSize(100, None)


@experiment(
    name="fig-14",
    title="Words that a model takes for bad, though they are not, turn reviews round",
    source=f"{PAPER}, Appendix F.8, Figure 14",
    study=STUDY,
    hours=2,
    data=DATA,
)
def fig_14(settings: Settings) -> Outcome:
    """Scores of a vocabulary, and reviews edited with what they show."""
    return outcome(CaseStudy(settings, FULL if settings.full else SMALL).found())


class CaseStudy(Study):
    """The first model of the IMDB experiments, its vocabulary and edited reviews.

    Args:
        settings: seed, size, data, store and progress.
        case: how much is computed.
        size: of the IMDB experiments; None: as the settings say.
    """

    def __init__(self, settings: Settings, case: CaseSize, size: Size | None = None) -> None:
        super().__init__(settings, "fig-14", size)
        self._case = case

    def found(self) -> Found:
        """The scores of the vocabulary, and a cell for each edited review."""
        key = self.models[0].key
        work: dict[str, Work] = {f"{key} {_SCORES}": self._scores}
        for index in range(self._case.reviews):
            work[f"{key} edited-{index}"] = partial(self._edited, index)
        return self._filled(work, "editing reviews")

    def _scores(self) -> Numbers:
        """Values, importances and Naive-Bayes weights of the tokens of the first reviews."""
        model = self._model(self.models[0])
        tokens = tokens_of(model, self._test.texts[:FIRST])
        rng = np.random.default_rng(self._settings.seed)
        pairs = draw_pairs(len(tokens), self._case.pairs, rng)
        slalom = fit_vocabulary(model, tokens, pairs)
        names = [str(name) for name in model.tokenizer.convert_ids_to_tokens(tokens)]
        counts = self._corpus.by_class(Outputs("binary", LABELS))
        return {
            "tokens": names,
            "values": slalom.values[0, :, 0].tolist(),
            "importances": slalom.importances[0].tolist(),
            "naive-bayes": self._corpus.weights(counts, names)[:, 0].tolist(),
            "seen": [sum(count[name] for count in counts) for name in names],
        }

    def _edited(self, index: int) -> Numbers:
        """Log odds of a review edit by edit, with words of both kinds."""
        name = f"{self.models[0].key} {_SCORES}"
        scores = scores_table(self._cells.get(name, self._scores))
        rng = np.random.default_rng([self._settings.seed, index])
        flagged = scores[scores["flagged"]].nsmallest(TRIED, "value")["token"].tolist()
        quiet = scores[scores["control"]]["token"].to_numpy()
        drawn = rng.permutation(len(quiet))[: len(flagged)]
        text = self._positive[index]
        return {
            FLAGGED: self._path(text, flagged),
            CONTROL: self._path(text, quiet[drawn].tolist()),
        }

    def _path(self, text: str, words: list[str]) -> list[float]:
        """Log odds after each edit; the best word at the best of three places is taken."""
        model = self._model(self.models[0])
        path = model.log_odds([text])
        for _ in range(EDITS if words else 0):
            tried = [edit for word in words for edit in with_word(text, word)]
            answers = model.log_odds(tried)
            best = int(np.argmin(answers))
            text = tried[best]
            path.append(answers[best])
        return path

    @cached_property
    def _positive(self) -> list[str]:
        """Positive reviews that the model finds so, none of those whose tokens were fitted."""
        case, test, model = self._case, self._test, self._model(self.models[0])
        known = [
            text
            for text, label in zip(test.texts[FIRST:], test.labels[FIRST:], strict=True)
            if label_of(label) == LABELS[1]
            and (case.words is None or len(text.split()) <= case.words)
        ]
        found: list[str] = []
        for start in range(0, len(known), _AT_ONCE):
            part = known[start : start + _AT_ONCE]
            answers = model.log_odds(part)
            found += [text for text, odds in zip(part, answers, strict=True) if odds > 0]
            if len(found) >= case.reviews:
                return found[: case.reviews]
        raise InputError(
            f"fig-14 edits {case.reviews} positive reviews that the model finds so, but there are "
            f"{len(found)} in imdb_test: give a table with more rows"
        )


def with_word(text: str, word: str) -> list[str]:
    """A text with a word put before it, into its middle and after it."""
    words = text.split()
    return [
        " ".join([*words[:place], word, *words[place:]])
        for place in (0, len(words) // 2, len(words))
    ]


def scores_table(scores: Numbers) -> pd.DataFrame:
    """One row per token, with who is flagged and who may be a control.

    Flagged are loud words among the most negative whose Naive-Bayes weight says nothing; controls
    are words of a value below the median's size. Marks and pieces of words, which reviews hardly
    have as words, are neither.
    Importances have no common scale: where hardly any is above the paper's bound, the loudest
    tenth is loud.
    """
    table = pd.DataFrame(
        {
            "token": scores["tokens"],
            "value": scores["values"],
            "importance": scores["importances"],
            "naive-bayes": scores["naive-bayes"],
            "seen": scores["seen"],
        }
    )
    whole = table["token"].str.isalpha() & table["token"].str.len().gt(1) & (table["seen"] >= SEEN)
    lowest = table["value"] <= table["value"].quantile(LOWEST)
    plain = table["naive-bayes"].abs() < NEUTRAL_WEIGHT
    bound = LOUD
    if (table["importance"] > LOUD).sum() < TRIED:
        bound = float(table["importance"].quantile(1 - LOUDEST))
    table["loud"] = table["importance"] > bound
    table["flagged"] = whole & table["loud"] & lowest & plain
    size = table["value"].abs()
    table["control"] = whole & (size < size.median()) & ~table["flagged"]
    return table


def outcome(found: Found) -> Outcome:
    """Flips and paths; see ``CaseStudy.found``."""
    rows = dict(found.rows[found.models[0].key])
    scores = scores_table(rows.pop(_SCORES)) if _SCORES in rows else None
    if scores is None:
        raise InputError("the scores of the vocabulary are not finished: leave --finished out")
    loud = scores[scores["loud"]]
    negative, positive = int((loud["value"] < 0).sum()), int((loud["value"] > 0).sum())
    flips = pd.DataFrame([_flips(kind, rows) for kind in (FLAGGED, CONTROL)])
    paths = _paths(rows)
    turned = flips.set_index("words")["turned"]
    flagged = scores[scores["flagged"]].nsmallest(TRIED, "value")
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
            "flips": flips,
            "paths": paths,
            "flagged": flagged[["token", "value", "importance", "naive-bayes"]],
        },
        figures={"scores": lambda: _draw(scores), "paths": lambda: _draw_paths(paths)},
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
            "positive."
        ),
    )


def _flips(kind: str, rows: Mapping[str, Numbers]) -> dict[str, float | str]:
    """How many reviews turn, and after how many edits."""
    edits = [edits_to_turn(numbers[kind]) for numbers in rows.values()]
    turned = [count for count in edits if count is not None]
    drops = [numbers[kind][0] - numbers[kind][-1] for numbers in rows.values()]
    return {
        "words": kind,
        "turned": len(turned),
        "share": len(turned) / len(edits) if edits else float("nan"),
        "edits, median": float(np.median(turned)) if turned else float("nan"),
        "edits, paper": float(EDITS) if kind == FLAGGED else float("nan"),
        "log odds lost": float(np.mean(drops)) if drops else float("nan"),
        "s.e.": standard_error(drops),
        "reviews": len(edits),
    }


def edits_to_turn(path: list[float]) -> int | None:
    """After how many edits the log odds are negative; None: never."""
    return next((count for count, odds in enumerate(path) if odds < 0), None)


def _paths(rows: Mapping[str, Numbers]) -> pd.DataFrame:
    """Mean log odds after each edit, beside those of the paper's review."""
    made = []
    for kind in (FLAGGED, CONTROL):
        for edit, printed in enumerate(_PRINTED):
            reached = [numbers[kind] for numbers in rows.values() if len(numbers[kind]) > edit]
            odds = [path[edit] for path in reached]
            made.append(
                {
                    "words": kind,
                    "edits": edit,
                    "paper": printed if kind == FLAGGED else float("nan"),
                    "ours": float(np.mean(odds)) if odds else float("nan"),
                    "s.e.": standard_error(odds),
                    "reviews": len(odds),
                }
            )
    return pd.DataFrame(made)


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
    axes.plot(range(EDITS + 1), _PRINTED, "x", color=NEUTRAL, label="the paper's review")
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set(xlabel="edits", ylabel="log odds", xticks=range(EDITS + 1))
    axes.legend(fontsize="x-small")
    return figure
