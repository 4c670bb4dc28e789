"""Asks a model what a vocabulary rests on: filled texts, short sequences and deletions of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_array
from torch import Tensor

from slalom_xai.data.vocabulary.items import SETTINGS, ReadText, TokenIds
from slalom_xai.models import Prompt
from slalom_xai.models.outputs import Target
from slalom_xai.models.rows import Indices
from slalom_xai.queries import Purpose, Queries

# Which rows a vocabulary is fitted to: short sequences of its items, and deletions of texts.


def draw_sequences(items: int, rows: int, rng: np.random.Generator) -> Indices:
    """Short sequences of random items, (rows, longest); -1 stands for no item.

    Every item is in about as many of them.
    """
    choices = np.array(SETTINGS.sequence_lengths)
    lengths = choices[np.arange(rows) % len(choices)]
    slots = int(lengths.sum())
    rounds = -(-slots // items)
    drawn = np.concatenate([rng.permutation(items) for _ in range(rounds)])[:slots]
    table = np.full((rows, int(choices.max())), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = drawn
    return table[rng.permutation(rows)]


def sequence_counts(table: Indices, items: int) -> csr_array:
    """How often sequences (m, w) hold each item, (m, items)."""
    row, place = np.nonzero(table >= 0)
    return count_entries(row, table[row, place], (len(table), items))


def count_entries(row: Indices, item: Indices, shape: tuple[int, int]) -> csr_array:
    """A table of counts, from one entry for each item of each row; equal ones add up."""
    return csr_array((np.ones(len(row)), (row, item)), shape=shape)


@dataclass(frozen=True)
class TextRows:
    """Rows of one text: the whole, some with one item left out, and some with any number.

    Attributes:
        text: that they are of.
        units: (n,), the item of each unit; the number of items for those that are none.
        masks: (m, n), what each row keeps; the whole text is first.
        singles: the items that rows 1 to k leave out, in their order.
    """

    text: ReadText
    units: Indices
    masks: NDArray[np.bool_]
    singles: tuple[int, ...]

    def counts(self, items: int) -> csr_array:
        """How often the rows hold each of so many items, (m, items)."""
        row, unit = np.nonzero(self.masks)
        return count_entries(row, self.units[unit], (len(self.masks), items))


def draw_text_rows(
    texts: Sequence[ReadText],
    numbers: Mapping[TokenIds, int],
    calls: int,
    rng: np.random.Generator,
) -> Iterator[TextRows]:
    """Deletions of texts in random order, until so many rows are drawn.

    Items whose removal was seen in the fewest texts are left out first.

    Args:
        texts: to draw from; each is used once.
        numbers: the number of each item.
        calls: rows in all, at most.
        rng: the source of randomness.
    """
    seen = np.zeros(len(numbers), dtype=np.int64)
    each = calls // max(1, len(texts))  # few texts are shortened in more ways
    wide = max(SETTINGS.wide_rows, round(each * SETTINGS.wide_share))
    most = max(SETTINGS.single_rows, each - wide)
    for index in rng.permutation(len(texts)):
        text = texts[index]
        units = np.array([numbers.get(kind, len(numbers)) for kind in text.kinds])
        known = np.unique(units[units < len(numbers)])
        if not len(known) or len(np.unique(units)) < 2:
            continue  # nothing would be left
        wanted = known[seen[known] < SETTINGS.contexts]
        order = np.lexsort((rng.random(len(wanted)), seen[wanted]))
        singles = wanted[order][:most]
        without = units != singles[:, None]
        masks = _distinct_masks(without, _wide(len(units), wide, rng))[:calls]
        if len(masks) < 2:
            return
        singles = singles[: len(masks) - 1]
        seen[singles] += 1
        calls -= len(masks)
        yield TextRows(text, units, masks, tuple(singles.tolist()))


def _wide(units: int, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Masks (rows, units) that leave out a random number of units."""
    gone = rng.integers(1, units, size=rows)
    ranks = rng.random((rows, units)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks >= gone[:, None])


def _distinct_masks(singles: NDArray[np.bool_], wide: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The whole text, single removals, and those of the others that are not among them."""
    first = np.concatenate([np.ones((1, wide.shape[1]), dtype=bool), singles])
    known = {mask.tobytes() for mask in first}
    more = [mask for mask in wide if mask.tobytes() not in known]
    return np.concatenate([first, np.array(more, dtype=bool).reshape(-1, wide.shape[1])])


# Asks a model what a vocabulary rests on: filled texts, short sequences and deletions of texts.


SEQUENCES, DELETIONS = "sequences", "deletions"
_TEXTS_AT_ONCE = 256


@dataclass(frozen=True)
class Evidence:
    """Rows with the model's answers.

    Attributes:
        rows: (m, items), how often each row holds each item.
        answers: (m,).
        clusters: (m,), equal where two rows are of one text.
        kinds: (m,), True for deletions of texts.
    """

    rows: sparse.csr_array
    answers: NDArray[np.float64]
    clusters: Indices
    kinds: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[Evidence]) -> Evidence:
        """The rows of several; clusters of one stay apart from those of others."""
        clusters, start = [], 0
        for part in parts:
            clusters.append(part.clusters + start)
            start += int(part.clusters.max()) + 1 if len(part.clusters) else 0
        return cls(
            sparse.vstack([part.rows for part in parts], format="csr"),
            np.concatenate([part.answers for part in parts]),
            np.concatenate(clusters),
            np.concatenate([part.kinds for part in parts]),
        )


@dataclass(frozen=True)
class Effects:
    """What is lost when an item goes from a text, text by text.

    Attributes:
        item: (k,).
        lost: (k,).
    """

    item: Indices
    lost: NDArray[np.float64]


@dataclass(frozen=True)
class Asker:
    """Asks about rows of a vocabulary, one target at a time.

    Attributes:
        queries: asks the model and counts.
        target: which output counts.
        items: of the vocabulary.
    """

    queries: Queries
    target: Target
    items: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", len(self.queries.prompt.units))

    @property
    def carrier(self) -> Prompt:
        """All items, as if they were a text."""
        return self.queries.prompt

    def filled(self, lengths: Sequence[int], room: int | None) -> NDArray[np.float64]:
        """The answers to texts that each item fills, (V, lengths).

        Args:
            lengths: how many copies.
            room: tokens that fit; an item of many tokens has fewer copies.
        """
        answers = np.zeros((self.items, len(lengths)))
        sizes = np.array([len(pieces) for pieces in self.carrier.spelling])
        for column, length in enumerate(lengths):
            copies = np.full(self.items, length)
            if room is not None:
                copies = np.minimum(copies, room // sizes)
            for some in _chunks(self.items, length * int(sizes.max())):
                there = np.arange(length) < copies[some, None]
                table = np.where(there, some[:, None], -1)
                answers[some, column] = self._sequences(table, "fit")
        return answers

    def sequences(self, table: Indices, purpose: Purpose) -> Evidence:
        """Sequences (m, w) with their answers."""
        longest = max(len(pieces) for pieces in self.carrier.spelling)
        answers = [
            self._sequences(table[some], purpose)
            for some in _chunks(len(table), table.shape[1] * longest)
        ]
        return Evidence(
            sequence_counts(table, self.items + 1),
            np.concatenate(answers),
            np.arange(len(table)),
            np.zeros(len(table), dtype=bool),
        )

    def deletions(self, drawn: Iterable[TextRows], purpose: Purpose) -> tuple[Evidence, Effects]:
        """Deletions of texts with their answers, and what single removals lose."""
        parts: list[Evidence] = []
        item: list[int] = []
        lost: list[float] = []
        for some in _batch(drawn, _TEXTS_AT_ONCE):
            asked = [(text.text.rows(text.masks), purpose) for text in some]
            answers = self.queries.ask_rows(*asked)
            for text, columns in zip(some, answers, strict=True):
                own = self._query(columns)
                rows = text.counts(self.items + 1)
                cluster = np.zeros(len(own), dtype=np.int64)
                parts.append(Evidence(rows, own, cluster, np.ones(len(own), dtype=bool)))
                item.extend(text.singles)
                lost.extend((own[0] - own[1 : len(text.singles) + 1]).tolist())
        effects = Effects(np.array(item, dtype=np.int64), np.array(lost))
        return Evidence.join(parts), effects

    def _sequences(self, table: Indices, purpose: Purpose) -> NDArray[np.float64]:
        return self._query(self.queries.ask_sequences(table, purpose))

    def _query(self, columns: Tensor) -> NDArray[np.float64]:
        return np.asarray(self.target.sign * columns[:, self.target.column].cpu().numpy())


def _chunks(rows: int, width: int) -> Iterator[Indices]:
    """Numbers of rows, as many at a time as a table may have."""
    at_once = max(1, min(SETTINGS.chunk, SETTINGS.cells // max(1, width)))
    for start in range(0, rows, at_once):
        yield np.arange(start, min(rows, start + at_once))


def _batch(drawn: Iterable[TextRows], size: int) -> Iterator[list[TextRows]]:
    source = iter(drawn)
    while some := list(islice(source, size)):
        yield some
