"""Attention weights as scores: where the position that the classifier reads looks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import one_of
from slalom_xai.estimators.base import (
    Estimator,
    Findings,
    attributed,
    by_unit,
    open_internals,
    register,
)
from slalom_xai.estimators.white_box import special_share
from slalom_xai.queries import Queries

LAYERS = ("last", "mean")
UNSIGNED = (
    "Attention weights have no sign and are the same for every class: they say where the model looks, not what it makes of it. "
    "They do not predict what deletions do."
)


@dataclass(frozen=True)
class _OverHeads(Estimator):
    """Attention weights from the position that the classifier reads, reduced over heads.

    Args:
        layers: of the "last" layer, or the "mean" over all.
    """

    layers: str = "last"

    name: ClassVar[str]
    reduction: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks the options."""
        _check_layers(self.layers)

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Looks at the weights."""
        attentions, read, where = _look(queries, self.name)
        weights = seen(attentions, read, self.layers)
        reduced = weights.mean(dim=0) if self.reduction == "mean" else weights.amax(dim=0)
        return _findings(
            queries, reduced, rng, f"{_of(self.layers)}, {self.reduction} over heads, from {where}."
        )


@register
@dataclass(frozen=True)
class AttentionMean(_OverHeads):
    """Attention weights from the position that the classifier reads, averaged over heads."""

    name: ClassVar[str] = "attention-mean"
    reduction: ClassVar[str] = "mean"
    summary: ClassVar[str] = (
        "attention from the position the classifier reads, mean over heads, last layer: needs attention weights, one pass"
    )


@register
@dataclass(frozen=True)
class AttentionMax(_OverHeads):
    """Attention weights from the position that the classifier reads, the largest over heads."""

    name: ClassVar[str] = "attention-max"
    reduction: ClassVar[str] = "largest"
    summary: ClassVar[str] = (
        "attention from the position the classifier reads, largest over heads, last layer: needs attention weights, one pass"
    )


@register
@dataclass(frozen=True)
class AttentionRollout(Estimator):
    """Attention multiplied through the layers, half of each for the residual stream (Abnar and Zuidema, 2020)."""

    name: ClassVar[str] = "attention-rollout"
    summary: ClassVar[str] = (
        "attention of all layers multiplied together, with the residual stream: needs attention weights, one pass"
    )

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted."""
        return 1

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Looks at the weights."""
        attentions, read, where = _look(queries, self.name)
        return _findings(
            queries,
            read @ rollout(attentions),
            rng,
            f"Attention of all layers, rolled out to {where}.",
        )


def seen(attentions: Tensor, read: Tensor, layers: str = "last") -> Tensor:
    """How much of each token the reading position sees, (heads, tokens).

    Args:
        attentions: (layers, heads, queries, keys).
        read: (queries,), the share of each position in what the classifier reads.
        layers: "last" or "mean".
    """
    rows = torch.einsum("q,lhqk->lhk", read, attentions)
    return rows[-1] if layers == "last" else rows.mean(dim=0)


def rollout(attentions: Tensor) -> Tensor:
    """Attention rollout (queries, keys): the product over layers of 0.5 A + 0.5 I, mean over heads, rows that sum to 1.

    Args:
        attentions: (layers, heads, queries, keys).
    """
    own = torch.eye(attentions.shape[-1], dtype=attentions.dtype, device=attentions.device)
    product = own
    for layer in attentions.mean(dim=1):
        mixed = 0.5 * layer + 0.5 * own
        product = mixed / mixed.sum(dim=-1, keepdim=True) @ product
    return product


def reading_position(config: Any, attentions: Tensor) -> tuple[Tensor, str]:
    """What the classifier reads, as shares of positions (queries,) and in words.

    Models whose tokens only look back and models with a decoder read the last token; the others the first, unless their
    configuration says that the last or all are read.
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


def _look(queries: Queries, method: str) -> tuple[Tensor, Tensor, str]:
    opened = open_internals(queries, method)
    attentions = opened.attentions()
    return attentions, *reading_position(getattr(opened.module, "config", None), attentions)


def _findings(queries: Queries, tokens: Tensor, rng: np.random.Generator, where: str) -> Findings:
    """The same scores (tokens,) for every column."""
    scores = by_unit(queries, tokens)[:, None].repeat(1, _columns(queries))
    notes = (
        where,
        UNSIGNED,
        *special_share(queries, tokens),
        "Reading the weights took 1 pass on top of the calls counted.",
    )
    return replace(attributed(queries, scores, rng, notes), passes=1)


def _columns(queries: Queries) -> int:
    return len(queries.ask(np.ones((1, len(queries.prompt.units)), dtype=bool), "check")[0])


def _of(layers: str) -> str:
    return "Attention of the last layer" if layers == "last" else "Attention, mean over layers"


def _check_layers(layers: str) -> None:
    if layers not in LAYERS:
        raise one_of("layers", layers, LAYERS)
