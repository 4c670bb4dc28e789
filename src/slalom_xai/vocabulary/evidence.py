"""Asks a model what a vocabulary rests on: filled texts, short sequences and deletions of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from slalom_xai.models import Prompt
from slalom_xai.models.rows import Indices
from slalom_xai.outputs import Target
from slalom_xai.queries import Purpose, Queries
from slalom_xai.vocabulary.design import TextRows, sequence_counts
from slalom_xai.vocabulary.settings import SETTINGS

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
    def joined(cls, parts: Sequence[Evidence]) -> Evidence:
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
        for some in _batched(drawn, _TEXTS_AT_ONCE):
            asked = [(text.text.rows(text.masks), purpose) for text in some]
            answers = self.queries.ask_rows(*asked)
            for text, columns in zip(some, answers, strict=True):
                own = self._explained(columns)
                rows = text.counts(self.items + 1)
                cluster = np.zeros(len(own), dtype=np.int64)
                parts.append(Evidence(rows, own, cluster, np.ones(len(own), dtype=bool)))
                item.extend(text.singles)
                lost.extend((own[0] - own[1 : len(text.singles) + 1]).tolist())
        effects = Effects(np.array(item, dtype=np.int64), np.array(lost))
        return Evidence.joined(parts), effects

    def _sequences(self, table: Indices, purpose: Purpose) -> NDArray[np.float64]:
        return self._explained(self.queries.ask_sequences(table, purpose))

    def _explained(self, columns: Tensor) -> NDArray[np.float64]:
        return np.asarray(self.target.sign * columns[:, self.target.column].cpu().numpy())


def _chunks(rows: int, width: int) -> Iterator[Indices]:
    """Numbers of rows, as many at a time as a table may have."""
    at_once = max(1, min(SETTINGS.chunk, SETTINGS.cells // max(1, width)))
    for start in range(0, rows, at_once):
        yield np.arange(start, min(rows, start + at_once))


def _batched(drawn: Iterable[TextRows], size: int) -> Iterator[list[TextRows]]:
    source = iter(drawn)
    while some := list(islice(source, size)):
        yield some
