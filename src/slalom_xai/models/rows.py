"""Rows: the shortened or rearranged texts that a model is asked, many at a time.

Models that read strings get a list of them (``StringRows``). Rows of models that read token ids
stay tables for as long as possible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import ModelError
from slalom_xai.system.row_keys import (
    CELLS,
    Keys,
    kept_keys,
    mix_bits,
    place_keys,
    sequence_keys,
)

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


# Rows of token ids about one text, told apart and measured without spelling them out.
#
# A row is either a mask over the text's tokens (``KeptTokens``) or a sequence of ids that is
# written out (``WrittenTokens``). Both stay tables of numpy until a batch of them is asked; only
# then are inputs built, on the model's device. A million rows of a text thus cost a bit per
# token.
#
# Shapes: m rows, T tokens of the whole text with its special ones, W tokens of the longest row. A
# stream is what a model reads in parallel: token ids first, then segments where it has them.
#
# Rows of a text whose removed tokens are hidden hold the kept tokens and their places in the
# text, counted from 0. A row whose tokens have the places 0, 1, 2, ... is an ordinary one.


# One row: its ids; segments, where the model has them; and places, where tokens are hidden. A row
# with places and without segments has an empty tuple between the two.
TokenRow = tuple[tuple[int, ...], ...]
Streams = tuple[NDArray[np.int64], ...]

# How a model is told which tokens of a text are hidden: rows hold the kept tokens with their
# position ids, or they keep their length, and the attention mask has holes.
Hiding = Literal["positions", "holes"]

_SEGMENTS = 1 << 40  # where the numbers of segments start, apart from those of ids
_WITH_PLACES = 3  # streams of a row that is written out with places
_MOST_FILLING = 4  # times what rows of several texts take, for them to be put into one table


@dataclass(frozen=True)
class TokenText:
    """The whole text as token ids.

    Attributes:
        streams: (T,) each: the ids of the whole text, special tokens included, and its segments
            where the model has them.
        filler: the id that stands for a removed token; None where nothing does.
        hiding: how removed tokens are hidden; None where they are deleted or replaced.
    """

    streams: Streams
    filler: int | None = None
    hiding: Hiding | None = None
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


class TokenTable(ABC):
    """Rows of token ids that can be put into a batch."""

    hiding: Hiding | None = None
    """How tokens that were removed are hidden; None where none are."""

    @property
    @abstractmethod
    def sizes(self) -> Indices:
        """(m,), tokens in each row as the model reads it, special ones and holes included."""

    @property
    def counts(self) -> Indices:
        """(m,), tokens in each row, special ones included and holes not."""
        return self.sizes

    @property
    def ends(self) -> Indices:
        """(m,), the place behind the last token of each row."""
        return self.sizes

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    @abstractmethod
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""

    @abstractmethod
    def take(self, indices: Indices) -> TokenTable:
        """Some of the rows."""

    @abstractmethod
    def row(self, index: int) -> TokenRow:
        """One row, written out."""

    @abstractmethod
    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side.

        Where tokens are hidden, their places are the last stream.
        """


class TokenRows(TokenTable, Rows):
    """Rows of token ids, of one text."""

    @abstractmethod
    def take(self, indices: Indices) -> TokenRows:
        """Some of the rows."""


class KeptTokens(TokenRows):
    """A text with some of its tokens left out, or replaced where it has a filler.

    Args:
        text: the whole text.
        keep: (m, T), which of its tokens stay; special ones always do.
    """

    def __init__(self, text: TokenText, keep: NDArray[np.bool_]) -> None:
        self.text = text
        self.hiding = text.hiding
        self.keep = keep

    def __len__(self) -> int:
        return len(self.keep)

    @cached_property
    def sizes(self) -> Indices:
        """(m,), tokens in each row as the model reads it, special ones and holes included."""
        if self.text.filler is not None:
            return np.full(len(self), self.keep.shape[1])
        return self.ends if self.hiding == "holes" else self.counts

    @cached_property
    def counts(self) -> Indices:
        """(m,), tokens in each row, special ones included and holes not."""
        if self.text.filler is not None:
            return self.sizes
        return _count_tokens(self.keep)

    @cached_property
    def ends(self) -> Indices:
        """(m,), the place behind the last token of each row."""
        if self.hiding is None:
            return self.sizes
        return _find_ends(self.keep)

    @cached_property
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows read the same."""
        if self.hiding is not None:
            return place_keys(self.keep, self.text.codes)
        if self.text.filler is None:
            return kept_keys(self.keep, self.text.codes)
        filled = np.where(self.keep, self.text.codes, self.text.filler_codes)
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
        """How many tokens each row may borrow from the beginning of the whole text, (m,).

        A row with holes borrows none.
        """
        if self.hiding == "holes":
            return np.zeros(len(self), dtype=np.int64)
        whole = self.keep.all(axis=1)
        first_gone = (~self.keep).argmax(axis=1)
        common: Indices = np.where(whole, self.keep.shape[1], first_gone)
        return common

    def take(self, indices: Indices) -> KeptTokens:
        """Some of the rows."""
        return KeptTokens(self.text, self.keep[indices])

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        keep = self.keep[index]
        ids, *others = self.text.streams
        if self.text.filler is None:
            places = None if self.hiding is None else np.flatnonzero(keep)
            return _to_tuples([stream[keep] for stream in self.text.streams], places)
        return _to_tuples([np.where(keep, ids, self.text.filler), *others])

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""
        streams = self.text.on(device)
        keep = to_device(self.keep, device)  # (m, T)
        if self.text.filler is not None:
            ids = torch.where(keep, streams[0], self.text.filler)
            return ids, *(stream.expand(len(keep), -1) for stream in streams[1:])
        if self.hiding is not None:
            streams = (*streams, torch.arange(len(self.text), device=device))
        return _compact(streams, keep, self.counts, width, pad, side)


class WrittenTokens(TokenRows):
    """Rows written out as ids.

    Args:
        streams: (m, W) each: ids and, where the model has them, segments; what is behind a row's
            size does not count.
        counts: (m,), tokens in each row.
        places: (m, W), where each token stands in its text; None: one behind the other.
        hiding: how the model is told of places that no token has.
    """

    def __init__(
        self,
        streams: Streams,
        counts: Indices,
        places: NDArray[np.int64] | None = None,
        hiding: Hiding | None = None,
    ) -> None:
        self._streams = streams
        self._counts = counts
        self._places = places
        self.hiding = None if places is None else hiding

    @classmethod
    def of(cls, rows: Sequence[TokenRow], hiding: Hiding | None = None) -> WrittenTokens:
        """Rows from tuples.

        Args:
            rows: any number of them; with places or without.
            hiding: how the model is told of places, where a row has some.
        """
        counts = np.array([len(row[0]) for row in rows], dtype=np.int64)
        shape = (len(rows), int(counts.max()))
        named = [row[:2] if len(row) > 1 and row[1] else row[:1] for row in rows]
        streams = tuple(np.zeros(shape, dtype=np.int64) for _ in named[0])
        for index, row in enumerate(named):
            for stream, tokens in zip(streams, row, strict=True):
                stream[index, : len(tokens)] = tokens
        if all(len(row) < _WITH_PLACES for row in rows):
            return cls(streams, counts)
        if hiding is None:
            raise ModelError("a row with hidden tokens was given to a model that cannot hide any")
        places = np.tile(np.arange(shape[1]), (shape[0], 1))
        for index, row in enumerate(rows):
            if len(row) == _WITH_PLACES:
                places[index, : len(row[-1])] = row[-1]
        return cls(streams, counts, places, hiding)

    @property
    def sizes(self) -> Indices:
        """(m,), tokens in each row as the model reads it, special ones and holes included."""
        return self.ends if self.hiding == "holes" else self._counts

    @property
    def counts(self) -> Indices:
        """(m,), tokens in each row, special ones included and holes not."""
        return self._counts

    @cached_property
    def ends(self) -> Indices:
        """(m,), the place behind the last token of each row."""
        if self._places is None:
            return self._counts
        inside = np.arange(self._places.shape[1]) < self._counts[:, None]
        ends: Indices = np.where(inside, self._places + 1, 0).max(axis=1)
        return ends

    @cached_property
    def keys(self) -> Keys:
        """Numbers (m,) that are equal where two rows read the same."""
        return sequence_keys(stream_codes(self._streams), self._counts, self._places)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""
        return np.unique(self._streams[0])

    def take(self, indices: Indices) -> WrittenTokens:
        """Some of the rows."""
        streams = tuple(stream[indices] for stream in self._streams)
        places = None if self._places is None else self._places[indices]
        return WrittenTokens(streams, self._counts[indices], places, self.hiding)

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        count = self._counts[index]
        places = None if self._places is None else self._places[index, :count]
        return _to_tuples([stream[index, :count] for stream in self._streams], places)

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""
        counts = self._counts[:, None]
        source = np.arange(width) - np.zeros_like(counts)  # (m, width), which token stands where
        if side == "left":
            source -= width - counts
        inside = (source >= 0) & (source < counts)
        source = source.clip(0, self._streams[0].shape[1] - 1)
        padded = []
        streams = self._streams if self._places is None else (*self._streams, self._places)
        for stream, filler in zip(streams, _fillers(pad, len(streams)), strict=True):
            tokens = np.where(inside, np.take_along_axis(stream, source, axis=1), filler)
            padded.append(to_device(tokens, device))
        return tuple(padded)


class KeptOfSeveral(TokenTable):
    """Rows of several texts, with some of the tokens left out, in one table.

    Many short texts share a batch: this takes a few steps for all of them, and not for each.

    Args:
        texts: B of them, with one filler, or without; tokens are hidden in one way, or not at all.
        streams: (B, T) each: those of the texts, filled up to the longest one.
        owner: (m,), the text that a row is about.
        keep: (m, T), which of its tokens stay.
    """

    def __init__(
        self,
        texts: Sequence[TokenText],
        streams: Streams,
        owner: Indices,
        keep: NDArray[np.bool_],
    ) -> None:
        self.hiding = texts[0].hiding
        self._filler = texts[0].filler
        self._texts = texts
        self._streams = streams
        self._owner = owner
        self._keep = keep

    @classmethod
    def of(cls, parts: Sequence[Rows | TokenTable]) -> KeptOfSeveral | None:
        """All rows of several texts, one text after another; None where they differ in kind."""
        kept = [part for part in parts if isinstance(part, KeptTokens)]
        if len(kept) < max(2, len(parts)):
            return None
        if len({(part.text.filler, part.hiding) for part in kept}) > 1:
            return None
        rows, tokens = np.array([part.keep.shape for part in kept]).T
        longest = int(tokens.max())
        if rows.sum() * longest > max(CELLS, _MOST_FILLING * (rows @ tokens)):
            return None
        keep = np.zeros((int(rows.sum()), longest), dtype=bool)
        shape = (len(kept), longest)
        streams = tuple(np.zeros(shape, dtype=np.int64) for _ in kept[0].text.streams)
        start = 0
        for number, part in enumerate(kept):
            length = len(part.text)
            keep[start : start + len(part), :length] = part.keep
            for stream, own in zip(streams, part.text.streams, strict=True):
                stream[number, :length] = own
            start += len(part)
        texts = [part.text for part in kept]
        return cls(texts, streams, np.repeat(np.arange(len(kept)), rows), keep)

    def __len__(self) -> int:
        return len(self._keep)

    @cached_property
    def sizes(self) -> Indices:
        """(m,), tokens in each row as the model reads it, special ones and holes included."""
        return self.ends if self.hiding == "holes" else self.counts

    @cached_property
    def counts(self) -> Indices:
        """(m,), tokens in each row, special ones included and holes not."""
        if self._filler is not None:
            return np.array([len(text) for text in self._texts])[self._owner]
        return _count_tokens(self._keep)

    @cached_property
    def ends(self) -> Indices:
        """(m,), the place behind the last token of each row."""
        return self.sizes if self.hiding is None else _find_ends(self._keep)

    @property
    def ids(self) -> NDArray[np.int64]:
        """Every token id that occurs, and perhaps others."""
        texts = np.unique(self._owner).tolist()
        return np.concatenate([self._texts[text].streams[0] for text in texts])

    def take(self, indices: Indices) -> KeptOfSeveral:
        """Some of the rows."""
        owner, keep = self._owner[indices], self._keep[indices]
        return KeptOfSeveral(self._texts, self._streams, owner, keep)

    def row(self, index: int) -> TokenRow:
        """One row, written out."""
        text = self._texts[int(self._owner[index])]
        return KeptTokens(text, self._keep[index : index + 1, : len(text)]).row(0)

    def tensors(self, width: int, pad: int, side: str, device: torch.device) -> tuple[Tensor, ...]:
        """Ids (m, width) and, where the model has them, segments, padded on one side."""
        owner = to_device(self._owner, device)
        streams = [to_device(stream, device)[owner] for stream in self._streams]  # (m, T)
        if self.hiding is not None:
            streams.append(torch.arange(self._keep.shape[1], device=device))
        keep = to_device(self._keep, device)
        if self._filler is not None:
            streams[0] = torch.where(keep, streams[0], self._filler)
            keep = (
                torch.arange(keep.shape[1], device=device) < to_device(self.counts, device)[:, None]
            )
        return _compact(streams, keep, self.counts, width, pad, side)


def _count_tokens(keep: NDArray[np.bool_]) -> Indices:
    """How many entries of each row of a table are True, (m,)."""
    counts: Indices = np.count_nonzero(keep, axis=1).astype(np.int64)
    return counts


def _find_ends(keep: NDArray[np.bool_]) -> Indices:
    """Where the last True of each row of a table is, plus one; 0 where there is none, (m,)."""
    from_end = keep[:, ::-1].argmax(axis=1)
    ends: Indices = np.where(keep.any(axis=1), keep.shape[1] - from_end, 0)
    return ends


def _compact(
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
    codes = mix_bits(streams[0])
    if len(streams) == 1:
        return codes
    return codes ^ mix_bits(streams[1] + _SEGMENTS)


def _to_tuples(
    streams: Sequence[NDArray[np.int64]], places: NDArray[np.int64] | None = None
) -> TokenRow:
    """A row as tuples; places are left out where tokens stand one behind the other."""
    row = tuple(tuple(stream.tolist()) for stream in streams)
    if places is None or np.array_equal(places, np.arange(len(places))):
        return row
    segments = row[1] if len(row) > 1 else ()
    return (row[0], segments, tuple(places.tolist()))


def _fillers(pad: int, streams: int) -> tuple[int, ...]:
    """What fills each stream of a row: the pad token, segment 0, and place 0."""
    return (pad, *[0] * (streams - 1))


def to_device(array: NDArray[np.bool_] | NDArray[np.int64], device: torch.device) -> Tensor:
    """An array on a device, without waiting for a GPU."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
