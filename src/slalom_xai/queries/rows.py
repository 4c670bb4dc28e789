"""Rows about several texts, numbered through, and batches of them as a model takes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError
from slalom_xai.models import Row, TextModel
from slalom_xai.models.rows import Indices, KeptOfSeveral, KeptTokens, Rows, TokenTable
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.queries.cache import KeptAnswers

Batch = tuple[Indices, int]  # the rows of a batch, by index, and the tokens that they borrow
BatchRows = TokenBatch | Sequence[Row]  # the rows of a batch as a model takes them


@dataclass(frozen=True)
class NumberedRows:
    """Several sets of rows, whose m rows are numbered through.

    Attributes:
        sets: rows about one text each.
        owner: (m,), the set that a row is in.
        index: (m,), where it is there.
    """

    sets: Sequence[Rows]
    owner: Indices
    index: Indices

    @classmethod
    def of(cls, sets: Sequence[Rows]) -> NumberedRows:
        """Rows of several sets, in the order of the sets."""
        counts = np.array([len(rows) for rows in sets])
        owner = np.repeat(np.arange(len(sets)), counts)
        starts = counts.cumsum() - counts
        return cls(sets, owner, np.arange(len(owner)) - starts[owner])

    @cached_property
    def together(self) -> KeptOfSeveral | None:
        """All rows in one table, where they are alike and about several texts."""
        return KeptOfSeveral.of(self.sets)

    def row(self, number: int) -> Row:
        """One row as the model takes it."""
        rows = self.sets[int(self.owner[number])]
        return rows.row(int(self.index[number]))

    def sorted(self, numbers: Indices) -> Indices:
        """Some rows such that those of one set are next to each other."""
        return numbers[self.owner[numbers].argsort(kind="stable")]

    def taken(self, numbers: Indices) -> list[Rows | TokenTable]:
        """Some rows by set, or in one table, ``numbers`` sorted."""
        if self.together is not None:
            return [self.together.take(numbers)]
        owner, index = self.owner[numbers], self.index[numbers]
        starts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(owner)]
        return [
            self.sets[int(owner[start])].take(index[start:stop])
            for start, stop in itertools.pairwise(starts)
        ]

    def kept_of_one_text(self) -> list[KeptTokens]:
        """The sets, where all of them keep tokens of one and the same text; otherwise nothing."""
        kept = [rows for rows in self.sets if isinstance(rows, KeptTokens)]
        if len(kept) < len(self.sets) or any(rows.text is not kept[0].text for rows in kept):
            return []
        return kept


def taken_rows(
    asked: NumberedRows, batches: Iterable[Batch], order: list[Indices]
) -> Iterator[BatchRows]:
    """The rows of each batch as the model takes them; their numbers are added to ``order``."""
    for batch, shared in batches:
        numbers = asked.sorted(batch)
        order.append(numbers)
        yield _as_taken(asked.taken(numbers), shared)


def _as_taken(parts: Sequence[Rows | TokenTable], shared: int) -> TokenBatch | list[Row]:
    """The rows of several texts, as the model takes them."""
    tokens = [part for part in parts if isinstance(part, TokenTable)]
    if tokens:
        return TokenBatch(tokens, shared)
    return [part.row(index) for part in parts for index in range(len(part))]


def some_rows(rows: BatchRows, indices: Indices) -> TokenBatch | list[Row]:
    """Some rows of a batch."""
    if isinstance(rows, TokenBatch):
        return rows.take(indices)
    return [rows[index] for index in indices]


# Rows of a local model whose answers may be in a cache.
#
# A model that is paid for by the row stores its answers itself (``KeepsAnswers``). The answers of
# any other are stored here, batch by batch. Batches are planned for all rows, and then those that
# are known are left out. So a run that goes on after a kill asks the batches that the undisturbed
# run would have asked next, and answers do not even differ in what a batch's size does to
# rounding.


class StoredRows:
    """What a cache knows of some rows, and where it keeps what is asked about the others.

    Args:
        store: the cache.
        rows: what is asked, m rows.
        before: how often each set of rows was asked before: an answer that has been used is not
            given again to somebody who wants to see whether the model repeats itself.
    """

    def __init__(self, store: KeptAnswers, rows: NumberedRows, before: Sequence[int]) -> None:
        self._store = store
        self._keys = _keys(rows, before)
        found = store.find(self._keys)
        self._known = {number: found[key] for number, key in enumerate(self._keys) if key in found}

    @property
    def numbers(self) -> list[int]:
        """The rows that are known, by their numbers."""
        return list(self._known)

    @property
    def complete(self) -> bool:
        """Whether nothing is to be asked."""
        return len(self._known) == len(self._keys)

    def unknown(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Batches without the rows that are known."""
        known = np.zeros(len(self._keys), dtype=bool)
        known[list(self._known)] = True
        for rows, shared in batches:
            left = rows[~known[rows]]
            if len(left) > 0:
                yield left, shared

    def keep(self, numbers: Indices, logits: Tensor) -> None:
        """Stores the answers (rows, width) to a batch; answers that are no numbers are not kept."""
        answers = {}
        for number, answer in zip(numbers.tolist(), logits.double().tolist(), strict=True):
            if np.isfinite(answer).all():
                answers[self._keys[number]] = answer
        self._store.keep_all(answers)

    def known(self, model: TextModel) -> Tensor:
        """The logits of the rows that are known, (k, width), float64, in the order of ``numbers``.

        Raises:
            InputError: they are those of another model.
        """
        width = model.outputs.width
        answers = list(self._known.values())
        if any(not isinstance(answer, list) or len(answer) != width for answer in answers):
            raise InputError(
                f"the cache {self._store.path} holds answers of another shape for {model.name}, "
                f"which answers with {width} numbers: open the cache under another name"
            )
        return torch.tensor(answers, dtype=torch.float64).reshape(-1, width)


def _keys(rows: NumberedRows, before: Sequence[int]) -> list[str]:
    """What each row reads, with a number that tells equal ones apart."""
    seen: dict[str, int] = {}
    keys = []
    for number, owner in enumerate(rows.owner.tolist()):
        written = _encode_row(rows.row(number))
        copies = seen.get(written, 0)
        seen[written] = copies + 1
        keys.append(f"{before[owner] + copies} {written}")
    return keys


def _encode_row(row: Row) -> str:
    try:
        return json.dumps(row)
    except TypeError as error:
        raise InputError(
            f"the model's rows are of the type {type(row).__name__}, which a cache cannot tell "
            "apart: its rows must be strings or token ids; leave the cache out"
        ) from error
