"""Models that read token ids, asked in batches that are padded where padding changes nothing."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import ModelError, few_numbers, quote_text
from slalom_xai.models.outputs import Outputs
from slalom_xai.models.reading import TokenReading
from slalom_xai.models.rows import Hiding, Row, TokenRow, WrittenTokens
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.tokens import Tokens

# On which side the rows of a batch can be padded without changing any answer.
#
# Rows of unequal length are filled up so that they can be asked together. Most models ignore what
# is masked, on one side at least; a few do not on either. That is tried once, on a short and a
# long row: the short one is asked alone, and then beside the long one, where it has to be padded.


@dataclass(frozen=True)
class PaddingTolerance:
    """How far an answer may move by padding and still count as the same.

    Attributes:
        share: of the distance between the answers to the two rows. It has to lie above what
            rounding does, and below what a model does that reads its padding.
        floor: the distance is taken to be at least this share of 1 + the answer's size, so that
            two rows with nearly the same answer are not compared to the last digit.
    """

    share: float
    floor: float

    def of(self, alone: Tensor, other: Tensor) -> Tensor:
        """What is tolerated for each output, (1, width)."""
        spread = (alone - other).abs().max()
        return self.share * torch.maximum(spread, (1 + alone.abs()) * self.floor)


# Chosen by hand: float32 rounds at 1e-6, float16 and bfloat16 at 1e-3 and 1e-2 of a logit.
SINGLE_PRECISION = PaddingTolerance(share=1e-3, floor=1e-2)
HALF_PRECISION = PaddingTolerance(share=5e-2, floor=0.2)


def harmless_side(
    alone: Tensor, padded: Callable[[str], Tensor], sides: Sequence[str], tolerated: Tensor
) -> str | None:
    """The first side on which padding leaves a row's answer alone; None if there is no such side.

    Args:
        alone: the answer (1, width) to the row by itself.
        padded: a side to the answer (1, width) to the row when it is padded there.
        sides: "left" and "right", in the order in which they are tried.
        tolerated: how far each output may move, (1, width).
    """
    for side in sides:
        if bool(((padded(side) - alone).abs() <= tolerated).all()):
            return side
    return None


# Models that read token ids, asked in batches that are padded where padding changes nothing.


HALF = (torch.float16, torch.bfloat16)
_NO_SIDE = "none"

# Numbers in the largest matrix of a small model, whose steps are too short to share among threads.
# The embedded classifier and tiny test models are below; DistilBERT's matrices have 768 x 3072.
_SMALL_MATRIX = 512 * 512


class PaddedModel(ABC):
    """Everything about a model of token ids but the forward pass.

    The first batch of rows of unequal length is used to learn on which side the model can be
    padded.

    Args:
        tokens: reads its texts.
        name: how it is called in results.
        lock: calls take turns.
        must_take_padding: refuse a model whose answers change with padding, instead of asking it in
            batches of equal length.
    """

    def __init__(
        self, tokens: Tokens, name: str, lock: threading.RLock, *, must_take_padding: bool = False
    ) -> None:
        self.name = name
        self.probe_calls = 0
        self._tokens = tokens
        self._lock = lock
        self._must_take_padding = must_take_padding
        # "right", "left" or "none", for each way of hiding tokens that has been tried
        self._padding: dict[Hiding | None, str] = {}

    @property
    @abstractmethod
    def outputs(self) -> Outputs:
        """What its answers mean."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where it runs."""

    @property
    def limit(self) -> int | None:
        """Tokens it reads at most, special ones included; None where nothing limits it."""
        return self._tokens.limit

    @property
    def light(self) -> bool:
        """Whether it runs on a CPU in steps so small that threads mostly wait for each other."""
        return False

    @property
    def _half(self) -> bool:
        """Whether it computes in half precision, where padding may change the last digits."""
        return False

    @abstractmethod
    def _forward(self, batch: TokenBatch, side: str) -> Tensor:
        """Logits (len(batch), width) for rows padded on one side."""

    @contextmanager
    def _exactly(self) -> Iterator[None]:
        """Where answers are compared, for models that otherwise round for speed."""
        yield

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> TokenReading:
        """Splits a text, or a pair, into its tokens."""
        return self._tokens.read(text, text_pair, truncation=truncation, removal=removal)

    def known_words(self) -> list[str]:
        """Words of its vocabulary."""
        return self._tokens.known_words()

    def size(self, row: Row) -> int:
        """Tokens in a row, special ones included."""
        return len(cast(TokenRow, row)[0])

    def show(self, row: Row) -> str:
        """A row as its tokens."""
        return self._tokens.show(row)

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits for a batch of rows that are written out."""
        return self.answer_tokens(written_batch(rows))

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Logits for a batch; rows of unequal length are padded where padding changes nothing."""
        with self._lock:
            return self.answer_beside(batch)

    def answer_beside(self, batch: TokenBatch) -> Tensor:
        """The same, for who holds the lock already."""
        if batch.equally_long:
            return self._forward(batch, "right")
        if batch.hiding not in self._padding:
            with self._exactly():
                self._padding[batch.hiding] = self._harmless_padding(batch)
        side = self._padding[batch.hiding]
        if side != _NO_SIDE:
            return self._forward(batch, side)
        return self._by_length(batch)

    def must_be_alone(self, batch: TokenBatch) -> bool:
        """Whether this batch shows on which side the model can be padded."""
        return batch.hiding not in self._padding and not batch.equally_long

    def _by_length(self, batch: TokenBatch) -> Tensor:
        """Logits for a batch, rows of each length by themselves."""
        result: Tensor | None = None
        for length in np.unique(batch.sizes):
            indices = np.flatnonzero(batch.sizes == length)
            logits = self._forward(batch.take(indices), "right")
            if result is None:
                result = logits.new_empty(len(batch), logits.shape[1])
            result[torch.as_tensor(indices, device=logits.device)] = logits
        assert result is not None
        return result

    def _harmless_padding(self, batch: TokenBatch) -> str:
        """The side on which padding a row leaves its answer alone; "none" if there is none."""
        indices = np.array([batch.sizes.argmin(), batch.sizes.argmax()])
        short, long = (batch.take(index) for index in indices[:, None])
        both = batch.take(np.sort(indices))
        own = int(indices.argmin())  # where the short row is among the two
        alone, other = self._forward(short, "right"), self._forward(long, "right")
        self.probe_calls += 2
        answers: list[Tensor] = []

        def padded(side: str) -> Tensor:
            self.probe_calls += 2
            answers.append(self._forward(both, side)[own : own + 1])
            return answers[-1]

        precision = HALF_PRECISION if self._half else SINGLE_PRECISION
        tolerated = precision.of(alone, other)
        side = harmless_side(alone, padded, self._sides(), tolerated)
        if side is not None:
            return side
        if self._must_take_padding:
            raise ModelError(
                f"{self.name} ignores attention_mask: {quote_text(self.show(short.row(0)))} gives "
                f"{few_numbers(alone[0].tolist())} alone, but "
                f"{few_numbers(answers[-1][0].tolist())} padded to {long.sizes[0]} tokens; mask "
                "the padding in its forward method, or pass batch_tokens=1 to ask one row at a time"
            )
        return _NO_SIDE

    def _sides(self) -> tuple[str, str]:
        """Where padding may go, the tokenizer's own choice first."""
        if getattr(self._tokens.tokenizer, "padding_side", "right") == "right":
            return "right", "left"
        return "left", "right"


def written_batch(rows: Sequence[Row], hiding: Hiding | None = None) -> TokenBatch:
    """Rows that are written out, as a batch.

    Args:
        rows: any number of them.
        hiding: how the model is told of places, where rows have some.
    """
    return TokenBatch([WrittenTokens.of(cast(Sequence[TokenRow], rows), hiding)])


def has_small_steps(module: object) -> bool:
    """Whether a module multiplies by small matrices only.

    Tables of embeddings are looked up and do not count.
    """
    if not isinstance(module, torch.nn.Module):
        return False
    parts = (part for part in module.modules() if not isinstance(part, torch.nn.Embedding))
    sizes = [entry.numel() for part in parts for entry in part.parameters(recurse=False)]
    return 0 < max(sizes, default=0) <= _SMALL_MATRIX
