"""Rows of token ids about one text, told apart and measured without spelling them out.

A row is either a mask over the text's tokens (``KeptTokens``) or a sequence of ids that is written
out (``WrittenTokens``). Both stay tables of numpy until a batch of them is asked; only then are
inputs built, on the model's device. A million rows of a text thus cost a bit per token.

Shapes: m rows, T tokens of the whole text with its special ones, W tokens of the longest row. A
stream is what a model reads in parallel: token ids first, then segments where it has them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.models.rows import Indices, Rows
from slalom_xai.row_keys import Keys, kept_keys, mixed, sequence_keys

TokenRow = tuple[tuple[int, ...], ...]  # one row: its ids and, where the model has them, segments
Streams = tuple[NDArray[np.int64], ...]

_SEGMENTS = 1 << 40  # where the numbers of segments start, apart from those of ids


@dataclass(frozen=True)
class TokenText:
    """The whole text as token ids.

    Attributes:
        streams: (T,) each: the ids of the whole text, special tokens included, and its segments
            where the model has them.
        filler: the id that stands for a removed token; None where nothing does.
    """

    streams: Streams
    filler: int | None = None
    _placed: dict[torch.device, tuple[Tensor, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.streams[0])

    @cached_property
    def codes(self) -> NDArray[np.uint64]:
        """Mixed codes (T,), equal where two tokens read the same."""
        return stream_codes(self.streams)

    @cached_property
    def filler_codes(self) -> NDArray[np.uint64]:
        """Mixed codes (T,), or one for all, of a filler in the place of each token."""
        return stream_codes((np.array(self.filler), *self.streams[1:]))

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The streams as tensors on a device, moved there once."""
        if device not in self._placed:
            tensors = [torch.as_tensor(stream, device=device) for stream in self.streams]
            self._placed[device] = tuple(tensors)
        return self._placed[device]


class TokenRows(Rows):
    """Rows of token ids, of one text."""

    sizes: Indices
    """(m,), tokens in each row, special ones included."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    @abstractmethod
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""

    @abstractmethod
    def take(self, indices: Indices) -> TokenRows:
        """Some of the rows."""

    @abstractmethod
    def row(self, index: int) -> TokenRow:
        """One row, written out."""

    @abstractmethod
    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""


class KeptTokens(TokenRows):
    """A text with some of its tokens left out, or replaced where it has a filler.

    Args:
        text: the whole text.
        keep: (m, T), which of its tokens stay; special ones always do.
    """

    def __init__(self, text: TokenText, keep: NDArray[np.bool_]) -> None:
        self.text = text
        self._keep = keep
        if text.filler is None:
            self.sizes = np.count_nonzero(keep, axis=1).astype(np.int64)
        else:
            self.sizes = np.full(len(keep), keep.shape[1])

    @cached_property
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows read the same."""
        if self.text.filler is None:
            return kept_keys(self._keep, self.text.codes)
        filled = np.where(self._keep, self.text.codes, self.text.filler_codes)
        return sequence_keys(filled, self.sizes)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""
        ids = self.text.streams[0]
        if self.text.filler is None:
            return ids
        return np.append(ids, self.text.filler).astype(np.int64)

    @property
    def shared(self) -> Indices:
        """How many tokens each row has in common with the beginning of the whole text, (m,)."""
        whole = self._keep.all(axis=1)
        first_gone = (~self._keep).argmax(axis=1)
        common: Indices = np.where(whole, self._keep.shape[1], first_gone)
        return common

    def write_masks(self, table: NDArray[np.bool_]) -> None:
        """Writes which tokens stay into a table (m, T or more)."""
        table[:, : self._keep.shape[1]] = self._keep

    def take(self, indices: Indices) -> KeptTokens:
        """Some of the rows."""
        return KeptTokens(self.text, self._keep[indices])

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        keep = self._keep[index]
        ids, *others = self.text.streams
        if self.text.filler is None:
            return _written([stream[keep] for stream in self.text.streams])
        return _written([np.where(keep, ids, self.text.filler), *others])

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""
        streams = self.text.on(device)
        keep = to_device(self._keep, device)  # (m, T)
        if self.text.filler is not None:
            ids = torch.where(keep, streams[0], self.text.filler)
            return ids, *(stream.expand(len(keep), -1) for stream in streams[1:])
        return _moved_together(streams, keep, self.sizes, width, pad, side)


class WrittenTokens(TokenRows):
    """Rows written out as ids.

    Args:
        streams: (m, W) each: ids and, where the model has them, segments; what is behind a row's
            size does not count.
        sizes: (m,).
    """

    def __init__(self, streams: Streams, sizes: Indices) -> None:
        self._streams = streams
        self.sizes = sizes

    @classmethod
    def of(cls, rows: Sequence[TokenRow]) -> WrittenTokens:
        """Rows from tuples."""
        sizes = np.array([len(row[0]) for row in rows], dtype=np.int64)
        shape = (len(rows), int(sizes.max()))
        streams = tuple(np.zeros(shape, dtype=np.int64) for _ in rows[0])
        for index, row in enumerate(rows):
            for stream, tokens in zip(streams, row, strict=True):
                stream[index, : len(tokens)] = tokens
        return cls(streams, sizes)

    @cached_property
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows read the same."""
        return sequence_keys(stream_codes(self._streams), self.sizes)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""
        return np.unique(self._streams[0])

    def take(self, indices: Indices) -> WrittenTokens:
        """Some of the rows."""
        streams = tuple(stream[indices] for stream in self._streams)
        return WrittenTokens(streams, self.sizes[indices])

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        size = self.sizes[index]
        return _written([stream[index, :size] for stream in self._streams])

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""
        sizes = self.sizes[:, None]
        source = np.arange(width) - np.zeros_like(sizes)  # (m, width), which token stands where
        if side == "left":
            source -= width - sizes
        inside = (source >= 0) & (source < sizes)
        source = source.clip(0, self._streams[0].shape[1] - 1)
        padded = []
        for stream, filler in zip(self._streams, _fillers(pad, len(self._streams)), strict=True):
            tokens = np.where(inside, np.take_along_axis(stream, source, axis=1), filler)
            padded.append(to_device(tokens, device))
        return tuple(padded)


def tensors_of_several(
    parts: Sequence[KeptTokens], width: int, pad: int, side: str, device: torch.device
) -> tuple[Tensor, ...]:
    """As ``KeptTokens.tensors``, for rows of several texts without fillers, one text after another.

    Many short texts share a batch. This takes a few steps for all of them, and not for each.
    """
    rows = np.array([len(part) for part in parts])
    longest = max(len(part.text) for part in parts)
    keep = np.zeros((int(rows.sum()), longest), dtype=bool)
    tables = [np.zeros((len(parts), longest), dtype=np.int64) for _ in parts[0].text.streams]
    start = 0
    for number, part in enumerate(parts):
        part.write_masks(keep[start : start + len(part)])
        start += len(part)
        for table, stream in zip(tables, part.text.streams, strict=True):
            table[number, : len(stream)] = stream
    owner = to_device(np.repeat(np.arange(len(parts)), rows), device)
    streams = [to_device(table, device)[owner] for table in tables]  # (m, T)
    sizes = np.concatenate([part.sizes for part in parts])
    return _moved_together(streams, to_device(keep, device), sizes, width, pad, side)


def _moved_together(
    streams: Sequence[Tensor], keep: Tensor, sizes: Indices, width: int, pad: int, side: str
) -> tuple[Tensor, ...]:
    """What masks keep of streams, moved together and padded on one side, (m, width) each.

    Args:
        streams: (T,) or (m, T) each.
        keep: (m, T).
        sizes: (m,), how many tokens each row keeps.
        width: tokens of a row that is filled up.
        pad: the token that fills it.
        side: where.
    """
    rows, device = len(keep), keep.device
    position = keep.cumsum(dim=1).sub_(1)  # (m, T), where each kept token goes
    if side == "left":
        position += width - to_device(sizes, device)[:, None]
    position.masked_fill_(~keep, width)  # what is left out goes into an entry that is cut off
    padded = []
    for stream, filler in zip(streams, _fillers(pad, len(streams)), strict=True):
        empty = torch.full((rows, width + 1), filler, dtype=stream.dtype, device=device)
        padded.append(empty.scatter_(1, position, stream.expand(rows, -1))[:, :width])
    return tuple(padded)


def stream_codes(streams: Streams) -> NDArray[np.uint64]:
    """Mixed codes of tokens: of the id and, where there is one, the segment."""
    codes = mixed(streams[0])
    if len(streams) == 1:
        return codes
    return codes ^ mixed(streams[1] + _SEGMENTS)


def _written(streams: Sequence[NDArray[np.int64]]) -> TokenRow:
    return tuple(tuple(stream.tolist()) for stream in streams)


def _fillers(pad: int, streams: int) -> tuple[int, ...]:
    """What fills each stream of a row: the pad token, and segment 0."""
    return (pad, *[0] * (streams - 1))


def to_device(array: NDArray[np.bool_] | NDArray[np.int64], device: torch.device) -> Tensor:
    """An array on a device, without waiting for a GPU."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
