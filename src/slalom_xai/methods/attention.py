"""Attention weights as scores: where the position that the classifier reads looks.

With A (layers, heads, queries, keys) and r (queries,), the share of each position in what the
classifier reads, the scores of tokens are r A of the last layer, averaged over heads or the
largest of them; or r times the rollout, the product over layers of 0.5 A + 0.5 I.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import one_of
from slalom_xai.methods.base import Findings, attributed, register
from slalom_xai.methods.white_box import (
    WhiteBoxEstimator,
    open_internals,
    special_share,
    sum_by_unit,
)
from slalom_xai.queries import Queries

LAYERS = {"last": "Attention of the last layer", "mean": "Attention, mean over layers"}
UNSIGNED = (
    "Attention weights have no sign and are the same for every class: they say where the model "
    "looks, not what it makes of it. They do not predict what deletions do."
)
ONE_PASS = "Reading the weights took 1 pass on top of the calls counted."


@dataclass(frozen=True)
class _OverHeads(WhiteBoxEstimator):
    """Attention weights from the position that the classifier reads, reduced over heads.

    Args:
        layers: of the "last" layer, or the "mean" over all.
    """

    layers: str = "last"

    reduction: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks the options."""
        if self.layers not in LAYERS:
            raise one_of("layers", self.layers, LAYERS)

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Looks at the weights."""
        attentions, read, where = _attentions(queries, self.name)
        weights = seen(attentions, read, self.layers)
        note = f"{LAYERS[self.layers]}, {self.reduction} over heads, from {where}."
        return _findings(queries, self._over_heads(weights), rng, note)

    def _over_heads(self, weights: Tensor) -> Tensor:
        """(heads, tokens) to (tokens,)."""
        if self.reduction == "mean":
            return weights.mean(dim=0)
        return weights.amax(dim=0)


@register
@dataclass(frozen=True)
class AttentionMean(_OverHeads):
    """Attention weights from the position that the classifier reads, averaged over heads."""

    name: ClassVar[str] = "attention-mean"
    reduction: ClassVar[str] = "mean"
    summary: ClassVar[str] = (
        "attention from the position the classifier reads, mean over heads, last layer: needs "
        "attention weights, one pass"
    )


@register
@dataclass(frozen=True)
class AttentionMax(_OverHeads):
    """Attention weights from the position that the classifier reads, the largest over heads."""

    name: ClassVar[str] = "attention-max"
    reduction: ClassVar[str] = "largest"
    summary: ClassVar[str] = (
        "attention from the position the classifier reads, largest over heads, last layer: needs "
        "attention weights, one pass"
    )


@register
@dataclass(frozen=True)
class AttentionRollout(WhiteBoxEstimator):
    """Attention multiplied through the layers (Abnar and Zuidema, 2020).

    Half of each layer is the residual stream.
    """

    name: ClassVar[str] = "attention-rollout"
    summary: ClassVar[str] = (
        "attention of all layers multiplied together, with the residual stream: needs attention "
        "weights, one pass"
    )

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Looks at the weights."""
        attentions, read, where = _attentions(queries, self.name)
        note = f"Attention of all layers, rolled out to {where}."
        return _findings(queries, read @ rollout(attentions), rng, note)


def seen(attentions: Tensor, read: Tensor, layers: str = "last") -> Tensor:
    """How much of each token the reading position sees, (heads, tokens).

    Args:
        attentions: (layers, heads, queries, keys).
        read: (queries,), the share of each position in what the classifier reads.
        layers: "last" or "mean".
    """
    by_layer = torch.einsum("q,lhqk->lhk", read, attentions)
    if layers == "last":
        return by_layer[-1]
    return by_layer.mean(dim=0)


def rollout(attentions: Tensor) -> Tensor:
    """Attention rollout, (queries, keys).

    The product over layers of 0.5 A + 0.5 I, A averaged over heads, with rows that sum to 1.

    Args:
        attentions: (layers, heads, queries, keys).
    """
    identity = torch.eye(attentions.shape[-1], dtype=attentions.dtype, device=attentions.device)
    product = identity
    for layer in attentions.mean(dim=1):
        mixed = 0.5 * layer + 0.5 * identity
        product = mixed / mixed.sum(dim=-1, keepdim=True) @ product
    return product


def reading_position(config: Any, attentions: Tensor) -> tuple[Tensor, str]:
    """What the classifier reads, as shares of positions (queries,) and in words.

    Models whose tokens only look back and models with a decoder read the last token; the others
    the first, unless their configuration says that the last or all are read.

    Args:
        config: of the model, as transformers has it; may be None.
        attentions: (layers, heads, queries, keys).
    """
    tokens = attentions.shape[-1]
    stated = getattr(config, "classifier_pooling", None) or getattr(config, "summary_type", None)
    share = torch.zeros(tokens, dtype=attentions.dtype, device=attentions.device)
    if getattr(config, "is_encoder_decoder", False):
        share[-1] = 1
        return share, "the last token, in the encoder; the decoder's own attention is not used"
    if stated == "last" or not bool(attentions.triu(diagonal=1).any()):
        share[-1] = 1
        return share, "the last token, which the classifier reads"
    if stated == "mean":
        return torch.full_like(share, 1 / tokens), "all tokens, whose mean the classifier reads"
    share[0] = 1
    return share, "the first token, which the classifier reads"


def _attentions(queries: Queries, method: str) -> tuple[Tensor, Tensor, str]:
    """The weights (layers, heads, queries, keys), and what the classifier reads."""
    internals = open_internals(queries, method)
    attentions = internals.attentions()
    config = getattr(internals.module, "config", None)
    return attentions, *reading_position(config, attentions)


def _findings(queries: Queries, tokens: Tensor, rng: np.random.Generator, note: str) -> Findings:
    """The same scores (tokens,) for every column."""
    columns = len(queries.ask_whole("check"))
    scores = sum_by_unit(queries, tokens)[:, None].repeat(1, columns)
    notes = (note, UNSIGNED, *special_share(queries, tokens), ONE_PASS)
    return replace(attributed(queries, scores, rng, notes), passes=1)
