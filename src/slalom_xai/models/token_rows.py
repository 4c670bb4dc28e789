"""Many questions about one text at once: which tokens each keeps, told apart and measured without spelling them out.

Rows of models that read token ids stay tables: masks over the text's tokens, or written-out ids. Inputs are built from them on the
device, batch by batch. Rows of other models are a list of whatever the model is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.row_keys import Keys, kept_keys, mixed, sequence_keys

Row = Hashable  # one question to a model: its token ids, or a string
Encoded = tuple[
    tuple[int, ...], ...
]  # one row of token ids and, where the model has them, of segments
Places = NDArray[np.int64]

_SEGMENTS = 1 << 40  # where the numbers of segments start, apart from those of ids


@dataclass(frozen=True)
class SpelledRows:
    """Questions as the model takes them, one by one."""

    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def keys(self) -> Keys:
        """Equal where two questions are, (m,)."""
        return np.array([hash(row) for row in self.rows], dtype=np.int64)

    def take(self, places: Places) -> SpelledRows:
        """Some of the rows."""
        return SpelledRows([self.rows[place] for place in places.tolist()])


class TokenRows(ABC):
    """Rows of token ids, of one text."""

    sizes: Places
    """(m,), tokens in each row, special ones included."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """Equal where two rows read the same, (m,)."""

    @property
    @abstractmethod
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""

    @abstractmethod
    def take(self, places: Places) -> TokenRows:
        """Some of the rows."""

    @abstractmethod
    def row(self, place: int) -> Encoded:
        """One row, written out."""

    @abstractmethod
    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""


@dataclass(frozen=True)
class TokenText:
    """The whole text as token ids.

    Attributes:
        streams: the ids (T,) of the whole text, special tokens included, and its segments where the model has them.
        filler: the id that stands for a removed token; None where nothing does.
    """

    streams: tuple[NDArray[np.int64], ...]
    filler: int | None = None
    _placed: dict[torch.device, tuple[Tensor, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @cached_property
    def codes(self) -> NDArray[np.uint64]:
        """Mixed codes (T,), equal where two tokens read the same."""
        return stream_codes(self.streams)

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The streams as tensors on a device, moved there once."""
        if device not in self._placed:
            self._placed[device] = tuple(
                torch.as_tensor(stream, device=device) for stream in self.streams
            )
        return self._placed[device]


class KeptTokens(TokenRows):
    """A text with some of its tokens left out, or replaced where it has a filler.

    Args:
        text: the whole text.
        keep: (m, T), which of its tokens stay; special ones always do.
    """

    def __init__(self, text: TokenText, keep: NDArray[np.bool_]) -> None:
        self.text, self._keep = text, keep
        whole = text.filler is not None
        self.sizes = (
            np.full(len(keep), keep.shape[1])
            if whole
            else np.count_nonzero(keep, axis=1).astype(np.int64)
        )

    @cached_property
    def keys(self) -> Keys:  # noqa: D102
        if self.text.filler is None:
            return kept_keys(self._keep, self.text.codes)
        filled = np.where(
            self._keep,
            self.text.codes,
            stream_codes((np.array(self.text.filler), *self.text.streams[1:])),
        )
        return sequence_keys(filled, self.sizes)

    @property
    def ids(self) -> NDArray[np.int64]:  # noqa: D102
        filler = [] if self.text.filler is None else [self.text.filler]
        return np.append(self.text.streams[0], filler).astype(np.int64)

    @property
    def shared(self) -> Places:
        """How many tokens each row has in common with the beginning of the whole text, (m,)."""
        common: Places = np.where(
            self._keep.all(axis=1), self._keep.shape[1], (~self._keep).argmax(axis=1)
        )
        return common

    def take(self, places: Places) -> KeptTokens:  # noqa: D102
        return KeptTokens(self.text, self._keep[places])

    def row(self, place: int) -> Encoded:  # noqa: D102
        keep, (ids, *others) = self._keep[place], self.text.streams
        if self.text.filler is not None:
            return tuple(
                tuple(stream.tolist())
                for stream in (np.where(keep, ids, self.text.filler), *others)
            )
        return tuple(tuple(stream[keep].tolist()) for stream in (ids, *others))

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:  # noqa: D102
        ids, *others = self.text.on(device)
        keep = _moved(self._keep, device)
        rows = len(keep)
        if self.text.filler is not None:
            return torch.where(keep, ids, self.text.filler), *(
                stream.expand(rows, -1) for stream in others
            )
        place = keep.cumsum(dim=1).sub_(1)
        if side == "left":
            place += width - _moved(self.sizes, device)[:, None]
        place.masked_fill_(~keep, width)  # what is left out goes into a column that is cut off
        filled = (
            torch.full((rows, width + 1), filler, dtype=ids.dtype, device=device).scatter_(
                1, place, stream.expand(rows, -1)
            )
            for stream, filler in zip((ids, *others), (pad, *(0 for _ in others)), strict=True)
        )
        return tuple(stream[:, :width] for stream in filled)


class WrittenTokens(TokenRows):
    """Rows written out as ids.

    Args:
        streams: (m, W) each: ids and, where the model has them, segments; what is behind a row's size does not count.
        sizes: (m,).
    """

    def __init__(self, streams: tuple[NDArray[np.int64], ...], sizes: Places) -> None:
        self._streams, self.sizes = streams, sizes

    @classmethod
    def of(cls, rows: Sequence[Encoded]) -> WrittenTokens:
        """Rows from tuples."""
        sizes = np.array([len(row[0]) for row in rows], dtype=np.int64)
        streams = tuple(np.zeros((len(rows), int(sizes.max())), dtype=np.int64) for _ in rows[0])
        for place, row in enumerate(rows):
            for stream, tokens in zip(streams, row, strict=True):
                stream[place, : len(tokens)] = tokens
        return cls(streams, sizes)

    @cached_property
    def keys(self) -> Keys:  # noqa: D102
        return sequence_keys(stream_codes(self._streams), self.sizes)

    @property
    def ids(self) -> NDArray[np.int64]:  # noqa: D102
        return np.unique(self._streams[0])

    def take(self, places: Places) -> WrittenTokens:  # noqa: D102
        return WrittenTokens(tuple(stream[places] for stream in self._streams), self.sizes[places])

    def row(self, place: int) -> Encoded:  # noqa: D102
        return tuple(tuple(stream[place, : self.sizes[place]].tolist()) for stream in self._streams)

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:  # noqa: D102
        place = np.arange(width) - (
            width - self.sizes[:, None] if side == "left" else np.zeros_like(self.sizes[:, None])
        )
        inside = (place >= 0) & (place < self.sizes[:, None])
        place = place.clip(0, self._streams[0].shape[1] - 1)
        fillers = (pad, *(0 for _ in self._streams[1:]))
        return tuple(
            _moved(np.where(inside, np.take_along_axis(stream, place, axis=1), filler), device)
            for stream, filler in zip(self._streams, fillers, strict=True)
        )


Rows = SpelledRows | TokenRows


class TokenBatch:
    """Rows of one or several texts that are asked together.

    Args:
        parts: rows by text.
        shared: tokens at their beginning that a model has read before, for all of them.
    """

    def __init__(self, parts: Sequence[TokenRows], shared: int = 0) -> None:
        self._parts, self.shared = parts, shared
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.sizes = np.concatenate([part.sizes for part in parts])

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def ids(self) -> set[int]:
        """Every token id that occurs, and perhaps others."""
        return {token for part in self._parts for token in part.ids.tolist()}

    def row(self, place: int) -> Encoded:
        """One row, written out."""
        part = int(np.searchsorted(self._starts, place, side="right")) - 1
        return self._parts[part].row(place - int(self._starts[part]))

    def take(self, places: Places) -> TokenBatch:
        """Some of the rows, ``places`` ascending."""
        owner = np.searchsorted(self._starts, places, side="right") - 1
        parts = [
            self._parts[part].take(places[owner == part] - self._starts[part])
            for part in np.unique(owner)
        ]
        return TokenBatch(parts, self.shared)

    def inputs(self, pad: int, side: str, device: torch.device) -> dict[str, Tensor]:
        """Equally long inputs: ids, the mask and, where rows have them, segments."""
        width = int(self.sizes.max())
        every = [part.tensors(width, pad, side, device) for part in self._parts]
        streams = [
            torch.cat(stream) if len(every) > 1 else stream[0]
            for stream in zip(*every, strict=True)
        ]
        sizes = _moved(self.sizes, device)[:, None]
        place = torch.arange(width, device=device)
        mask = place < sizes if side == "right" else place >= width - sizes
        inputs = {"input_ids": streams[0], "attention_mask": mask.long()}
        if len(streams) > 1:
            inputs["token_type_ids"] = streams[1]
        return inputs


def stream_codes(streams: tuple[NDArray[np.int64], ...]) -> NDArray[np.uint64]:
    """Mixed codes of tokens: of the id and, where there is one, the segment."""
    codes = mixed(streams[0])
    return codes ^ mixed(streams[1] + _SEGMENTS) if len(streams) > 1 else codes


def _moved(array: NDArray[np.bool_] | NDArray[np.int64], device: torch.device) -> Tensor:
    """An array on a device; without waiting for a GPU."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return (
        tensor.pin_memory().to(device, non_blocking=True)
        if device.type == "cuda"
        else tensor.to(device)
    )
