"""Rows of token ids that are asked together, and the inputs that a model gets for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slalom_xai.models.rows import Indices
from slalom_xai.models.token_rows import (
    KeptTokens,
    TokenRow,
    TokenRows,
    tensors_of_several,
    to_device,
)


class TokenBatch:
    """Rows of one or several texts that are asked together.

    Args:
        parts: rows by text.
        shared: tokens at their beginning that a model has read before, for all of them.
    """

    def __init__(self, parts: Sequence[TokenRows], shared: int = 0) -> None:
        self.shared = shared
        self.sizes = np.concatenate([part.sizes for part in parts])
        self._parts = parts
        self._starts = np.cumsum([0, *(len(part) for part in parts)])

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def ids(self) -> set[int]:
        """Every token id that occurs, and perhaps others."""
        return {token for part in self._parts for token in part.ids.tolist()}

    @property
    def equally_long(self) -> bool:
        """Whether no row needs padding."""
        return bool(self.sizes.min() == self.sizes.max())

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._parts[part].row(index - int(self._starts[part]))

    def take(self, indices: Indices) -> TokenBatch:
        """Some of the rows, ``indices`` ascending."""
        owner = np.searchsorted(self._starts, indices, side="right") - 1
        taken = []
        for part in np.unique(owner):
            inside = indices[owner == part] - self._starts[part]
            taken.append(self._parts[part].take(inside))
        return TokenBatch(taken, self.shared)

    def inputs(self, pad: int, side: str, device: torch.device) -> dict[str, Tensor]:
        """Inputs (m, W) of equal length: ids, the mask and, where rows have them, segments."""
        width = int(self.sizes.max())
        streams = self._streams(width, pad, side, device)
        sizes = to_device(self.sizes, device)[:, None]
        position = torch.arange(width, device=device)
        mask = position < sizes if side == "right" else position >= width - sizes
        inputs = {"input_ids": streams[0], "attention_mask": mask.long()}
        if len(streams) > 1:
            inputs["token_type_ids"] = streams[1]
        return inputs

    def _streams(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where rows have them, segments, padded on one side."""
        kept = [part for part in self._parts if isinstance(part, KeptTokens)]
        without_fillers = all(part.text.filler is None for part in kept)
        if 1 < len(kept) == len(self._parts) and without_fillers:
            return tensors_of_several(kept, width, pad, side, device)
        every = [part.tensors(width, pad, side, device) for part in self._parts]
        if len(every) == 1:
            return every[0]
        return tuple(torch.cat(stream) for stream in zip(*every, strict=True))
