"""Is attention explanation? What can be measured about it on trained attention classifiers."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from research.theory.paper.synthetic import one_thread
from research.theory.slides.arrays import Floats
from research.theory.slides.averages import word_averages
from research.theory.slides.classifier import AttentionClassifier
from research.theory.slides.counterfactual import divergence, two_places
from research.theory.slides.explainers import head_attention, removal_effects, seven_scores
from research.theory.slides.reviews import Reviews
from slalom_xai.metrics.statistics import spearman

SHUFFLES = 20  # of the weights of a text, of which the median counts
TINY = 1e-12  # keeps the logarithm of a weight of zero finite


@dataclass(frozen=True)
class Pushing:
    """How a model is pushed away from another's attention.

    Attributes:
        batch: reviews of a step.
        rate: of Adam.
        kick: the size of the random change of the keys with which it begins, as the divergence has
            no slope where both are the same.
        price: of missing the wanted divergence, in squared log odds. A smaller one lets the model
            stay where it is; a larger one lets its answers drift.
    """

    batch: int = 128
    rate: float = 0.01
    kick: float = 0.05
    price: float = 50.0


PUSHING = Pushing()


@dataclass(frozen=True)
class TextDebate:
    """What one text says about attention.

    Attributes:
        with_gradient: rank correlation of mean attention with the L2 norm of the gradient, over the
            words.
        with_removal: the same with the size of what one word's removal changes.
        with_lime: the same with the size of LIME's coefficient.
        same_answer: how far the answer is off with other attention on two places per head.
        divergence: of that attention from the model's own, mean over heads.
        shuffled: how far the answer moves when weights are shuffled among places, median of 20.
        output: the model's answer.
    """

    with_gradient: float
    with_removal: float
    with_lime: float
    same_answer: float
    divergence: float
    shuffled: float
    output: float


def debate_text(model: AttentionClassifier, ids: Tensor, rng: np.random.Generator) -> TextDebate:
    """Measures one text, [CLS] first, without padding."""
    scores = seven_scores(model, ids, rng)
    attention = scores["attention, mean"]
    weights = head_attention(model, ids)
    with torch.no_grad():
        values = model.place_values(model.embed(ids[None]))[0].double().numpy()
    output = _mean_output(weights, values)
    both = list(zip(weights, values, strict=True))  # head by head
    other = np.stack([two_places(weight, value) for weight, value in both])
    orders = [rng.permutation(weights.shape[1]) for _ in range(SHUFFLES)]
    moved = [abs(_mean_output(weights[:, order], values) - output) for order in orders]
    return TextDebate(
        with_gradient=spearman(attention, scores["gradient, L2"]),
        with_removal=spearman(attention, np.abs(removal_effects(model, ids))),
        with_lime=spearman(attention, np.abs(scores["LIME"])),
        same_answer=abs(_mean_output(other, values) - output),
        divergence=mean_divergence(weights, other),
        shuffled=float(np.median(moved)),
        output=output,
    )


def _mean_output(weights: Floats, values: Floats) -> float:
    """The output that weights and values, (heads, length) each, give."""
    return float((weights * values).sum(axis=1).mean())


def mean_divergence(first: Floats, second: Floats) -> float:
    """The divergence of two attentions, (heads, length) each, as the mean over heads."""
    both = zip(first, second, strict=True)
    return float(np.mean([divergence(one, other) for one, other in both]))


def apart(
    first: AttentionClassifier, second: AttentionClassifier, reviews: Reviews
) -> tuple[float, float]:
    """Two models of one head on the same reviews.

    Returns:
        The mean divergence of their attention and the mean difference of their probabilities.
    """
    weights, chances = [], []
    with torch.no_grad():
        for model in (first, second):
            embedded = model.embed(reviews.ids, reviews.mask)
            weights.append(model.attention(embedded)[:, 0].double())
            chances.append(torch.sigmoid(model.read(embedded)).double())
    return float(divergences(*weights).mean()), float((chances[0] - chances[1]).abs().mean())


@one_thread()
def diverging_classifier(
    base: AttentionClassifier, reviews: Reviews, target: float, seed: int, steps: int
) -> AttentionClassifier:
    """A whole model that answers like ``base`` and attends elsewhere (Wiegreffe and Pinter, 2019).

    Unlike weights put in for one text, its attention must come from words and places by a rule that
    holds for all texts. It starts as a copy whose attention is pushed away step by step, and learns
    to answer as before.

    Args:
        base: a trained model of one head.
        reviews: what both read.
        target: the divergence that is wanted.
        seed: of the push and the order of the reviews.
        steps: of Adam.
    """
    model, draw = copy.deepcopy(base), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.key.add_(PUSHING.kick * torch.randn(model.key.shape, generator=draw))
    optimizer = torch.optim.Adam(model.parameters(), lr=PUSHING.rate)
    for step in range(steps):
        batch = torch.randint(len(reviews.labels), (PUSHING.batch,), generator=draw)
        with torch.no_grad():
            given = base.embed(reviews.ids[batch], reviews.mask[batch])
            wanted, own = base.read(given), base.attention(given)[:, 0]
        embedded = model.embed(reviews.ids[batch], reviews.mask[batch])
        aim = target * min(1.0, 2 * step / steps)
        missing = aim - divergences(model.attention(embedded)[:, 0], own).mean()
        off = (model.read(embedded) - wanted).square().mean()
        loss = off + PUSHING.price * torch.relu(missing)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def divergences(first: Tensor, second: Tensor) -> Tensor:
    """Jensen-Shannon divergence (rows,) of rows of weights."""
    middle = (first + second) / 2
    against_first = (first * ((first + TINY) / (middle + TINY)).log()).sum(dim=-1)
    against_second = (second * ((second + TINY) / (middle + TINY)).log()).sum(dim=-1)
    return (against_first + against_second) / 2


def bag_of_words_sign(model: AttentionClassifier, ids: Tensor) -> tuple[Floats, Floats]:
    """For one head: the output, and a sum over words that always has its sign.

    Both are (200,), for as many random shortenings of a text.
    The average's denominator is positive, so the class is decided by the numerator, which is linear
    in the kept words.
    """
    averages, _ = word_averages(model, ids)
    keep = np.random.default_rng(0).random((200, averages.words)) < 0.5
    return averages.output(keep), averages.heads(keep)[0][0]
