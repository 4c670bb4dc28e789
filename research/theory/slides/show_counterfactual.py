"""Other attention weights for single texts that give the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from research.base import Check, Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, RED, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from research.theory.slides.classifier import head_count
from research.theory.slides.counterfactual import same_context
from research.theory.slides.debate import SHUFFLES, debate_text, mean_divergence
from research.theory.slides.embedded_attention import FILMS, LastLayer, embedded_model
from research.theory.slides.reviews import trained_classifier, write_reviews
from research.theory.slides.show_debate import DEBATED_TEXTS, HEADS, SOURCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Record = dict[str, str | float]


class Example(NamedTuple):
    """One text's attention, mean over heads, and the searched one, with the log odds of either."""

    own: Floats
    searched: Floats
    log_odds: float
    searched_log_odds: float


@reproduction(
    name="counterfactual-attention",
    title="Another attention can give the same answer",
    source=SOURCE,
)
@one_thread()
def other_attention(settings: Settings) -> Outcome:
    """Other weights: exact ones for one layer, exact and searched ones in the embedded model."""
    embedded, example = _embedded(settings)
    every = pd.DataFrame(_one_layer(settings) + embedded)
    table = every.groupby(["model", "way"], sort=False).agg(
        {"divergence": "median", "change": "max", "shuffled": "median", "size": "median"}
    )
    return Outcome(
        checks=_checks(every),
        tables={"texts": table.reset_index()},
        figures={"example": lambda: _draw(example)},
        remarks=(
            "Divergence: median over texts of the mean over heads. Change: the largest of the log "
            "odds over texts. Shuffled: how far the log odds move, in the median, when weights "
            "change places. Size: of the log odds, in the median.",
        ),
    )


def _one_layer(settings: Settings) -> list[_Record]:
    """Attention on two places only, for classifiers of one layer."""
    every_heads, texts = HEADS, DEBATED_TEXTS
    if settings.small:
        every_heads, texts = HEADS[:1], DEBATED_TEXTS // 4
    train = write_reviews(1500, settings.seed)
    test = write_reviews(texts, settings.seed + 1)
    rng = np.random.default_rng(settings.seed)
    records: list[_Record] = []
    for heads in settings.track(every_heads, "models"):
        model = trained_classifier(train, settings.seed, heads=heads, steps=300)
        for ids, mask in zip(test.ids, test.mask, strict=True):
            measured = debate_text(model, ids[mask.bool()], rng)
            records.append(
                {
                    "model": f"one layer, {head_count(heads)}",
                    "way": "two places",
                    "divergence": measured.divergence,
                    "change": measured.same_answer,
                    "shuffled": measured.shuffled,
                    "size": abs(measured.output),
                }
            )
    return records


def _embedded(settings: Settings) -> tuple[list[_Record], Example]:
    """The embedded model's last layer with other weights; the last text is the example."""
    model, rng = embedded_model(), np.random.default_rng(settings.seed)
    records: list[_Record] = []
    for text in settings.track(FILMS, "film reviews"):
        layer = LastLayer(model, text)
        moved = _shuffled(layer, rng)
        both = zip(layer.attention, layer.values, strict=True)
        same = np.stack([same_context(weights, values) for weights, values in both])
        searched = layer.far_attention()
        for way, other in (("same sums", same), ("searched", searched)):
            records.append(
                {
                    "model": "embedded",
                    "way": way,
                    "divergence": mean_divergence(layer.attention, other),
                    "change": abs(layer.answer(other) - layer.log_odds),
                    "shuffled": moved,
                    "size": abs(layer.log_odds),
                }
            )
    own, other = layer.attention.mean(axis=0), searched.mean(axis=0)
    return records, Example(own, other, layer.log_odds, layer.answer(searched))


def _shuffled(layer: LastLayer, rng: np.random.Generator) -> float:
    """How far the log odds move when weights change places, the median of some draws."""
    own = layer.attention
    orders = [rng.permutation(own.shape[1]) for _ in range(SHUFFLES)]
    changes = [abs(layer.answer(own[:, order]) - layer.log_odds) for order in orders]
    return float(np.median(changes))


def _checks(every: pd.DataFrame) -> tuple[Check, ...]:
    exact = every[every["way"] != "searched"]
    searched = every[every["way"] == "searched"]
    two_places = every[every["way"] == "two places"]
    same_sums = every[every["way"] == "same sums"]
    return (
        at_most(
            "one layer, all attention on two places: largest change of the log odds",
            exact["change"].max(),
            1e-6,
        ),
        at_least(
            "the same: median divergence, at most log 2",
            two_places["divergence"].median(),
            0.5,
        ),
        at_least(
            "embedded model, the same sums in the last layer: least divergence",
            same_sums["divergence"].min(),
            0.02,
        ),
        at_least("embedded model, searched: least divergence", searched["divergence"].min(), 0.4),
        at_most("the same: largest change of the log odds", searched["change"].max(), 0.02),
        at_least(
            "shuffled instead: change of the embedded model's log odds, median",
            searched["shuffled"].median(),
            0.1,
        ),
    )


def _draw(example: Example) -> Figure:
    """The model's own attention upwards, the searched one downwards."""
    figure, (axes,) = panels(1, width=8.0, height=2.4)
    places = np.arange(len(example.own))
    own = f"the model's own: log odds {example.log_odds:.3f}"
    searched = f"searched: log odds {example.searched_log_odds:.3f}"
    axes.bar(places, example.own, color=BLUE, width=0.9, label=own)
    axes.bar(places, -example.searched, color=RED, width=0.9, label=searched)
    axes.axhline(0, color=NEUTRAL, linewidth=0.5)
    axes.set_xlabel("token of a film review")
    axes.set_ylabel("attention, mean over heads")
    axes.legend(fontsize=8, frameon=False)
    return figure
