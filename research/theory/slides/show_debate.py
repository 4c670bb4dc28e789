"""Is attention explanation? Attention against importance, and models that attend elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.classifier import AttentionClassifier, head_count
from research.theory.slides.counterfactual import LARGEST_DIVERGENCE
from research.theory.slides.debate import apart, debate_text, diverging_classifier
from research.theory.slides.embedded_attention import FILMS, embedded_model
from research.theory.slides.reviews import Reviews, accuracy, trained_classifier, write_reviews
from slalom_xai.explainer import Explainer
from slalom_xai.metrics.statistics import spearman

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS: tuple[int, ...] = (1, 2, 4)  # of the trained models
SEEDS: tuple[int, ...] = (0, 1, 2)  # of the trained models, beside the claim's own
DEBATED_TEXTS = 40  # new reviews that are measured
TARGETS = (0.1, 0.3, 0.5)  # divergences to which whole models are pushed
_STEPS, _FEW_STEPS = 500, 250  # of pushing, in full and in a small run
SOURCE = (
    "Jain and Wallace 2019, Wiegreffe and Pinter 2019, on the slides of Lopardo, Precioso and "
    "Garreau 2024"
)
IMPORTANCE = {"with_gradient": "gradient, L2", "with_removal": "removal", "with_lime": "LIME"}
_Models = dict[tuple[int, int], AttentionClassifier]  # by heads and seed


@reproduction(
    name="attention-debate",
    title="Attention of trained models goes with importance only in part, and other attention can "
    "give the same answers",
    source=SOURCE,
)
@one_thread()
def against_importance(settings: Settings) -> Outcome:
    """Rank correlations of attention with importance, and models that attend elsewhere."""
    train, test = write_reviews(1500, settings.seed), write_reviews(500, settings.seed + 1)
    table, every, models = _correlations(settings, train, test)
    plain = trained_classifier(train, settings.seed, heads=1, steps=300, attends=False)
    others = {"another seed": models[1, 1], "equal attention": plain}
    steps = _FEW_STEPS if settings.small else _STEPS
    for target in settings.track(TARGETS, "rivals"):
        rival = diverging_classifier(models[1, 0], train, target, settings.seed, steps)
        others[f"pushed away to {target}"] = rival
    rivals = _rivals(models[1, 0], others, test)
    films = _films(settings)
    return Outcome(
        checks=(
            *_correlation_checks(table, every, films, accuracy(plain, test)),
            *_rival_checks(rivals),
        ),
        tables={"correlations": table, "embedded-model": films, "rivals": rivals},
        figures={"correlations": lambda: _draw(every)},
        remarks=(
            f"Rank correlations over the words of {DEBATED_TEXTS} new reviews. Divergences are "
            f"Jensen-Shannon, at most log 2 = {LARGEST_DIVERGENCE:.3f}. Whether the model pushed "
            "away to 0.3 differs a little less or a little more than one of another seed depends "
            "on the seed.",
        ),
    )


def _correlations(
    settings: Settings, train: Reviews, test: Reviews
) -> tuple[pd.DataFrame, pd.DataFrame, _Models]:
    """Correlations of attention with importance: a line per model, a line per text, the models."""
    rng = np.random.default_rng(settings.seed)
    rows, texts, models = [], [], {}
    ids = [test.ids[text][test.mask[text].bool()] for text in range(DEBATED_TEXTS)]
    every_heads, seeds = HEADS, SEEDS
    if settings.small:
        every_heads, seeds, ids = HEADS[:1], SEEDS[:2], ids[: DEBATED_TEXTS // 4]
    for heads in every_heads:
        for seed in settings.track(seeds, f"models of {head_count(heads)}"):
            model = trained_classifier(train, settings.seed + seed, heads=heads, steps=300)
            models[heads, seed] = model
            measured = pd.DataFrame([asdict(debate_text(model, one, rng)) for one in ids])
            texts.append(measured.assign(heads=heads))
            means = measured[list(IMPORTANCE)].mean().rename(IMPORTANCE)
            right = accuracy(model, test)
            rows.append({"heads": heads, "seed": seed, "accuracy": right, **means})
    return pd.DataFrame(rows), pd.concat(texts), models


def _films(settings: Settings) -> pd.DataFrame:
    """Rank correlation of attention with removal in the embedded model, review by review."""
    model = embedded_model()
    by_attention = Explainer(
        model, method="attention-mean", granularity="token", show_progress=False
    )
    by_removal = Explainer(
        model, method="occlusion", granularity="token", removal="delete", show_progress=False
    )
    rows = []
    texts = FILMS[:2] if settings.small else FILMS
    for number, text in enumerate(settings.track(texts, "film reviews"), start=1):
        attention = by_attention(text).scores("value")
        removal = np.abs(by_removal(text).scores("value"))
        correlation = spearman(attention, removal)
        rows.append({"film review": number, "tokens": len(attention), "removal": correlation})
    return pd.DataFrame(rows)


def _rivals(
    base: AttentionClassifier, others: dict[str, AttentionClassifier], test: Reviews
) -> pd.DataFrame:
    """Whole models beside the first: where they look and what they say."""
    rows = []
    for name, model in others.items():
        elsewhere, change = apart(base, model, test)
        rows.append(
            {
                "model": name,
                "divergence of attention": elsewhere,
                "difference of probabilities": change,
                "accuracy": accuracy(model, test),
            }
        )
    return pd.DataFrame(rows)


def _correlation_checks(
    table: pd.DataFrame, every: pd.DataFrame, films: pd.DataFrame, plain_accuracy: float
) -> tuple[Check, ...]:
    return (
        at_least("accuracy of the models, least", table["accuracy"].min(), 0.8),
        at_least(
            "accuracy of a model whose attention is equal everywhere",
            plain_accuracy,
            0.9,
        ),
        at_most(
            "one text in four has a rank correlation with LIME below",
            float(every["with_lime"].quantile(0.25)),
            0.7,
        ),
        at_most(
            "embedded model: largest rank correlation with removal on a film review",
            films["removal"].max(),
            0.8,
        ),
    )


def _rival_checks(rivals: pd.DataFrame) -> tuple[Check, ...]:
    by_name = rivals.set_index("model")
    far, change = by_name["divergence of attention"], by_name["difference of probabilities"]
    return (
        at_least(
            "attention of a whole model pushed away to 0.3: divergence on new reviews",
            far["pushed away to 0.3"],
            0.25,
        ),
        at_least(
            "the same over the divergence of two seeds",
            far["pushed away to 0.3"] / far["another seed"],
            3.0,
        ),
        at_most(
            "mean difference of its probabilities, over that of two seeds",
            change["pushed away to 0.3"] / change["another seed"],
            1.5,
        ),
        at_least(
            "what pushing to 0.5 costs in probabilities, over what 0.1 costs",
            change["pushed away to 0.5"] / change["pushed away to 0.1"],
            3.0,
        ),
    )


def _draw(every: pd.DataFrame) -> Figure:
    """Boxes of the rank correlations over texts, a panel for each number of heads."""
    every_heads = sorted(set(every["heads"]))
    figure, axes = panels(len(every_heads), width=3.0, share_y=True)
    ticks = range(1, len(IMPORTANCE) + 1)
    for panel, heads in zip(axes, every_heads, strict=True):
        some = every[every["heads"] == heads]
        correlations = [some[name].dropna() for name in IMPORTANCE]
        panel.boxplot(correlations, showfliers=False, medianprops={"color": BLUE})
        panel.axhline(0, color=NEUTRAL, linewidth=0.5)
        panel.set_xticks(ticks, list(IMPORTANCE.values()), fontsize=8)
        panel.set_title(head_count(heads), fontsize=9)
    axes[0].set_ylabel("rank correlation with attention")
    return figure
