"""What methods share that look inside a model.

They see the explained columns as a function of the tokens' embeddings, and give scores to all
tokens. Units get the sums of theirs. Special tokens get none, and a note says where they would
have had much.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, few_numbers
from slalom_xai.methods.base import Estimator, Findings, attributed
from slalom_xai.models.base import OpensInternals
from slalom_xai.models.internals import Internals
from slalom_xai.queries import Queries

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class WhiteBoxSettings:
    """Limits of looking inside.

    Attributes:
        tokens_at_once: tokens of a batch. Gradients keep every layer's numbers, so that fewer
            rows fit into memory than without.
        large_share: share of the absolute scores; special tokens that hold less are not worth a
            note.
        tolerance: what an output from within may differ from the model's answer, relative to
            1 + its size: rounding, but not probabilities for logits.
        gpu_tolerance: the same on a GPU, which may multiply in TF32 on one of the two ways.
        half_tolerance: the same in half precision.
    """

    tokens_at_once: int = 2_048
    large_share: float = 0.1
    tolerance: float = 1e-3
    gpu_tolerance: float = 1e-2
    half_tolerance: float = 5e-2


WHITE_BOX = WhiteBoxSettings()


@dataclass(frozen=True)
class WhiteBoxEstimator(Estimator):
    """A method that looks inside the model, and asks it only for the test."""

    def parameters(self, units: int, distinct: int) -> int:
        """Nothing is fitted; the whole text is asked."""
        return 1


class OpenModel:
    """A model open on the whole text: its columns as a function of the tokens' embeddings.

    Args:
        queries: asks the model.
        method: its name, for error messages.

    Attributes:
        embeddings: (tokens, width) of the whole text, special tokens included; at least single
            precision.
        full: (C,), the columns there.
        passes: rows of embeddings put through the model so far.

    Raises:
        InputError: the model shows nothing, or answers something else from within.
    """

    def __init__(self, queries: Queries, method: str) -> None:
        self._model = queries.model
        self._internals = open_internals(queries, method)
        embeddings = self._internals.embeddings()
        self._dtype = embeddings.dtype
        self.embeddings = _at_least_single(embeddings)
        self.passes = 1
        self.full = self.columns(self.embeddings[None]).detach()[0]
        asked = queries.ask_whole("check")
        if not self._agrees_with(asked):
            raise InputError(
                f"method {method!r} looks inside the model, but {self._model.name} returns "
                f"{few_numbers(asked.tolist())} when asked and "
                f"{few_numbers(self.full.tolist())} from within: give a module that returns "
                'logits, without output="probabilities", or use a method that only asks'
            )

    @property
    def at_once(self) -> int:
        """How many rows go through the model together."""
        return max(1, WHITE_BOX.tokens_at_once // len(self.embeddings))

    def columns(
        self,
        embeddings: Tensor,
        around: Callable[[Any], AbstractContextManager[Any]] = lambda _: nullcontext(),
    ) -> Tensor:
        """Explained columns (m, C) for embeddings (m, tokens, width); gradients flow."""
        self.passes += len(embeddings)
        logits = _at_least_single(self._internals.logits(embeddings.to(self._dtype), around))
        if logits.ndim == 1:
            logits = logits[:, None]
        return self._model.outputs.columns(logits)

    def lookup(self, token: int) -> Tensor:
        """The embedding of a token, (width,)."""
        return self._internals.lookup(token).to(self.embeddings)

    def _agrees_with(self, asked: Tensor) -> bool:
        """Whether the columns from within are those that the model answers, (C,)."""
        if self.full.shape != asked.shape:
            return False
        tolerance = rounding(self._dtype, self.embeddings.device)
        differences = (self.full.to(asked) - asked).abs()
        return not bool((differences > tolerance * (1 + asked.abs())).any())


def rounding(dtype: torch.dtype, device: torch.device) -> float:
    """What rounding may change of a model's answer, relative to 1 + its size."""
    if dtype in HALF:
        return WHITE_BOX.half_tolerance
    if device.type == "cuda":
        return WHITE_BOX.gpu_tolerance
    return WHITE_BOX.tolerance


def open_internals(queries: Queries, method: str) -> Internals:
    """The model of a white-box method, open on the whole text.

    Raises:
        InputError: the model answers, and shows nothing more.
    """
    if not isinstance(queries.model, OpensInternals):
        raise InputError(
            f"method {method!r} looks inside the model, but {queries.model.name} can only be "
            "asked: give a transformers model or a torch module, or use a method that only asks, "
            "such as slalom, lime or kernel-shap"
        )
    return queries.model.internals(queries.prompt.row(queries.prompt.whole[0]))


def sum_by_unit(queries: Queries, tokens: Tensor) -> Tensor:
    """Scores of all tokens (tokens, ...), special ones included, summed over units, (n, ...)."""
    owner = torch.as_tensor(queries.prompt.owner, device=tokens.device)
    summed = tokens.new_zeros(len(queries.prompt.units), *tokens.shape[1:])
    return summed.index_add_(0, owner, _of_pieces(queries, tokens))


def explain_tokens(
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
    notes = (
        *notes,
        *special_share(queries, tokens),
        f"{passes} pass{plural} over embeddings came on top of the calls counted.",
    )
    findings = attributed(queries, sum_by_unit(queries, tokens.detach()), rng, notes)
    return replace(findings, passes=passes)


def special_share(queries: Queries, tokens: Tensor) -> tuple[str, ...]:
    """A note on how much of the absolute scores special tokens hold, which get none.

    Nothing where that is little.
    """
    total = float(tokens.abs().sum())
    if total == 0:
        return ()
    share = 1 - float(_of_pieces(queries, tokens).abs().sum()) / total
    if not share >= WHITE_BOX.large_share:
        return ()
    return (f"Special tokens hold {share:.0%} of the absolute scores and are left out.",)


def _of_pieces(queries: Queries, tokens: Tensor) -> Tensor:
    """The scores of the text's own tokens, (pieces, ...), of those of all, (tokens, ...)."""
    positions = queries.prompt.reading.positions
    assert positions is not None
    return tokens[torch.as_tensor(positions, device=tokens.device)]


def _at_least_single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in HALF else tensor
