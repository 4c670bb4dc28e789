"""Rows of token ids that are asked together, and the inputs that a model gets for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slalom_xai.models.rows import (
    Hiding,
    Indices,
    KeptOfSeveral,
    TokenRow,
    TokenTable,
    to_device,
)


class TokenBatch:
    """Rows of one or several texts that are asked together.

    Args:
        parts: rows by text.
        shared: tokens at their beginning that a model has read before, for all of them.
    """

    def __init__(self, parts: Sequence[TokenTable], shared: int = 0) -> None:
        self.shared = shared
        self.hiding = _one_hiding(parts)
        self.counts = np.concatenate([part.counts for part in parts])
        self.sizes = self.counts
        if self.hiding == "holes":
            self.sizes = np.concatenate([part.ends for part in parts])
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

    def inputs(
        self, pad: int, side: str, device: torch.device, in_holes: int = 0
    ) -> dict[str, Tensor]:
        """Inputs (m, W) of equal length.

        They are ids, the mask, segments where rows have them and, where tokens are hidden behind
        position ids, those, counted from 0.

        Args:
            pad: the token that fills rows up.
            side: on which side.
            device: of the model.
            in_holes: the token in the holes of the mask.
        """
        if self.hiding == "holes":
            return self._inputs_with_holes(pad, side, device, in_holes)
        width = int(self.sizes.max())
        streams = self._streams(width, pad, side, device)
        mask = _filled(self.sizes, width, side, device)
        inputs = {"input_ids": streams[0], "attention_mask": mask.long()}
        if self.hiding is not None:
            *streams, inputs["position_ids"] = streams
        if len(streams) > 1:
            inputs["token_type_ids"] = streams[1]
        return inputs

    def _inputs_with_holes(
        self, pad: int, side: str, device: torch.device, in_holes: int
    ) -> dict[str, Tensor]:
        """Inputs in which each token stands in its place, and the mask is 0 where none does."""
        packed, width = int(self.counts.max()), int(self.sizes.max())
        *streams, places = self._streams(packed, pad, "right", device)
        if side == "left":
            places = places + (width - to_device(self.sizes, device)[:, None])
        nowhere = ~_filled(self.counts, packed, "right", device)
        places = places.masked_fill(nowhere, width)  # an entry that is cut off

        def spread(tokens: Tensor, around: Tensor) -> Tensor:
            room = torch.cat([around, around[:, :1]], dim=1)
            return room.scatter(1, places, tokens)[:, :width]

        inside = _filled(self.sizes, width, side, device)
        zeros = torch.zeros_like(inside, dtype=torch.long)
        ids = zeros.masked_fill(inside, in_holes).masked_fill(~inside, pad)
        inputs = {
            "input_ids": spread(streams[0], ids),
            "attention_mask": spread(torch.ones_like(streams[0]), zeros),
        }
        if len(streams) > 1:
            inputs["token_type_ids"] = spread(streams[1], zeros)
        return inputs

    def _streams(self, width: int, pad: int, side: str, device: torch.device) -> list[Tensor]:
        """Ids (m, width) and, where rows have them, segments, padded on one side.

        Where tokens are hidden, their places are the last stream.
        """
        together = KeptOfSeveral.of(self._parts)
        if together is not None:
            return list(together.tensors(width, pad, side, device))
        every = []
        for part in self._parts:
            tensors = part.tensors(width, pad, side, device)
            if self.hiding is not None and part.hiding is None:
                tensors = (*tensors, _in_order(part.counts, width, side, device))
            every.append(tensors)
        if len(every) == 1:
            return list(every[0])
        return [torch.cat(stream) for stream in zip(*every, strict=True)]


def _one_hiding(parts: Sequence[TokenTable]) -> Hiding | None:
    """How tokens are hidden in all rows of a batch; every model that takes both takes holes."""
    ways = {part.hiding for part in parts}
    return "holes" if "holes" in ways else "positions" if "positions" in ways else None


def _filled(sizes: Indices, width: int, side: str, device: torch.device) -> Tensor:
    """Which entries of rows are not filling, (m, width)."""
    columns = torch.arange(width, device=device)
    own = to_device(sizes, device)[:, None]
    return columns < own if side == "right" else columns >= width - own


def _in_order(sizes: Indices, width: int, side: str, device: torch.device) -> Tensor:
    """The places (m, width) of tokens that stand one behind the other."""
    places = torch.arange(width, device=device).expand(len(sizes), -1)
    if side == "left":
        places = places - (width - to_device(sizes, device)[:, None])
    return places.clamp(min=0)
