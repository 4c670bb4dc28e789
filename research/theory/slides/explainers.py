"""The seven explainers of the slides on the attention classifier."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from research.theory.slides.arrays import Floats
from research.theory.slides.averages import word_averages
from research.theory.slides.classifier import AttentionClassifier
from research.theory.slides.gradients import closed_gradient, reduced
from research.theory.slides.lime import lime

GRADIENTS = {
    "gradient, mean": "mean",
    "gradient, L1": "l1",
    "gradient, L2": "l2",
    "gradient × input": "times-input",
}
ATTENTION = ("attention, mean", "attention, max")
EXPLAINERS = (*GRADIENTS, "LIME", *ATTENTION)
SIGNED = ("gradient, mean", "gradient × input", "LIME")


def seven_scores(
    model: AttentionClassifier, ids: Tensor, rng: np.random.Generator, samples: int = 2_000
) -> dict[str, Floats]:
    """Scores (tokens,) of a text's tokens without [CLS], by explainer.

    Args:
        model: the classifier.
        ids: (tokens + 1,), [CLS] first.
        rng: draws LIME's samples.
        samples: of LIME, which gives a word that stands twice the same score in both places.
    """
    places = slice(1, len(ids))
    embedded = model.embed(ids[None])[0].detach()
    gradient = closed_gradient(model, embedded)
    scores = {
        name: reduced(gradient, embedded, kind)[places].double().numpy()
        for name, kind in GRADIENTS.items()
    }
    averages, words = word_averages(model, ids)
    coefficients = lime(averages.output, averages.words, samples, rng)
    index_of = {word: index for index, word in enumerate(words.tolist())}
    scores["LIME"] = coefficients[[index_of[word] for word in ids[places].tolist()]]
    attention = head_attention(model, ids)
    scores["attention, mean"] = attention.mean(axis=0)[places]
    scores["attention, max"] = attention.max(axis=0)[places]
    return scores


def head_attention(model: AttentionClassifier, ids: Tensor) -> Floats:
    """Attention of [CLS], (heads, length), filling included."""
    with torch.no_grad():
        weights: Floats = model.attention(model.embed(ids[None]))[0].double().numpy()
    return weights


def removal_effects(model: AttentionClassifier, ids: Tensor) -> Floats:
    """What the output loses when one token becomes [UNK] in its place; (tokens,), no [CLS]."""
    rows = ids.repeat(len(ids), 1)
    places = torch.arange(1, len(ids))
    rows[places, places] = model.unknown
    with torch.no_grad():
        output = model.read(model.embed(rows)).double().numpy()
    result: Floats = output[0] - output[1:]
    return result
