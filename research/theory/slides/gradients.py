"""The gradient of the attention classifier by its embeddings, in closed form.

    df/de_t = 1/K sum_k a_t w W_v + a_t / sqrt(d) (v_t - f_k) q^T W_k,

with ``f_k`` a head's output: a place counts as far as it is attended to, by what its value would
become and by how far its value is from the average. [CLS] also asks, which adds ``1/sqrt(d) sum_s
a_s (v_s - f_k) k_s^T W_q`` to its own gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from research.theory.slides.classifier import AttentionClassifier

GRADIENT_REDUCTIONS = ("mean", "l1", "l2", "times-input")


def closed_gradient(model: AttentionClassifier, embedded: Tensor, *, asking: bool = True) -> Tensor:
    """The gradient (length, width) of the output by the embeddings, without differentiating.

    Args:
        model: the classifier.
        embedded: (length, width), words with their places, [CLS] first.
        asking: whether [CLS] is also differentiated as the one who asks; the slides take its query
            as given.
    """
    with torch.no_grad():
        attention = model.attention(embedded[None])[0]
        values = model.place_values(embedded[None])[0]
        deviation = attention * (values - (attention * values).sum(dim=1, keepdim=True))
        query = torch.einsum("kaw,w->ka", model.query, embedded[0])
        direct = torch.einsum("kt,ko,kow->tw", attention, model.head, model.value)
        weighing = torch.einsum("kt,ka,kaw->tw", deviation, query, model.key)
        scale = math.sqrt(model.key_width)
        gradient = direct + weighing / scale
        if asking:
            keys = torch.einsum("kaw,tw->kta", model.key, embedded)
            asked = torch.einsum("kt,kta,kaw->w", deviation, keys, model.query)
            gradient[0] += asked / scale
        return gradient / model.heads


def differentiated(model: AttentionClassifier, embedded: Tensor) -> Tensor:
    """The same gradient from automatic differentiation."""
    given = embedded.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.read(given[None])[0], given)
    return gradient


def reduced(gradient: Tensor, embedded: Tensor, reduction: str) -> Tensor:
    """One number per place, (length,).

    Args:
        gradient: (length, width).
        embedded: (length, width).
        reduction: the mean of the gradient, its L1 or L2 norm, or its product with the embedding.
    """
    if reduction == "times-input":
        return (gradient * embedded).sum(dim=1)
    if reduction == "mean":
        return gradient.mean(dim=1)
    if reduction == "l1":
        return gradient.abs().sum(dim=1)
    return gradient.square().sum(dim=1).sqrt()
