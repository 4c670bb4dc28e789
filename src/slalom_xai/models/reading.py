"""A text as a model reads it, in its smallest pieces, and the rows that can be made of them.

There are two kinds of reading. A model that takes strings gives a ``Reading``, which is told how to
spell one row. A model that takes token ids gives a ``TokenReading``, whose rows are tables of ids.
``AnyReading`` is what the rest of the package needs of either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from slalom_xai.models.rows import (
    Indices,
    KeptTokens,
    Row,
    Rows,
    StringRows,
    TokenText,
    WrittenTokens,
)
from slalom_xai.models.text import (
    Unit,
    equal_codes,
    join_pieces,
    owners,
    unknown_note,
    unspaced_note,
    words,
)
from slalom_xai.system.row_keys import INERT, Keys


class AnyReading(Protocol):
    """A text, or a pair of texts, as some model reads it."""

    @property
    def text(self) -> str:
        """The whole text as given."""

    @property
    def text_pair(self) -> str | None:
        """The second text of a pair."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and, where there is one, its pair."""

    @property
    def pieces(self) -> tuple[Unit, ...]:
        """The tokens, or words, in reading order; special tokens are not among them."""

    @property
    def codes(self) -> NDArray[np.int64]:
        """(pieces,), equal where two pieces read the same to the model."""

    @property
    def left_out(self) -> str:
        """The end of the text that truncation cut off; empty otherwise."""

    @property
    def in_place(self) -> bool:
        """Whether a removed piece leaves a mark where it stood."""

    @property
    def keeps_places(self) -> bool:
        """Whether pieces behind a removed one stay where they are."""

    @property
    def inert(self) -> NDArray[np.bool_]:
        """(pieces,), which pieces already are what stands for a removed one."""

    @property
    def word_numbers(self) -> Indices | None:
        """(pieces,), the tokenizer's own word that each piece is part of; None without one."""

    @property
    def unknown(self) -> NDArray[np.bool_] | None:
        """(pieces,), which pieces the tokenizer does not know; None where it knows all."""

    @property
    def passages(self) -> tuple[int, ...] | None:
        """Where passages begin that were given one by one; None for a text as such."""

    @property
    def positions(self) -> Indices | None:
        """(pieces,), where each piece stands in the row of the whole text; None for strings."""

    def shorten(self, keep: NDArray[np.bool_]) -> Row:
        """The row that keeps some of the pieces, (pieces,)."""

    def compose(self, indices: Indices) -> Row:
        """The row of some pieces, by their indices, in any order and number."""

    def rows_keeping(self, keep: NDArray[np.bool_]) -> Rows:
        """Rows that keep some of the pieces, (m, pieces)."""

    def rows_of(self, indices: Indices, sizes: Indices) -> Rows:
        """Rows of pieces in any order, (m, w), of which the first ``sizes`` (m,) count."""


@dataclass(frozen=True)
class Reading:
    """A text as a model of strings reads it; what an adapter of your own returns.

    ``Reading.of_words`` makes one that suits most models.

    Attributes:
        text: the whole text as given.
        pieces: the words in reading order.
        codes: (pieces,), equal where two pieces read the same to the model; ``equal_codes`` of
            their texts, in most cases.
        left_out: the end of the text that truncation cut off; empty otherwise.
        compose: indices of pieces, in any order and number, to the row that the model is asked.
        shorten: which pieces are kept, (pieces,), to the row without the others.
        text_pair: the second text of a pair.
        in_place: whether a removed piece leaves a mark where it stood.
        passages: where passages begin that were given one by one; None for a text as such.
    """

    text: str
    pieces: tuple[Unit, ...]
    codes: NDArray[np.int64]
    left_out: str
    compose: Callable[[Indices], Row]
    shorten: Callable[[NDArray[np.bool_]], Row]
    text_pair: str | None = None
    in_place: bool = False
    passages: tuple[int, ...] | None = None

    @classmethod
    def of_words(cls, text: str, spell: Callable[[list[str]], Row] = " ".join) -> Reading:
        """A text as its words, for adapters that need nothing special.

        Args:
            text: the whole text as given.
            spell: the words that a row has to the row that the model is asked; joined by spaces by
                default.
        """
        pieces = words(text)
        texts = [piece.text for piece in pieces]

        def compose(indices: Indices) -> Row:
            return spell([texts[index] for index in indices])

        def shorten(keep: NDArray[np.bool_]) -> Row:
            return compose(np.flatnonzero(keep))

        return cls(text, pieces, equal_codes(texts), "", compose, shorten)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and, where there is one, its pair."""
        return _texts(self)

    @property
    def keeps_places(self) -> bool:
        """Whether words behind a removed one stay where they are."""
        return self.in_place

    @property
    def inert(self) -> NDArray[np.bool_]:
        """(pieces,), False: a word is never taken for the mark of a removed one."""
        return np.zeros(len(self.pieces), dtype=bool)

    @property
    def word_numbers(self) -> None:
        """There is no tokenizer."""

    @property
    def unknown(self) -> None:
        """There is no tokenizer that might not know a word."""

    @property
    def positions(self) -> None:
        """There are no tokens."""

    def rows_keeping(self, keep: NDArray[np.bool_]) -> StringRows:
        """Rows that keep some of the pieces, (m, pieces)."""
        return StringRows([self.shorten(row) for row in keep])

    def rows_of(self, indices: Indices, sizes: Indices) -> StringRows:
        """Rows of pieces in any order, (m, w), of which the first ``sizes`` (m,) count."""
        pairs = zip(indices, sizes.tolist(), strict=True)
        return StringRows([self.compose(row[:size]) for row, size in pairs])


@dataclass(frozen=True)
class TokenReading:
    """A text as a model of token ids reads it.

    Attributes:
        text: the whole text as given.
        pieces: the tokens in reading order; special tokens are not among them.
        codes: (pieces,), equal where two pieces read the same to the model.
        left_out: the end of the text that truncation cut off; empty otherwise.
        tokens: the whole text as token ids, special ones included.
        positions: (pieces,), where each piece stands among the tokens.
        word_numbers: (pieces,), the number of the tokenizer's own word that each piece is part of.
        unknown: (pieces,), which pieces the tokenizer does not know; None where it knows all.
        text_pair: the second text of a pair.
        passages: where passages begin that were given one by one; None for a text as such.
    """

    text: str
    pieces: tuple[Unit, ...]
    codes: NDArray[np.int64]
    left_out: str
    tokens: TokenText
    positions: Indices
    word_numbers: Indices
    unknown: NDArray[np.bool_] | None = None
    text_pair: str | None = None
    passages: tuple[int, ...] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and, where there is one, its pair."""
        return _texts(self)

    @property
    def in_place(self) -> bool:
        """Whether a removed token leaves a mark where it stood."""
        return self.tokens.filler is not None

    @property
    def keeps_places(self) -> bool:
        """Whether tokens behind a removed one stay where they are."""
        return self.in_place or self.tokens.hiding is not None

    @property
    def inert(self) -> NDArray[np.bool_]:
        """(pieces,), which pieces already are the token that stands for a removed one."""
        if self.tokens.filler is None:
            return np.zeros(len(self.pieces), dtype=bool)
        ids = self.tokens.streams[0]
        return np.equal(ids[self.positions], self.tokens.filler)

    def shorten(self, keep: NDArray[np.bool_]) -> Row:
        """The row that keeps some of the pieces, (pieces,)."""
        return self.rows_keeping(keep[None]).row(0)

    def compose(self, indices: Indices) -> Row:
        """The row of some pieces, by their indices, in any order and number."""
        return self.rows_of(indices[None], np.array([len(indices)])).row(0)

    def rows_keeping(self, keep: NDArray[np.bool_]) -> KeptTokens:
        """Rows that keep some of the pieces, (m, pieces); special tokens stay."""
        whole = np.ones((len(keep), len(self.tokens)), dtype=bool)
        whole[:, self.positions] = keep
        return KeptTokens(self.tokens, whole)

    def rows_of(self, indices: Indices, sizes: Indices) -> WrittenTokens:
        """Rows of pieces in any order, (m, w), of which the first ``sizes`` (m,) count.

        Special tokens keep their places before, between and behind the texts. So every entry of a
        row is given the number of its section (0: before the first text, 1: the first text, 2:
        between the texts, ...), and entries are sorted by it, with what does not count last.
        """
        parts = np.array([piece.part for piece in self.pieces])  # (pieces,), 0 or 1: which text
        starts = [int(self.positions[parts == part][0]) for part in range(len(self.texts))]
        behind_all = 2 * len(starts) + 1

        # Sections of the pieces are odd, (m, w), and those of the s special tokens even, (s,).
        counts = np.arange(indices.shape[1]) < sizes[:, None]
        piece_sections = np.where(counts, 2 * parts[indices] + 1, behind_all)
        special = np.setdiff1d(np.arange(len(self.tokens)), self.positions)
        special_sections = 2 * np.searchsorted(starts, special)

        # Every row gets all special tokens, (m, s + w), and is then sorted by section.
        shape = (len(indices), len(special))
        around = np.broadcast_to(special_sections, shape)
        sections = np.concatenate([around, piece_sections], axis=1)
        around = np.broadcast_to(special, shape)
        positions = np.concatenate([around, self.positions[indices]], axis=1)
        order = sections.argsort(axis=1, kind="stable")
        positions = np.take_along_axis(positions, order, axis=1)
        streams = tuple(stream[positions] for stream in self.tokens.streams)
        return WrittenTokens(streams, sizes + len(special))


def _texts(reading: AnyReading) -> tuple[str, ...]:
    if reading.text_pair is None:
        return (reading.text,)
    return (reading.text, reading.text_pair)


# A reading whose pieces are grouped into the units that receive scores.


@dataclass(frozen=True)
class Prompt:
    """A reading whose pieces are grouped into the units that receive scores.

    Attributes:
        reading: the text as the model reads it.
        units: what receives scores.
        owner: (pieces,), the unit each piece belongs to.
        codes: (n,), equal where two units read the same.
        occurrences: (n,), how often each unit stands in the text; more than 1 only for types.
        spelling: the pieces of one occurrence of each unit.
        notes: what a reader should know about the units, a sentence each.
        removal: what leaving out a unit means.
    """

    reading: AnyReading
    units: tuple[Unit, ...]
    owner: Indices
    codes: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    spelling: tuple[Indices, ...]
    notes: tuple[str, ...] = ()
    removal: str = "delete"

    @cached_property
    def distinct(self) -> int:
        """How many units read differently; one where removing any of them changes nothing."""
        if bool(self.inert.all()):
            return 1
        return len(set(self.codes.tolist()))

    @cached_property
    def inert(self) -> NDArray[np.bool_]:
        """(n,), units made of what stands for removed ones.

        A row reads the same with and without them.
        """
        inert = np.ones(len(self.units), dtype=bool)
        inert[self.owner[~self.reading.inert]] = False
        return inert

    @cached_property
    def interchangeable(self) -> NDArray[np.int64]:
        """(n,), equal where removing one unit or the other may leave the same row.

        Never, where units keep their places; a unit that is itself what stands for a removed one
        is ``INERT``.
        """
        if not self.reading.keeps_places:
            return self.codes
        return np.where(self.inert, INERT, np.arange(len(self.units)))

    @property
    def moves(self) -> bool:
        """Whether units after a removed one move up; types stand in several places."""
        return not self.reading.keeps_places and bool((self.occurrences == 1).all())

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """The mask that keeps every unit, (1, n)."""
        return np.ones((1, len(self.units)), dtype=bool)

    def row(self, keep: NDArray[np.bool_]) -> Row:
        """The row that keeps some units, (n,), in their order in the text."""
        return self.reading.shorten(keep[self.owner])

    def rows(self, masks: NDArray[np.bool_]) -> Rows:
        """The rows that keep some units, (m, n)."""
        if len(self.owner) == masks.shape[1]:  # every piece is a unit
            return self.reading.rows_keeping(masks)
        return self.reading.rows_keeping(masks[:, self.owner])

    def keys(self, masks: NDArray[np.bool_]) -> Keys:
        """Numbers (m,) that are equal where masks (m, n) keep what reads the same."""
        return self.rows(masks).keys

    def sequences(self, units: NDArray[np.int64]) -> Rows:
        """The rows that spell out units in any order and number, (m, w).

        -1 stands for no unit, at the end of a row.
        """
        longest = max(len(pieces) for pieces in self.spelling)
        table = np.full((len(self.spelling) + 1, longest), -1)  # its last row is what -1 looks up
        for unit, pieces in enumerate(self.spelling):
            table[unit, : len(pieces)] = pieces
        indices = table[units].reshape(len(units), -1)
        empty = indices < 0
        together = empty.argsort(axis=1, kind="stable")
        moved = np.take_along_axis(indices, together, axis=1)
        return self.reading.rows_of(moved.clip(min=0), (~empty).sum(axis=1))


def prompt(reading: AnyReading, granularity: str, removal: str = "delete") -> Prompt:
    """Groups the pieces of a reading into units.

    Args:
        reading: the text as the model reads it.
        granularity: what the units are.
        removal: what leaving out a unit means, as the text was read for it.
    """
    owner = owners(
        reading.texts,
        reading.pieces,
        reading.codes,
        granularity,
        reading.word_numbers,
        reading.passages,
    )
    count = int(owner.max()) + 1
    listed: list[list[int]] = [[] for _ in range(count)]
    for piece, unit in enumerate(owner.tolist()):
        listed[unit].append(piece)
    members = tuple(np.array(pieces, dtype=np.int64) for pieces in listed)
    notes = _notes(reading, granularity)
    if granularity == "type":
        occurrences = np.array([len(indices) for indices in members], dtype=np.int64)
        first = tuple(indices[:1] for indices in members)
        units = tuple(reading.pieces[indices[0]] for indices in members)
        codes = np.arange(count)
        return Prompt(reading, units, owner, codes, occurrences, first, notes, removal)
    units = tuple(
        join_pieces(reading.texts, [reading.pieces[piece] for piece in pieces]) for pieces in listed
    )
    read = reading.codes.tolist()
    codes = equal_codes([tuple(read[piece] for piece in pieces) for pieces in listed])
    once = np.ones(count, dtype=np.int64)
    return Prompt(reading, units, owner, codes, once, members, notes, removal)


def _notes(reading: AnyReading, granularity: str) -> tuple[str, ...]:
    """What a reader should know about the units."""
    notes = (
        unspaced_note(reading.texts, reading.pieces, granularity, reading.word_numbers),
        unknown_note(reading.unknown),
        _inert_note(reading.inert),
    )
    return tuple(note for note in notes if note)


def _inert_note(inert: NDArray[np.bool_]) -> str | None:
    if not inert.any():
        return None
    return (
        f"{inert.sum()} of {len(inert)} tokens are already the token that replaces a removed one: "
        "removing them changes nothing."
    )
