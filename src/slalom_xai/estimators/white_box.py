"""What methods that look inside a model share: its columns as a function of embeddings, and how special tokens are told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, few_numbers
from slalom_xai.estimators.base import Findings, attributed, by_unit, open_internals
from slalom_xai.queries import Queries

HALF = (torch.float16, torch.bfloat16)
TOKENS_AT_ONCE = 2_048  # gradients keep every layer's numbers, so that fewer rows fit than without
LARGE_SHARE = 0.1  # of the absolute scores; special tokens that hold less are not worth a note


class Opened:
    """A model open on the whole text: its explained columns as a function of the tokens' embeddings.

    Attributes:
        embeddings: (tokens, width) of the whole text, special tokens included; at least single precision.
        full: (C,), the columns there.
        passes: rows of embeddings put through the model so far.
    """

    def __init__(self, queries: Queries, method: str) -> None:
        self._model = queries.model
        self._inside = open_internals(queries, method)
        found = self._inside.embeddings()
        self._dtype = found.dtype
        self.embeddings = _at_least_single(found)
        self.passes = 1
        self.full = self.columns(self.embeddings[None]).detach()[0]
        asked = queries.ask(np.ones((1, len(queries.prompt.units)), dtype=bool), "check")[0]
        tolerance = (5e-2 if self._dtype in HALF else 1e-3) * (1 + asked.abs())
        if self.full.shape != asked.shape or bool(
            ((self.full.to(asked) - asked).abs() > tolerance).any()
        ):
            raise InputError(
                f"method {method!r} looks inside the model, but {self._model.name} returns {few_numbers(asked.tolist())} when asked and {few_numbers(self.full.tolist())} from within: "
                'give a module that returns logits, without output="probabilities", or use a method that only asks'
            )

    @property
    def at_once(self) -> int:
        """How many rows go through the model together."""
        return max(1, TOKENS_AT_ONCE // len(self.embeddings))

    def columns(
        self,
        embeddings: Tensor,
        around: Callable[[Any], AbstractContextManager[Any]] = lambda _: nullcontext(),
    ) -> Tensor:
        """Explained columns (m, C) for embeddings (m, tokens, width); gradients flow."""
        self.passes += len(embeddings)
        logits = _at_least_single(self._inside.logits(embeddings.to(self._dtype), around))
        return self._model.outputs.columns(logits[:, None] if logits.ndim == 1 else logits)

    def lookup(self, token: int) -> Tensor:
        """The embedding of a token, (width,)."""
        return self._inside.lookup(token).to(self.embeddings)


def finished(
    queries: Queries,
    tokens: Tensor,
    rng: np.random.Generator,
    passes: int,
    notes: tuple[str, ...] = (),
) -> Findings:
    """An additive explanation from scores of all tokens, special ones included.

    Args:
        queries: with what the method has asked.
        tokens: (tokens, C), scores of the whole text's tokens.
        rng: draws the deletions of the test.
        passes: rows put through the model beside the calls counted.
        notes: what a reader should know, first.
    """
    plural = "es" if passes > 1 else ""
    told = (
        *notes,
        *special_share(queries, tokens),
        f"{passes} pass{plural} over embeddings came on top of the calls counted.",
    )
    return replace(attributed(queries, by_unit(queries, tokens.detach()), rng, told), passes=passes)


def special_share(queries: Queries, tokens: Tensor) -> tuple[str, ...]:
    """A note on how much of the absolute scores is with special tokens, which get none; nothing where that is little."""
    positions = queries.prompt.reading.positions
    assert positions is not None
    total = float(tokens.abs().sum())
    share = (
        1 - float(tokens[torch.as_tensor(positions, device=tokens.device)].abs().sum()) / total
        if total
        else 0.0
    )
    return (
        (f"Special tokens hold {share:.0%} of the absolute scores and are left out.",)
        if share >= LARGE_SHARE
        else ()
    )


def _at_least_single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF else tensor
