"""The seam between the package and whatever is explained."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.outputs import Outputs
from slalom_xai.text import Unit

Row = Hashable  # one question to a model: its token ids, or a string


@dataclass(frozen=True)
class Prompt:
    """A text as a model reads it.

    Attributes:
        text: the whole text as given.
        units: what receives scores, in reading order; special tokens are not among them.
        codes: (n,), equal where two units read the same to the model.
        left_out: the end of the text that truncation cut off; empty otherwise.
        compose: a mask over the units to the model's question.
    """

    text: str
    units: tuple[Unit, ...]
    codes: NDArray[np.int64]
    left_out: str
    compose: Callable[[NDArray[np.bool_]], Row]


class TextModel(Protocol):
    """Anything that can be explained; tests and new adapters implement just this."""

    @property
    def name(self) -> str:
        """How the model is called in results."""

    @property
    def outputs(self) -> Outputs:
        """What its answers mean."""

    @property
    def device(self) -> torch.device:
        """Where it runs."""

    @property
    def probe_calls(self) -> int:
        """Rows asked so far to learn how the model behaves, apart from any explanation."""

    def read(self, text: str, *, truncation: bool = False) -> Prompt:
        """Splits a text into units."""

    def size(self, row: Row) -> int:
        """The length of a row, in tokens."""

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits (len(rows), width) for a batch of rows, in their order."""

    def show(self, row: Row) -> str:
        """A row as text, for error messages."""


def unit_codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Numbers that are equal where the keys are."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
