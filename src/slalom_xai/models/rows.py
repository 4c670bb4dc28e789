"""Rows: the shortened or rearranged texts that a model is asked, many at a time.

Models that read strings get a list of them (``StringRows``). Rows of models that read token ids
stay tables for as long as possible (``token_rows``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slalom_xai.row_keys import Keys

Row = Hashable  # one question to a model: a string, or token ids
Indices = NDArray[np.int64]


class Rows(ABC):
    """Rows about one text."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows read the same."""

    @abstractmethod
    def take(self, indices: Indices) -> Rows:
        """Some of the rows."""

    @abstractmethod
    def row(self, index: int) -> Row:
        """One row as the model takes it."""


class StringRows(Rows):
    """Rows as the model takes them, one by one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows are."""
        return np.array([hash(row) for row in self.rows], dtype=np.int64)

    def take(self, indices: Indices) -> StringRows:
        """Some of the rows."""
        return StringRows([self.rows[index] for index in indices.tolist()])

    def row(self, index: int) -> Row:
        """One row."""
        return self.rows[index]
