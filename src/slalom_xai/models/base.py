"""The seam between the package and whatever is explained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.models.internals import Internals
from slalom_xai.models.token_rows import (
    KeptTokens,
    Row,
    Rows,
    SpelledRows,
    TokenBatch,
    TokenText,
    WrittenTokens,
)
from slalom_xai.outputs import Outputs
from slalom_xai.row_keys import INERT
from slalom_xai.text import Unit, joined, owners, unknown_note, unspaced_note


@dataclass(frozen=True)
class Reading:
    """A text, or a pair of texts, as a model reads it, in its smallest pieces.

    Attributes:
        text: the whole text as given.
        pieces: the tokens (words, for functions) in reading order; special tokens are not among them.
        codes: (pieces,), equal where two pieces read the same to the model.
        left_out: the end of the text that truncation cut off; empty otherwise.
        compose: places of pieces, in any order and number, to the model's question.
        shorten: which pieces are kept, (pieces,), to the model's question without the others.
        text_pair: the second text of a pair.
        in_place: whether a removed piece leaves a mark where it stood.
        words: (pieces,), the number of the tokenizer's own word that each piece is part of; None where there is no tokenizer.
        positions: (pieces,), the place of each piece in the row of the whole text; None where rows are strings.
        tokens: the whole text as token ids; None where rows are strings.
        inert: (pieces,), which pieces already are what stands for a removed one; None where none is.
        unknown: (pieces,), which pieces the tokenizer does not know; None where it knows all.
    """

    text: str
    pieces: tuple[Unit, ...]
    codes: NDArray[np.int64]
    left_out: str
    compose: Callable[[NDArray[np.int64]], Row]
    shorten: Callable[[NDArray[np.bool_]], Row]
    text_pair: str | None = None
    in_place: bool = False
    words: NDArray[np.int64] | None = None
    positions: NDArray[np.int64] | None = None
    tokens: TokenText | None = None
    inert: NDArray[np.bool_] | None = None
    unknown: NDArray[np.bool_] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and, where there is one, its pair."""
        return (self.text,) if self.text_pair is None else (self.text, self.text_pair)

    def shortened(self, keep: NDArray[np.bool_]) -> Rows:
        """Rows that keep some of the pieces, (m, pieces)."""
        if self.tokens is None or self.positions is None:
            return SpelledRows([self.shorten(row) for row in keep])
        whole = np.ones((len(keep), len(self.tokens.streams[0])), dtype=bool)
        whole[:, self.positions] = keep
        return KeptTokens(self.tokens, whole)

    def composed(self, places: NDArray[np.int64], sizes: NDArray[np.int64]) -> Rows:
        """Rows of pieces in any order and number: (m, w), of which the first ``sizes`` (m,) count."""
        if self.tokens is None or self.positions is None:
            return SpelledRows(
                [self.compose(row[:size]) for row, size in zip(places, sizes.tolist(), strict=True)]
            )
        return self._written(self.tokens, self.positions, places, sizes)

    def _written(
        self,
        tokens: TokenText,
        positions: NDArray[np.int64],
        places: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> Rows:
        """Special tokens keep their places before, between and behind the texts: columns are sorted by what they belong to."""
        parts = np.array([piece.part for piece in self.pieces])
        special = np.setdiff1d(np.arange(len(tokens.streams[0])), positions)
        starts = [int(positions[parts == part][0]) for part in range(len(self.texts))]
        order = np.where(
            np.arange(places.shape[1]) < sizes[:, None], 2 * parts[places] + 1, 2 * len(starts) + 1
        )
        around = np.broadcast_to(2 * np.searchsorted(starts, special), (len(places), len(special)))
        order = np.concatenate([around, order], axis=1)
        row = np.concatenate([np.broadcast_to(special, around.shape), positions[places]], axis=1)
        row = np.take_along_axis(row, order.argsort(axis=1, kind="stable"), axis=1)
        return WrittenTokens(tuple(stream[row] for stream in tokens.streams), sizes + len(special))


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
    """

    reading: Reading
    units: tuple[Unit, ...]
    owner: NDArray[np.int64]
    codes: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    spelling: tuple[NDArray[np.int64], ...]
    notes: tuple[str, ...] = ()

    @property
    def distinct(self) -> int:
        """How many units read differently; one where removing any of them changes nothing."""
        return 1 if bool(self.inert.all()) else len(set(self.codes.tolist()))

    @property
    def inert(self) -> NDArray[np.bool_]:
        """(n,), units made of what stands for removed ones: a row reads the same with and without them."""
        found = np.ones(len(self.units), dtype=bool)
        found[self.owner if self.reading.inert is None else self.owner[~self.reading.inert]] = False
        return found

    @property
    def interchangeable(self) -> NDArray[np.int64]:
        """(n,), equal where removing one unit or the other may leave the same row.

        Never, where marks stay in their places; a unit that is such a mark itself is ``INERT``.
        """
        if not self.reading.in_place:
            return self.codes
        return np.where(self.inert, INERT, np.arange(len(self.units)))

    @property
    def whole(self) -> NDArray[np.bool_]:
        """The mask that keeps every unit, (1, n)."""
        return np.ones((1, len(self.units)), dtype=bool)

    def row(self, keep: NDArray[np.bool_]) -> Row:
        """The question that keeps some units, (n,), in their order in the text."""
        return self.reading.shorten(keep[self.owner])

    def rows(self, masks: NDArray[np.bool_]) -> Rows:
        """The questions that keep some units, (m, n)."""
        return self.reading.shortened(
            masks if len(self.owner) == masks.shape[1] else masks[:, self.owner]
        )

    def keys(self, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Numbers (m,) that are equal where masks (m, n) keep what reads the same."""
        return self.rows(masks).keys

    def sequences(self, units: NDArray[np.int64]) -> Rows:
        """The questions that spell out units in any order and number, (m, w); -1 stands for none, at the end of a row."""
        longest = max(len(pieces) for pieces in self.spelling)
        table = np.full((len(self.spelling) + 1, longest), -1)  # the last row is what -1 finds
        for unit, pieces in enumerate(self.spelling):
            table[unit, : len(pieces)] = pieces
        places = table[units].reshape(len(units), -1)
        moved = np.take_along_axis(places, (places < 0).argsort(axis=1, kind="stable"), axis=1)
        return self.reading.composed(moved.clip(min=0), (places >= 0).sum(axis=1))


def prompt(reading: Reading, granularity: str) -> Prompt:
    """Groups the pieces of a reading into units."""
    owner = owners(reading.texts, reading.pieces, reading.codes, granularity, reading.words)
    count = int(owner.max()) + 1
    members = [np.flatnonzero(owner == unit) for unit in range(count)]
    notes = _notes(reading, granularity)
    if granularity == "type":
        occurrences = np.array([len(places) for places in members], dtype=np.int64)
        first = tuple(places[:1] for places in members)
        units = tuple(reading.pieces[places[0]] for places in members)
        return Prompt(reading, units, owner, np.arange(count), occurrences, first, notes)
    units = tuple(
        joined(reading.texts, [reading.pieces[place] for place in places]) for places in members
    )
    codes = unit_codes([tuple(reading.codes[places].tolist()) for places in members])
    return Prompt(
        reading, units, owner, codes, np.ones(count, dtype=np.int64), tuple(members), notes
    )


def _notes(reading: Reading, granularity: str) -> tuple[str, ...]:
    """What a reader should know about the units."""
    found = (
        unspaced_note(reading.texts, reading.pieces, granularity, reading.words),
        unknown_note(reading.unknown),
        _inert_note(reading.inert),
    )
    return tuple(note for note in found if note)


def _inert_note(inert: NDArray[np.bool_] | None) -> str | None:
    if inert is None or not inert.any():
        return None
    return f"{inert.sum()} of {len(inert)} tokens are already the token that replaces a removed one: removing them changes nothing."


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

    def read(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        truncation: bool = False,
        removal: str = "delete",
    ) -> Reading:
        """Splits a text, or a pair of texts, into its smallest pieces; ``removal`` says what shortened rows look like."""

    def size(self, row: Row) -> int:
        """The length of a row, in tokens."""

    def answer(self, rows: Sequence[Row]) -> Tensor:
        """Logits (len(rows), width) for a batch of rows, in their order."""

    def show(self, row: Row) -> str:
        """A row as text, for error messages."""


@runtime_checkable
class TakesTokens(Protocol):
    """A model that may also be asked about rows of token ids that are not written out."""

    def answer_tokens(self, batch: TokenBatch) -> Tensor:
        """Logits (len(batch), width)."""


@runtime_checkable
class LendsPrefixes(TakesTokens, Protocol):
    """A decoder: what it makes of the beginning of a text serves all rows that begin like it."""

    @property
    def lends(self) -> bool:
        """Whether this one can."""

    def lending(self, text: TokenText) -> AbstractContextManager[int]:
        """Reads the whole text once; gives the tokens that rows may then borrow, 0 where none."""


@runtime_checkable
class OpensInternals(Protocol):
    """A model whose embeddings, gradients and attention weights can be seen."""

    def internals(self, row: Row) -> Internals:
        """The model open on one row."""


@runtime_checkable
class SaysItsSize(Protocol):
    """A model that knows whether many threads would only slow it down."""

    @property
    def light(self) -> bool:
        """Whether it runs on a CPU in steps so small that threads mostly wait for each other."""


def unit_codes(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Numbers that are equal where the keys are."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


_locks: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_locks_guard = threading.Lock()


def lock_of(model: Any) -> threading.RLock:
    """The one lock of a model object, whoever explains it; calls to one model take turns."""
    with _locks_guard:
        try:
            return _locks.setdefault(model, threading.RLock())
        except TypeError:  # an object that cannot be referred to weakly has a lock per explainer
            return threading.RLock()
