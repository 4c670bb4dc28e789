"""Anchors on the attention classifier, the slides' last question.

An anchor is a set of words that keeps the predicted class with high probability (its precision)
when each other word is replaced by [UNK] with probability 1/2. With one head the class is the sign
of the numerator of the average, which is linear in the words that are kept:

    sum over kept j of  a_j v_j  +  sum over removed j of  b_j u_j  +  constant,

with weights a, b and values v, u of a word and of [UNK] in its places. So of all sets of a size,
the words with the largest c_j = a_j v_j − b_j u_j, in the direction of the class, are the most
precise one: take a word from a set for one with a larger coefficient, and wherever both are kept
nothing changes, and wherever the one outside is removed, the sum gains. Values count from the
border between the classes here, and from half way to [UNK] in what LIME says.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from research.base import Outcome, Settings, at_least, at_most, reproduction
from research.drawing import BLUE, NEUTRAL, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats, Masks
from research.theory.slides.averages import WordAverages, word_averages
from research.theory.slides.classifier import AttentionClassifier
from research.theory.slides.reviews import (
    EXAMPLE_REVIEW,
    tokenizer,
    trained_classifier,
    write_reviews,
)
from slalom_xai.explainer import Explainer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_WORDS = 14  # distinct ones of a text whose rows are all looked at
_SIZES = (1, 2, 3)  # of sets of which the best is looked for
_PRECISION = 0.95  # of an anchor
_CALLS = 2000


@dataclass(frozen=True)
class AllRows:
    """A text of d words with every row of it.

    Attributes:
        keep: (2^d, d), which words each row keeps.
        same: (2^d,), whether the class is that of the whole text.
        coefficients: (d,), those of the numerator, in the direction of the class; of several heads
            their sum, which then decides nothing.
    """

    keep: Masks
    same: Masks
    coefficients: Floats

    @classmethod
    def of(cls, averages: WordAverages) -> AllRows:
        """Every row of a text."""
        rows = itertools.product((False, True), repeat=averages.words)
        keep = np.array(list(rows))
        output = averages.output(keep)
        sign = np.sign(output[-1])  # the last row keeps every word
        change = (averages.kept_values - averages.removed_values).sum(axis=0)
        return cls(keep, np.sign(output) == sign, change * sign)

    def precision(self, anchor: tuple[int, ...]) -> float:
        """How often the class stays while these words are kept, exactly."""
        held = self.keep[:, list(anchor)].all(axis=1)
        return float(self.same[held].mean())

    def best(self, size: int) -> float:
        """The precision of the best of all sets of a size."""
        sets = itertools.combinations(range(self.keep.shape[1]), size)
        return max(self.precision(each) for each in sets)

    def largest(self, size: int) -> tuple[int, ...]:
        """The words with the largest coefficients."""
        order = np.argsort(-self.coefficients, kind="stable")
        return tuple(order[:size].tolist())

    def smallest_anchor(self) -> int:
        """The size of the smallest set with the wanted precision, if coefficients order words."""
        sizes = range(self.keep.shape[1] + 1)
        return next(size for size in sizes if self.precision(self.largest(size)) >= _PRECISION)


@reproduction(
    name="anchors-attention",
    title="On one head of attention, the best anchor of each size is the words with the largest "
    "terms of the numerator, and the search finds it",
    source="Lopardo, Precioso and Garreau 2024, future directions: anchors meet attention; ours",
)
@one_thread()
def anchors_attention(settings: Settings) -> Outcome:
    """Exact precisions of all sets of words, and the anchors that the package finds."""
    train = write_reviews(1500, settings.seed)
    models = {
        heads: trained_classifier(train, settings.seed, heads=heads, steps=300) for heads in (1, 2)
    }
    texts = [EXAMPLE_REVIEW, *_short_reviews(4 if settings.small else 9, settings.seed + 1)]
    gaps = pd.DataFrame(
        _gaps(heads, AllRows.of(_averages(model, text)))
        for heads, model in models.items()
        for text in texts
    )
    found = pd.DataFrame(
        _found(models[1], text, settings.seed) for text in settings.track(texts, "anchors")
    )
    of_one = gaps.loc[gaps["heads"] == 1, [f"{size} words" for size in _SIZES]]
    return Outcome(
        checks=(
            at_most(
                "one head: precision that the largest coefficients lack to the best set of 1 to 3 "
                "words",
                of_one.to_numpy().max(),
                1e-12,
            ),
            at_least(
                "exact precision of the anchors that the search finds, smallest",
                found["exact precision"].min(),
                0.9,
            ),
            at_most(
                "words by which they are larger than the smallest anchor, most",
                (found["words"] - found["smallest"]).max(),
                1,
            ),
        ),
        tables={
            "found": found,
            "lacking": gaps.groupby("heads", as_index=False).max(),
        },
        figures={"precision": lambda: _draw(AllRows.of(_averages(models[1], EXAMPLE_REVIEW)))},
        remarks=(
            f"{len(texts)} reviews of up to {_MOST_WORDS} distinct words, so that every row can be "
            "looked at. An anchor has a precision of at least 0.95. The second table has what "
            "the words with the largest coefficients lack to the best set, largest over texts: "
            "nothing with one head. With two heads the sum of both numerators decides nothing by "
            "itself, and nothing is checked.",
        ),
    )


def _short_reviews(count: int, seed: int) -> list[str]:
    """Reviews of few distinct words, each once."""
    texts = dict.fromkeys(write_reviews(500, seed).texts)
    return [text for text in texts if len(set(text.split())) <= _MOST_WORDS][:count]


def _averages(model: AttentionClassifier, text: str) -> WordAverages:
    return word_averages(model, torch.tensor(tokenizer()(text)["input_ids"]))[0]


def _gaps(heads: int, rows: AllRows) -> dict[str, float]:
    """What the largest coefficients lack to the best set, by size."""
    lacking = {
        f"{size} words": rows.best(size) - rows.precision(rows.largest(size)) for size in _SIZES
    }
    return {"heads": heads, **lacking}


def _found(model: AttentionClassifier, text: str, seed: int) -> dict[str, Any]:
    """The anchor that the package finds, with its exact precision."""
    explainer = Explainer(
        model,
        tokenizer(),
        method="anchors",
        removal="unk",
        granularity="type",
        budget=_CALLS,
        random_state=seed,
        show_progress=False,
    )
    explanation = explainer(text)
    averages, order = word_averages(model, torch.tensor(tokenizer()(text)["input_ids"]))
    names = tokenizer().convert_ids_to_tokens(order.tolist())
    held = {
        unit.text
        for unit, score in zip(explanation.units, explanation.values, strict=True)
        if score != 0
    }
    anchor = tuple(index for index, name in enumerate(names) if name in held)
    rows = AllRows.of(averages)
    return {
        "anchor": " ".join(sorted(held)) or "nothing",
        "words": len(held),
        "smallest": rows.smallest_anchor(),
        "exact precision": rows.precision(anchor),
    }


def _draw(rows: AllRows) -> Figure:
    """The precision of the largest coefficients by size, above those of all sets."""
    figure, (axes,) = panels(1, width=4.2)
    for size in _SIZES:
        sets = itertools.combinations(range(rows.keep.shape[1]), size)
        every = [rows.precision(each) for each in sets]
        label = "every set" if size == 1 else None
        axes.plot([size] * len(every), every, ".", color=NEUTRAL, markersize=3, label=label)
    chosen = [rows.precision(rows.largest(size)) for size in _SIZES]
    axes.plot(_SIZES, chosen, "o", color=BLUE, label="largest coefficients")
    axes.axhline(_PRECISION, color=NEUTRAL, linewidth=0.5)
    axes.set(xlabel="words", ylabel="exact precision", xticks=_SIZES)
    axes.legend(fontsize="x-small")
    return figure
