"""The classifier in the ordinary explainer, and the slides' seven explainers side by side on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.explainer import Explainer
from slalom_xai.metrics.ranks import auroc, spearman
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, NEUTRAL, RED, panels
from slalom_xai.theory.paper.synthetic import one_thread
from slalom_xai.theory.slides.averages import word_averages
from slalom_xai.theory.slides.classifier import AttentionClassifier
from slalom_xai.theory.slides.explainers import EXPLAINERS, SIGNED, seven_scores
from slalom_xai.theory.slides.reviews import (
    STRENGTH,
    accuracy,
    tokenizer,
    trained_classifier,
    write_reviews,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
TEXT = "the soup was superb and the bread was fresh but our waiter was rude so the bill was awful"
REVIEWS = 60


@reproduction(
    name="attention-classifier",
    title="One layer of attention read at [CLS], explained like any other module",
    source="Lopardo, Precioso and Garreau 2024, the model",
)
@one_thread()
def ordinary_explainer(settings: Settings) -> Outcome:
    """Trains the classifier on made-up reviews and explains one with its [UNK] in the place of removed words."""
    model = trained_classifier(write_reviews(1500, settings.seed), settings.seed, steps=300)
    words = tokenizer()
    explanation = Explainer(
        model,
        words,
        removal="unk",
        granularity="type",
        show_progress=False,
        random_state=settings.seed,
    )(TEXT)
    ids = torch.tensor(words(TEXT)["input_ids"])
    averages, _ = word_averages(model, ids)
    rows = np.random.default_rng(settings.seed).random((500, averages.words)) < 0.5
    predicted, true = explanation.predict(rows), averages.output(rows)
    fidelity = explanation.fidelity
    strengths = np.array([STRENGTH.get(unit.text, 0.0) for unit in explanation.units])
    table = pd.DataFrame(
        {
            "word": [unit.text for unit in explanation.units],
            "value": explanation.values,
            "importance": explanation.importances,
            "what it loses": explanation.scores("removal"),
            "strength": strengths,
        }
    )
    opinions = strengths != 0
    return Outcome(
        checks=(
            at_least(
                "accuracy of the classifier on 500 new reviews",
                accuracy(model, write_reviews(500, settings.seed + 1)),
                0.9,
            ),
            at_most(
                "prediction kept by the explanation, minus the module's answer",
                abs(explanation.prediction - _answer(model, ids)),
                1e-5,
            ),
            at_least(
                "r² of the explanation on removals it was not fitted to",
                fidelity.wide.r2 if fidelity else float("nan"),
                0.9,
            ),
            at_least(
                "r² of the same against the two sums of the formula",
                1 - float(((predicted - true) ** 2).mean() / true.var()),
                0.9,
            ),
            at_least(
                "words of opinion whose loss has the sign of their strength, as a share",
                float(
                    (
                        np.sign(table["what it loses"][opinions]) == np.sign(strengths[opinions])
                    ).mean()
                ),
                1.0,
            ),
        ),
        tables={"words": table},
        figures={"scores": lambda: _draw_pair(table)},
        remarks=(
            (
                "A word that goes is replaced by [UNK] wherever it stands; [CLS] and the filling "
                "are the explanation's sink."
            ),
        ),
    )


def _answer(model: AttentionClassifier, ids: Tensor) -> float:
    with torch.no_grad():
        return float(model.read(model.embed(ids[None]))[0])


def _draw_pair(table: pd.DataFrame) -> Figure:
    """Value against importance, coloured by the known strength."""
    figure, (axes,) = panels(1, width=4.6, height=3.2)
    colours = [BLUE if one > 0 else RED if one < 0 else NEUTRAL for one in table["strength"]]
    axes.scatter(table["importance"], table["value"], s=16, c=colours)
    for place, (word, x, y) in enumerate(
        zip(table["word"], table["importance"], table["value"], strict=True)
    ):
        axes.annotate(
            str(word),
            (x, y),
            fontsize=7,
            xytext=(3, -8 if place % 2 else 3),
            textcoords="offset points",
        )
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set_xlabel("importance")
    axes.set_ylabel("value")
    return figure


@reproduction(
    name="seven-explainers",
    title="Seven explainers on one sentence: attention knows no direction, and they disagree",
    source="Lopardo, Precioso and Garreau 2024, summary of methods",
)
@one_thread()
def side_by_side(settings: Settings) -> Outcome:
    """Scores of one sentence by seven explainers, what a change of sign does to each, and how well they find known words."""
    model = trained_classifier(
        write_reviews(1500, settings.seed), settings.seed, heads=4, steps=300
    )
    ids = torch.tensor(tokenizer()(TEXT)["input_ids"])
    scores = _scores(model, ids, settings.seed)
    with torch.no_grad():
        model.head.neg_()
        turned = _scores(model, ids, settings.seed)
        model.head.neg_()
    changes = {
        name: _change(scores[name], turned[name], -1.0 if name in SIGNED else 1.0)
        for name in EXPLAINERS
    }
    agreement = np.array(
        [[spearman(scores[one], scores[other]) for other in EXPLAINERS] for one in EXPLAINERS]
    )
    known = _known(model, settings)
    pleasant = known.set_index("explainer")["pleasant"]
    return Outcome(
        checks=(
            at_most(
                "attention after the sign of the output layer is turned, minus before",
                max(changes[name] for name in EXPLAINERS[-2:]),
                0.0,
            ),
            at_most(
                "signed explainers after the turn, plus before",
                max(changes[name] for name in SIGNED),
                1e-6,
            ),
            at_most(
                "least rank correlation between two of the seven on the sentence",
                float(agreement.min()),
                0.3,
            ),
            at_least(
                "chance that LIME puts a pleasant word above an unpleasant one",
                pleasant["LIME"],
                0.95,
            ),
            at_most(
                "the same for attention: farthest from one half",
                max(abs(pleasant[name] - 0.5) for name in EXPLAINERS[-2:]),
                0.25,
            ),
        ),
        tables={"scores": _table(scores), "known words": known},
        figures={"sentence": lambda: _draw_sentence(scores)},
        remarks=(
            "Known words: the chance that a pleasant word scores above an unpleasant one "
            "(pleasant), and that a word of opinion has a larger "
            f"score, sign aside, than another word (opinion); mean over {REVIEWS} new reviews. "
            "Four heads.",
        ),
    )


def _scores(model: AttentionClassifier, ids: Tensor, seed: int) -> dict[str, Floats]:
    return seven_scores(model, ids, np.random.default_rng(seed))


def _change(before: Floats, after: Floats, sign: float) -> float:
    return float(np.abs(after - sign * before).max())


def _known(model: AttentionClassifier, settings: Settings) -> pd.DataFrame:
    """How well each explainer ranks words by the strengths that were planted."""
    reviews = write_reviews(REVIEWS, settings.seed + 1)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in EXPLAINERS}
    for row, mask, text in settings.track(
        list(zip(reviews.ids, reviews.mask, reviews.texts, strict=True)), "reviews"
    ):
        strengths = np.array([STRENGTH.get(word, 0.0) for word in text.split()])
        opinions = strengths != 0
        for name, values in _scores(model, row[mask.bool()], settings.seed).items():
            found[name].append(
                (auroc(values[opinions], strengths[opinions] > 0), auroc(np.abs(values), opinions))
            )
    means = {name: np.nanmean(pairs, axis=0) for name, pairs in found.items()}
    return pd.DataFrame(
        [
            {"explainer": name, "pleasant": float(one), "opinion": float(other)}
            for name, (one, other) in means.items()
        ]
    )


def _table(scores: dict[str, Floats]) -> pd.DataFrame:
    scaled = {
        name: np.round(values / np.abs(values).max(), 2) + 0.0 for name, values in scores.items()
    }
    return pd.DataFrame({"word": TEXT.split(), **scaled})


def _draw_sentence(scores: dict[str, Floats]) -> Figure:
    """One row of coloured words for each explainer, each scaled by its largest score."""
    words: Sequence[str] = TEXT.split()
    figure, (axes,) = panels(1, width=9.2, height=2.6)
    grid = np.stack([values / np.abs(values).max() for values in scores.values()])
    axes.imshow(grid, cmap="RdBu", vmin=-1.2, vmax=1.2, aspect="auto")
    for row in range(len(grid)):
        for place, word in enumerate(words):
            axes.text(
                place,
                row,
                word,
                ha="center",
                va="center",
                fontsize=7,
                color="white" if abs(grid[row, place]) > 0.8 else "black",
            )
    axes.set_yticks(range(len(grid)), list(scores))
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    return figure
