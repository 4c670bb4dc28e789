"""The classifier in the ordinary explainer, and the slides' seven explainers side by side on it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, RED, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from research.theory.slides.averages import word_averages
from research.theory.slides.classifier import AttentionClassifier
from research.theory.slides.explainers import ATTENTION, EXPLAINERS, SIGNED, seven_scores
from research.theory.slides.reviews import (
    EXAMPLE_REVIEW,
    STRENGTH,
    accuracy,
    tokenizer,
    trained_classifier,
    write_reviews,
)
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.metrics.statistics import auroc, spearman

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REVIEWS = 60


@reproduction(
    name="attention-classifier",
    title="One layer of attention read at [CLS], explained like any other module",
    source="Lopardo, Precioso and Garreau 2024, the model",
)
@one_thread()
def ordinary_explainer(settings: Settings) -> Outcome:
    """Trains the classifier on made-up reviews and explains one; removed words become [UNK]."""
    model = trained_classifier(write_reviews(1500, settings.seed), settings.seed, steps=300)
    explainer = Explainer(
        model,
        tokenizer(),
        removal="unk",
        granularity="type",
        show_progress=False,
        random_state=settings.seed,
    )
    explanation = explainer(EXAMPLE_REVIEW)
    table = pd.DataFrame(
        {
            "word": [unit.text for unit in explanation.units],
            "value": explanation.values,
            "importance": explanation.importances,
            "what it loses": explanation.scores("removal"),
            "strength": [STRENGTH.get(unit.text, 0.0) for unit in explanation.units],
        }
    )
    return Outcome(
        checks=(
            at_least(
                "accuracy of the classifier on 500 new reviews",
                accuracy(model, write_reviews(500, settings.seed + 1)),
                0.9,
            ),
            *_explanation_checks(model, explanation, settings.seed),
            at_least(
                "words of opinion whose loss has the sign of their strength, as a share",
                _right_signs(table),
                1.0,
            ),
        ),
        tables={"words": table},
        figures={"scores": lambda: _draw_pair(table)},
        remarks=(
            "A word that goes is replaced by [UNK] wherever it stands; [CLS] and the filling are "
            "the explanation's sink.",
        ),
    )


def _explanation_checks(
    model: AttentionClassifier, explanation: Explanation, seed: int
) -> tuple[Check, ...]:
    """The explanation against the module's answers and against its formula."""
    ids = torch.tensor(tokenizer()(EXAMPLE_REVIEW)["input_ids"])
    averages, _ = word_averages(model, ids)
    keep = np.random.default_rng(seed).random((500, averages.words)) < 0.5
    predicted, true = explanation.predict(keep), averages.output(keep)
    stated = float("nan")
    if explanation.fidelity:
        stated = explanation.fidelity.any.r2
    return (
        at_most(
            "prediction kept by the explanation, minus the module's answer",
            abs(explanation.prediction - _answer(model, ids)),
            1e-5,
        ),
        at_least("r² of the explanation on removals it was not fitted to", stated, 0.9),
        at_least(
            "r² of the same against the two sums of the formula",
            1 - float(((predicted - true) ** 2).mean() / true.var()),
            0.9,
        ),
    )


def _right_signs(table: pd.DataFrame) -> float:
    """The share of words of opinion whose removal moves the output as their strength says."""
    opinions = table[table["strength"] != 0]
    return float((np.sign(opinions["what it loses"]) == np.sign(opinions["strength"])).mean())


def _answer(model: AttentionClassifier, ids: Tensor) -> float:
    with torch.no_grad():
        return float(model.read(model.embed(ids[None]))[0])


def _draw_pair(table: pd.DataFrame) -> Figure:
    """Value against importance, coloured by the known strength."""
    figure, (axes,) = panels(1, width=4.6, height=3.2)
    colours = {1.0: BLUE, -1.0: RED, 0.0: NEUTRAL}
    signs = np.sign(table["strength"])
    axes.scatter(
        table["importance"], table["value"], s=16, c=[colours[float(sign)] for sign in signs]
    )
    heights = itertools.cycle((3, -8))  # points: labels stand above and below in turn
    words = zip(table["word"], table["importance"], table["value"], heights, strict=False)
    for word, x, y, height in words:
        axes.annotate(str(word), (x, y), fontsize=7, xytext=(3, height), textcoords="offset points")
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set_xlabel("importance")
    axes.set_ylabel("value")
    return figure


@reproduction(
    name="seven-explainers",
    title="Seven explainers of one sentence disagree, and attention has no direction",
    source="Lopardo, Precioso and Garreau 2024, summary of methods",
)
@one_thread()
def side_by_side(settings: Settings) -> Outcome:
    """Scores of one sentence, what a change of sign does to them, and known words."""
    model = trained_classifier(
        write_reviews(1500, settings.seed), settings.seed, heads=4, steps=300
    )
    ids = torch.tensor(tokenizer()(EXAMPLE_REVIEW)["input_ids"])
    scores = _scores(model, ids, settings.seed)
    with torch.no_grad():
        model.head.neg_()
        turned = _scores(model, ids, settings.seed)
        model.head.neg_()
    known = _known(model, settings)
    return Outcome(
        checks=(*_turn_checks(scores, turned), *_agreement_checks(scores, known)),
        tables={"scores": _table(scores), "known words": known},
        figures={"sentence": lambda: _draw_sentence(scores)},
        remarks=(
            "Known words: the chance that a pleasant word scores above an unpleasant one "
            "(pleasant), and that a word of opinion has a larger score, sign aside, than another "
            f"word (opinion); mean over {REVIEWS} new reviews. Four heads.",
        ),
    )


def _turn_checks(scores: dict[str, Floats], turned: dict[str, Floats]) -> tuple[Check, ...]:
    """What happens to scores when the sign of the output layer is turned."""
    attention = [float(np.abs(turned[name] - scores[name]).max()) for name in ATTENTION]
    signed = [float(np.abs(turned[name] + scores[name]).max()) for name in SIGNED]
    return (
        at_most(
            "attention after the sign of the output layer is turned, minus before",
            max(attention),
            0.0,
        ),
        at_most("signed explainers after the turn, plus before", max(signed), 1e-6),
    )


def _agreement_checks(scores: dict[str, Floats], known: pd.DataFrame) -> tuple[Check, ...]:
    pairs = itertools.combinations(EXPLAINERS, 2)
    correlations = [spearman(scores[one], scores[other]) for one, other in pairs]
    pleasant = known.set_index("explainer")["pleasant"]
    return (
        at_most(
            "least rank correlation between two of the seven on the sentence",
            min(correlations),
            0.3,
        ),
        at_least(
            "chance that LIME puts a pleasant word above an unpleasant one",
            pleasant["LIME"],
            0.95,
        ),
        at_most(
            "the same for attention: farthest from one half",
            max(abs(pleasant[name] - 0.5) for name in ATTENTION),
            0.25,
        ),
    )


def _scores(model: AttentionClassifier, ids: Tensor, seed: int) -> dict[str, Floats]:
    return seven_scores(model, ids, np.random.default_rng(seed))


def _known(model: AttentionClassifier, settings: Settings) -> pd.DataFrame:
    """How well each explainer ranks words by the strengths that were planted."""
    reviews = write_reviews(REVIEWS, settings.seed + 1)
    pleasant: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    opinion: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    texts = list(zip(reviews.ids, reviews.mask, reviews.texts, strict=True))
    for ids, mask, text in settings.track(texts, "reviews"):
        strengths = np.array([STRENGTH.get(word, 0.0) for word in text.split()])
        opinions = strengths != 0
        for name, values in _scores(model, ids[mask.bool()], settings.seed).items():
            pleasant[name].append(auroc(values[opinions], strengths[opinions] > 0))
            opinion[name].append(auroc(np.abs(values), opinions))
    return pd.DataFrame(
        {
            "explainer": EXPLAINERS,
            "pleasant": [float(np.nanmean(pleasant[name])) for name in EXPLAINERS],
            "opinion": [float(np.nanmean(opinion[name])) for name in EXPLAINERS],
        }
    )


def _table(scores: dict[str, Floats]) -> pd.DataFrame:
    """Scores of each word, divided by the largest of their explainer."""
    scaled = {}
    for name, values in scores.items():
        rounded = np.round(values / np.abs(values).max(), 2)
        scaled[name] = rounded + 0.0  # no negative zeros
    return pd.DataFrame({"word": EXAMPLE_REVIEW.split(), **scaled})


def _draw_sentence(scores: dict[str, Floats]) -> Figure:
    """One row of coloured words for each explainer, each scaled by its largest score."""
    words = EXAMPLE_REVIEW.split()
    figure, (axes,) = panels(1, width=9.2, height=2.6)
    grid = np.stack([values / np.abs(values).max() for values in scores.values()])
    axes.imshow(grid, cmap="RdBu", vmin=-1.2, vmax=1.2, aspect="auto")
    for row, line in enumerate(grid):
        for index, word in enumerate(words):
            colour = "black"
            if abs(line[index]) > 0.8:
                colour = "white"  # on a dark ground
            axes.text(index, row, word, ha="center", va="center", fontsize=7, color=colour)
    axes.set_yticks(range(len(grid)), list(scores))
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure
