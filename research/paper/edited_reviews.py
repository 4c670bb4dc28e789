"""Reviews edited with words that a model takes for bad: what Figure 14 and the case study share.

The distinct tokens of a few reviews are fitted together. An experiment says which of them are
flagged and which are the control. Words of both kinds are put into reviews that the model rightly
takes for positive, one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from research.base import Settings
from research.cells import Numbers, Work
from research.paper.imdb import Found, Study
from research.paper.imdb_sizes import Size
from research.paper.language import standard_error
from research.paper.review_models import LABELS, ModelSpec, label_of
from research.paper.vocabulary_fit import draw_pairs, fit_vocabulary, tokens_of
from slalom_xai.errors import InputError
from slalom_xai.models.outputs import Outputs

NEUTRAL_WEIGHT = 0.3  # Naive-Bayes weights below this size say nothing
SEEN = 10  # times that a token must stand in the corpus as a word
EDITS = 4
TRIED = 15  # words of either kind that are tried for each edit
FIRST = 15  # reviews whose tokens are fitted
PRINTED = (1.52, 0.68, 0.56, 0.10, -0.58)  # log odds of the paper's review, edit by edit
FLAGGED = "flagged words"
SCORES = "vocabulary"
_AT_ONCE = 50  # reviews asked together


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


@dataclass(frozen=True)
class WordChoice:
    """Which words are put into reviews.

    Attributes:
        control: what the words of the control are called.
        mark: adds the columns "flagged" and "control", of booleans, to the table of
            ``token_table``; flagged words are best first by the column ``by``.
        by: the column whose lowest numbers come first.
    """

    control: str
    mark: Callable[[pd.DataFrame], pd.DataFrame]
    by: str = "value"

    def table(self, scores: Numbers) -> pd.DataFrame:
        """One row per token, with who is flagged and who may be a control."""
        return self.mark(token_table(scores))

    def tried(self, table: pd.DataFrame) -> pd.DataFrame:
        """The flagged words that are tried, the best first."""
        return table[table["flagged"]].nsmallest(TRIED, self.by)


def token_table(scores: Numbers) -> pd.DataFrame:
    """One row per token: its scores, whether it is a whole word, and whether it is neutral.

    Marks and pieces of words, which reviews hardly have as words, are no whole words. Neutral are
    words whose Naive-Bayes weight says nothing.
    """
    table = pd.DataFrame(
        {
            "token": scores["tokens"],
            "value": scores["values"],
            "importance": scores["importances"],
            "naive-bayes": scores["naive-bayes"],
            "seen": scores["seen"],
            "z": scores.get("z", float("nan")),
        }
    )
    letters = table["token"].str.isalpha() & table["token"].str.len().gt(1)
    table["whole"] = letters & (table["seen"] >= SEEN)
    table["neutral"] = table["naive-bayes"].abs() < NEUTRAL_WEIGHT
    return table


class CaseStudy(Study):
    """Models of reviews, their vocabularies and edited reviews.

    Args:
        settings: seed, size, data, store and progress.
        experiment: the name of what is run, for messages.
        case: how much is computed.
        choice: which words are put in.
        size: of the IMDB experiments; None: as the settings say.
        models: how many of its models are studied; None: all.
    """

    def __init__(
        self,
        settings: Settings,
        experiment: str,
        case: CaseSize,
        choice: WordChoice,
        size: Size | None = None,
        models: int | None = 1,
    ) -> None:
        super().__init__(settings, experiment, size)
        self._case, self._choice = case, choice
        self._studied = self.models[:models]
        self._found_positive: dict[str, list[str]] = {}

    def found(self) -> Found:
        """The scores of each vocabulary, and a cell for each edited review."""
        work: dict[str, Work] = {}
        for spec in self._studied:
            work[f"{spec.key} {SCORES}"] = partial(self._scores, spec)
            for index in range(self._case.reviews):
                work[f"{spec.key} edited-{index}"] = partial(self._edited, spec, index)
        return self._filled(work, "editing reviews")

    def _scores(self, spec: ModelSpec) -> Numbers:
        """Values, importances and Naive-Bayes weights of the tokens of the first reviews."""
        model = self._model(spec)
        tokens = tokens_of(model, self._test.texts[:FIRST])
        rng = np.random.default_rng(self._settings.seed)
        pairs = draw_pairs(len(tokens), self._case.pairs, rng)
        slalom = fit_vocabulary(model, tokens, pairs)
        names = [str(name) for name in model.tokenizer.convert_ids_to_tokens(tokens)]
        counts = self._corpus.by_class(Outputs("binary", LABELS))
        share = sum(counts[1].values()) / sum(sum(count.values()) for count in counts)
        return {
            "tokens": names,
            "values": slalom.values[0, :, 0].tolist(),
            "importances": slalom.importances[0].tolist(),
            "naive-bayes": self._corpus.weights(counts, names)[:, 0].tolist(),
            "seen": [sum(count[name] for count in counts) for name in names],
            "z": [z_statistic(counts[0][name], counts[1][name], share) for name in names],
        }

    def _edited(self, spec: ModelSpec, index: int) -> Numbers:
        """Log odds of a review edit by edit, with words of both kinds."""
        scores = self._cells.get(f"{spec.key} {SCORES}", partial(self._scores, spec))
        table = self._choice.table(scores)
        rng = np.random.default_rng([self._settings.seed, index])
        flagged = self._choice.tried(table)["token"].tolist()
        others = table[table["control"]]["token"].to_numpy()
        drawn = rng.permutation(len(others))[: len(flagged)]
        text = self._positive(spec)[index]
        return {
            FLAGGED: self._path(spec, text, flagged),
            self._choice.control: self._path(spec, text, others[drawn].tolist()),
        }

    def _path(self, spec: ModelSpec, text: str, words: Sequence[str]) -> list[float]:
        """Log odds after each edit; the best word at the best of three places is taken."""
        model = self._model(spec)
        path = model.log_odds([text])
        for _ in range(EDITS if words else 0):
            tried = [edit for word in words for edit in with_word(text, word)]
            answers = model.log_odds(tried)
            best = int(np.argmin(answers))
            text = tried[best]
            path.append(answers[best])
        return path

    def _positive(self, spec: ModelSpec) -> list[str]:
        """Positive reviews that the model finds so, none of those whose tokens were fitted."""
        if spec.key not in self._found_positive:
            self._found_positive[spec.key] = self._look_for_positive(spec)
        return self._found_positive[spec.key]

    def _look_for_positive(self, spec: ModelSpec) -> list[str]:
        case, test, model = self._case, self._test, self._model(spec)
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
            f"{self._experiment} edits {case.reviews} positive reviews that the model finds so, "
            f"but there are {len(found)} in imdb_test: give a table with more rows"
        )


def z_statistic(negative: int, positive: int, share: float) -> float:
    """How far a word stands more often in positive reviews than chance puts it there.

    Args:
        negative: how often it stands in negative reviews.
        positive: in positive ones.
        share: of all words that stand in positive reviews.
    """
    seen = negative + positive
    if not seen:
        return 0.0
    return (positive - seen * share) / math.sqrt(seen * share * (1 - share))


def with_word(text: str, word: str) -> list[str]:
    """A text with a word put before it, into its middle and after it."""
    words = text.split()
    return [
        " ".join([*words[:place], word, *words[place:]])
        for place in (0, len(words) // 2, len(words))
    ]


def split_scores(rows: Mapping[str, Numbers]) -> tuple[Numbers, dict[str, Numbers]]:
    """The scores of a model's vocabulary, and its edited reviews.

    Raises:
        InputError: the scores are not finished.
    """
    edited = dict(rows)
    if SCORES not in edited:
        raise InputError("the scores of the vocabulary are not finished: leave --finished out")
    return edited.pop(SCORES), edited


def flips(kind: str, rows: Mapping[str, Numbers]) -> dict[str, float | str]:
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


def paths(kinds: Sequence[str], rows: Mapping[str, Numbers]) -> pd.DataFrame:
    """Mean log odds after each edit, beside those of the paper's review."""
    made = []
    for kind in kinds:
        for edit, printed in enumerate(PRINTED):
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
