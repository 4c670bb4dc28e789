"""A reading whose pieces are grouped into the units that receive scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slalom_xai.models.reading import AnyReading
from slalom_xai.models.rows import Indices, Row, Rows
from slalom_xai.row_keys import INERT, Keys
from slalom_xai.text import Unit, equal_codes, joined, owners, unknown_note, unspaced_note


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

    @property
    def distinct(self) -> int:
        """How many units read differently; one where removing any of them changes nothing."""
        if bool(self.inert.all()):
            return 1
        return len(set(self.codes.tolist()))

    @property
    def inert(self) -> NDArray[np.bool_]:
        """(n,), units made of what stands for removed ones.

        A row reads the same with and without them.
        """
        inert = np.ones(len(self.units), dtype=bool)
        inert[self.owner[~self.reading.inert]] = False
        return inert

    @property
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

    @property
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
    members = tuple(np.flatnonzero(owner == unit) for unit in range(count))
    notes = _notes(reading, granularity)
    if granularity == "type":
        occurrences = np.array([len(indices) for indices in members], dtype=np.int64)
        first = tuple(indices[:1] for indices in members)
        units = tuple(reading.pieces[indices[0]] for indices in members)
        codes = np.arange(count)
        return Prompt(reading, units, owner, codes, occurrences, first, notes, removal)
    units = tuple(
        joined(reading.texts, [reading.pieces[index] for index in indices]) for indices in members
    )
    codes = equal_codes([tuple(reading.codes[indices].tolist()) for indices in members])
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
