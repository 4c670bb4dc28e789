"""The debate about attention as explanation, on trained models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slalom_xai.explainer import Explainer
from slalom_xai.metrics.ranks import spearman
from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import BLUE, NEUTRAL, RED, panels
from slalom_xai.theory.paper.synthetic import one_thread
from slalom_xai.theory.slides.classifier import AttentionClassifier
from slalom_xai.theory.slides.counterfactual import LARGEST_DIVERGENCE, divergence, same_context
from slalom_xai.theory.slides.debate import TextDebate, apart, debate_text, diverging_classifier
from slalom_xai.theory.slides.embedded_attention import FILMS, LastLayer, embedded_model
from slalom_xai.theory.slides.reviews import Reviews, accuracy, trained_classifier, write_reviews

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
HEADS, SEEDS, TEXTS = (1, 2, 4), (0, 1, 2), 40
SOURCE = (
    "Jain and Wallace 2019, Wiegreffe and Pinter 2019, on the slides of Lopardo, Precioso and "
    "Garreau 2024"
)
IMPORTANCE = {"with_gradient": "gradient, L2", "with_removal": "removal", "with_lime": "LIME"}


@reproduction(
    name="attention-debate", title="Attention against importance on trained models", source=SOURCE
)
@one_thread()
def against_importance(settings: Settings) -> Outcome:
    """Rank correlations of attention with three measures of importance, and models with other attention that answer alike."""
    train, test = write_reviews(1500, settings.seed), write_reviews(500, settings.seed + 1)
    rng = np.random.default_rng(settings.seed)
    rows, texts, models = [], [], {}
    for heads in HEADS:
        for seed in settings.track(SEEDS, f"models of {heads} head{'s' if heads > 1 else ''}"):
            model = models[heads, seed] = trained_classifier(
                train, settings.seed + seed, heads=heads, steps=300
            )
            found = pd.DataFrame(
                [
                    asdict(debate_text(model, test.ids[text][test.mask[text].bool()], rng))
                    for text in range(TEXTS)
                ]
            )
            texts.append(found.assign(heads=heads))
            rows.append(
                {
                    "heads": heads,
                    "seed": seed,
                    "accuracy": accuracy(model, test),
                    **found[list(IMPORTANCE)].mean().rename(IMPORTANCE),
                }
            )
    plain = trained_classifier(train, settings.seed, heads=1, steps=300, attends=False)
    table, every = pd.DataFrame(rows), pd.concat(texts)
    others = {"another seed": models[1, 1], "equal attention": plain}
    for target in settings.track((0.1, 0.3, 0.5), "rivals"):
        others[f"pushed away to {target}"] = diverging_classifier(
            models[1, 0], train, target, settings.seed
        )
    rivals = _rivals(models[1, 0], others, test)
    films = _films(settings)
    far, change = (
        rivals[name].to_numpy()
        for name in ("divergence of attention", "difference of probabilities")
    )
    return Outcome(
        checks=(
            at_least("accuracy of the models, least", table["accuracy"].min(), 0.9),
            at_least(
                "accuracy of a model whose attention is equal everywhere",
                accuracy(plain, test),
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
            at_least(
                "attention of a whole model pushed away to 0.3: divergence on new reviews",
                far[3],
                0.25,
            ),
            at_least("the same over the divergence of two seeds", far[3] / far[0], 3.0),
            at_most(
                "mean difference of its probabilities, over that of two seeds",
                change[3] / change[0],
                1.0,
            ),
            at_least(
                "what pushing to 0.5 costs in probabilities, over what 0.1 costs",
                change[4] / change[2],
                3.0,
            ),
        ),
        tables={"correlations": table, "embedded model": films, "rivals": rivals},
        figures={"correlations": lambda: _draw_correlations(every)},
        remarks=(
            (
                f"Rank correlations over the words of {TEXTS} new reviews. Divergences are "
                f"Jensen-Shannon, at most log 2 = {LARGEST_DIVERGENCE:.3f}."
            ),
        ),
    )


def _films(settings: Settings) -> pd.DataFrame:
    """Rank correlation of attention with removal in the embedded model, film review by film review."""
    model = embedded_model()
    explainers = [
        Explainer(model, method=name, show_progress=False)
        for name in ("attention-mean", "occlusion")
    ]
    rows = []
    for place, text in enumerate(settings.track(FILMS, "film reviews"), start=1):
        attention, removal = (explainer(text).scores("value") for explainer in explainers)
        rows.append(
            {
                "film review": place,
                "tokens": len(attention),
                "removal": spearman(attention, np.abs(removal)),
            }
        )
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


def _draw_correlations(every: pd.DataFrame) -> Figure:
    figure, axes = panels(len(HEADS), width=3.0, share_y=True)
    for place, heads in enumerate(HEADS):
        some = every[every["heads"] == heads]
        axes[place].boxplot(
            [some[name].dropna() for name in IMPORTANCE],
            showfliers=False,
            medianprops={"color": BLUE},
        )
        axes[place].axhline(0, color=NEUTRAL, linewidth=0.5)
        axes[place].set_xticks(range(1, len(IMPORTANCE) + 1), list(IMPORTANCE.values()), fontsize=8)
        axes[place].set_title(f"{heads} head{'s' if heads > 1 else ''}", fontsize=9)
    axes[0].set_ylabel("rank correlation with attention")
    return figure


@reproduction(
    name="counterfactual-attention", title="Another attention, the same answer", source=SOURCE
)
@one_thread()
def other_attention(settings: Settings) -> Outcome:
    """Other weights for single texts: exact ones for one layer, exact and nearly exact ones in the last layer of the embedded model."""
    train, test = write_reviews(1500, settings.seed), write_reviews(TEXTS, settings.seed + 1)
    rng = np.random.default_rng(settings.seed)
    rows: list[dict[str, str | float]] = []
    for heads in settings.track(HEADS, "models"):
        model = trained_classifier(train, settings.seed, heads=heads, steps=300)
        found = [
            debate_text(model, ids[mask.bool()], rng)
            for ids, mask in zip(test.ids, test.mask, strict=True)
        ]
        rows += [
            {
                "model": f"one layer, {heads} head{'s' if heads > 1 else ''}",
                "way": "two places",
                **_row(one),
            }
            for one in found
        ]
    embedded, example = _embedded(settings)
    every = pd.DataFrame(rows + embedded)
    table = every.groupby(["model", "way"], sort=False).agg(
        {"divergence": "median", "change": "max", "shuffled": "median", "size": "median"}
    )
    exact = every[every["way"] != "searched"]
    return Outcome(
        checks=(
            at_most(
                "one layer, all attention on two places: largest change of the log odds",
                exact["change"].max(),
                1e-6,
            ),
            at_least(
                "the same: median divergence, at most log 2",
                every[every["way"] == "two places"]["divergence"].median(),
                0.5,
            ),
            at_least(
                "embedded model, the same sums in the last layer: least divergence",
                every[every["way"] == "same sums"]["divergence"].min(),
                0.02,
            ),
            at_least(
                "embedded model, searched: least divergence",
                every[every["way"] == "searched"]["divergence"].min(),
                0.4,
            ),
            at_most(
                "the same: largest change of the log odds",
                every[every["way"] == "searched"]["change"].max(),
                0.02,
            ),
            at_least(
                "shuffled instead: change of the embedded model's log odds, median",
                every[every["way"] == "searched"]["shuffled"].median(),
                0.1,
            ),
        ),
        tables={"texts": table.reset_index()},
        figures={"example": lambda: _draw_example(*example)},
        remarks=(
            "Divergence: median over texts of the mean over heads. Change: the largest of the log "
            "odds over texts. Shuffled: how far the log odds "
            "move, in the median, when weights change places. Size: of the log odds, in the "
            "median.",
        ),
    )


def _row(found: TextDebate) -> dict[str, float]:
    return {
        "divergence": found.divergence,
        "change": found.same_answer,
        "shuffled": found.shuffled,
        "size": abs(found.output),
    }


def _embedded(
    settings: Settings,
) -> tuple[list[dict[str, str | float]], tuple[Floats, Floats, float, float]]:
    """The embedded model's rows, and the last text's attention, mean over heads, beside the searched one."""
    model, rng = embedded_model(), np.random.default_rng(settings.seed)
    rows: list[dict[str, str | float]] = []
    for text in settings.track(FILMS, "film reviews"):
        layer = LastLayer(model, text)
        own = layer.attention
        orders = [rng.permutation(own.shape[1]) for _ in range(20)]
        moved = float(
            np.median([abs(layer.answer(own[:, order]) - layer.log_odds) for order in orders])
        )
        same = np.stack(
            [
                same_context(weights, values)
                for weights, values in zip(own, layer.values, strict=True)
            ]
        )
        for way, other in (("same sums", same), ("searched", layer.far_attention())):
            far = float(
                np.mean([divergence(one, two) for one, two in zip(own, other, strict=True)])
            )
            change = abs(layer.answer(other) - layer.log_odds)
            rows.append(
                {
                    "model": "embedded",
                    "way": way,
                    "divergence": far,
                    "change": change,
                    "shuffled": moved,
                    "size": abs(layer.log_odds),
                }
            )
    return rows, (own.mean(axis=0), other.mean(axis=0), layer.log_odds, layer.answer(other))


def _draw_example(own: Floats, other: Floats, before: float, after: float) -> Figure:
    figure, (axes,) = panels(1, width=8.0, height=2.4)
    places = np.arange(len(own))
    axes.bar(places, own, color=BLUE, width=0.9, label=f"the model's own: log odds {before:.3f}")
    axes.bar(places, -other, color=RED, width=0.9, label=f"searched: log odds {after:.3f}")
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set_xlabel("token of a film review")
    axes.set_ylabel("attention, mean over heads")
    axes.legend(fontsize=8, frameon=False)
    return figure
