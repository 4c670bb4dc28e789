"""Hands rows to a model in batches of similar length, as many at a time as memory allows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, SlalomError, shortened
from slalom_xai.models import Row, TextModel
from slalom_xai.models.answers import checked_logits
from slalom_xai.models.base import LendsPrefixes, SaysItsSize, TakesTokens
from slalom_xai.models.rows import Indices, Rows
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.models.token_rows import KeptTokens, TokenRows, TokenText
from slalom_xai.queries.cutting import cut_by_padding
from slalom_xai.queries.shared_batches import plan_batches
from slalom_xai.system.threads import THREADS, at_most

LARGEST = 1e100  # answers from here on are refused: sums of their squares would not be finite

_Batch = tuple[Indices, int]  # the rows of a batch, by index, and the tokens that they borrow


@dataclass(frozen=True)
class BatchSettings:
    """How large batches are.

    Attributes:
        cpu_tokens: padded tokens in a batch on a CPU. Larger ones are no faster, and take memory.
        device_tokens: padded tokens in a batch elsewhere: enough to keep a GPU busy.
        least_rows_to_lend: before its rows are asked, a text can be read once, to lend them the
            beginning that they share with it. With fewer rows than this, too little is saved.
    """

    cpu_tokens: int = 8_192
    device_tokens: int = 65_536
    least_rows_to_lend: int = 64


BATCHING = BatchSettings()


class Progress(Protocol):
    """What a progress bar must do."""

    def start(self, total: int) -> None:
        """Expect this many more rows."""

    def advance(self, rows: int) -> None:
        """Some rows are answered."""


class AnswerSource(Protocol):
    """What answers rows: ``Batches``, or whoever collects what several texts ask."""

    @property
    def model(self) -> TextModel:
        """What is asked."""

    def columns(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """The explained columns (m, C), float64, of each set of rows.

        A model answers with logits; ``Outputs.columns`` makes columns of them.
        """


@dataclass(frozen=True)
class _Asked:
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
    def of(cls, sets: Sequence[Rows]) -> _Asked:
        counts = [len(rows) for rows in sets]
        owner = np.repeat(np.arange(len(sets)), counts)
        return cls(sets, owner, np.concatenate([np.arange(count) for count in counts]))

    def row(self, number: int) -> Row:
        """One row as the model takes it."""
        rows = self.sets[int(self.owner[number])]
        return rows.row(int(self.index[number]))

    def sorted(self, numbers: Indices) -> Indices:
        """Some rows such that those of one set are next to each other."""
        return numbers[self.owner[numbers].argsort(kind="stable")]

    def taken(self, numbers: Indices) -> list[Rows]:
        """Some rows by set, ``numbers`` sorted."""
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


class Batches:
    """Hands rows to a model in batches of similar length; learns from running out of memory.

    Args:
        model: what is asked.
        tokens: padded tokens a batch holds at most; by default 8,192 on a CPU and 65,536 elsewhere.
    """

    def __init__(self, model: TextModel, tokens: int | None = None) -> None:
        if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
            raise InputError(
                f"batch_tokens is {tokens!r}: give a whole number of at least 1, or leave it out"
            )
        self.model = model
        on_cpu = model.device.type == "cpu"
        self.tokens = tokens or (BATCHING.cpu_tokens if on_cpu else BATCHING.device_tokens)

    def columns(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """The explained columns (m, C), float64, of rows about one text, or about several at once.

        Raises:
            ModelError: an answer that is not finite, or a row that does not fit into memory.
        """
        numbered = _Asked.of(asked)
        sizes = np.concatenate([self._sizes(rows) for rows in asked])
        order: list[Indices] = []
        answers: list[Tensor] = []
        light = isinstance(self.model, SaysItsSize) and self.model.light
        with at_most(THREADS.light if light else None), self._batches(numbered, sizes) as batches:
            for batch, shared in batches:
                numbers = numbered.sorted(batch)
                answers.append(self._ask(_together(numbered.taken(numbers), shared)))
                order.append(numbers)
                if progress:
                    progress.advance(len(numbers))
        logits = torch.cat(answers)
        back = np.empty(len(sizes), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(sizes))
        logits = logits[torch.as_tensor(back, device=logits.device)]
        columns = self._columns_of(logits, numbered)
        return list(torch.split(columns, [len(rows) for rows in asked]))

    def _sizes(self, rows: Rows) -> Indices:
        """The length of each row, (m,)."""
        if isinstance(rows, TokenRows):
            return rows.sizes
        sizes = [self.model.size(rows.row(index)) for index in range(len(rows))]
        return np.array(sizes, dtype=np.int64)

    @contextmanager
    def _batches(self, asked: _Asked, sizes: Indices) -> Iterator[Iterable[_Batch]]:
        """All rows in batches, each with the number of tokens that its rows borrow.

        A model that can (``LendsPrefixes``) reads the text once and lends its beginning to rows
        that begin in the same way. It lends while this context is open. Nothing is borrowed

        * by few rows, by rows of several texts, or from a model that cannot lend,
        * where borrowing does not pay even if the whole text were lent,
        * where it does not pay with as much as the model does lend.
        """
        order = (-sizes).argsort(kind="stable")
        cuts = cut_by_padding(sizes[order], lambda: self.tokens)
        unshared = ((order[batch], 0) for batch in cuts)
        kept = asked.kept_of_one_text()
        model = self.model
        few = len(sizes) < BATCHING.least_rows_to_lend
        if few or not kept or not isinstance(model, LendsPrefixes):
            yield unshared
            return
        text: TokenText = kept[0].text
        shared = np.concatenate([rows.shared for rows in kept])
        if not model.lends or not plan_batches(shared, sizes, self.tokens, len(text)).pays:
            yield unshared
            return
        with model.lending(text) as lent_tokens:
            plan = plan_batches(np.minimum(shared, lent_tokens), sizes, self.tokens, len(text))
            if plan.pays:
                yield ((batch.rows, batch.shared) for batch in plan.batches)
            else:
                yield unshared

    def _ask(self, rows: TokenBatch | Sequence[Row]) -> Tensor:
        """Logits (rows, width) of one batch, asked in halves where it does not fit into memory."""
        try:
            if not isinstance(rows, TokenBatch):
                return checked_logits(self.model.answer(rows), len(rows), self.model)
            assert isinstance(self.model, TakesTokens)  # or its readings would not have token ids
            return checked_logits(self.model.answer_tokens(rows), len(rows), self.model)
        except SlalomError:
            raise
        except Exception as error:
            if not out_of_memory(error):
                raise self._failed(error, rows) from error
            longest = self._longest(rows)
            if len(rows) == 1:
                raise ModelError(
                    f"one row of {longest} tokens does not fit into memory: "
                    "use a shorter text, a smaller model or another device"
                ) from error
            self.tokens = max(1, min(self.tokens, len(rows) * longest) // 2)
        _free_memory(self.model.device)
        halves = np.array_split(np.arange(len(rows)), 2)
        return torch.cat([self._ask(_some(rows, half)) for half in halves])

    def _longest(self, rows: TokenBatch | Sequence[Row]) -> int:
        """The length of the longest row."""
        if isinstance(rows, TokenBatch):
            return int(rows.sizes.max())
        return max(self.model.size(row) for row in rows)

    def _failed(self, error: Exception, rows: TokenBatch | Sequence[Row]) -> ModelError:
        """The error for a model that failed on a batch."""
        first = rows.row(0) if isinstance(rows, TokenBatch) else rows[0]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return ModelError(
            f"{self.model.name} failed on {shortened(self.model.show(first))} ({reason}): "
            "try the model on this text alone"
        )

    def _columns_of(self, logits: Tensor, asked: _Asked) -> Tensor:
        """Logits (m, width) as the columns explained (m, C), in double precision.

        Raises:
            ModelError: they are not numbers.
        """
        float64_device = logits.device
        if logits.device.type == "mps":  # has no double precision
            float64_device = torch.device("cpu")
        columns = self.model.outputs.columns(logits.to(float64_device, torch.float64))
        finite = logits.isfinite().all(dim=1).to(float64_device)
        bad = ~(columns.abs() < LARGEST).all(dim=1) | ~finite
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            answer = ", ".join(f"{value:.4g}" for value in logits[first][:6].tolist())
            shown = shortened(self.model.show(asked.row(first)))
            raise ModelError(
                f"{self.model.name} returned [{answer}] (shape {tuple(logits.shape)}) for {shown}: "
                f"expected finite numbers below {LARGEST:.0e}; "
                "check the model's weights and precision"
            )
        return columns


def _together(parts: Sequence[Rows], shared: int) -> TokenBatch | list[Row]:
    """The rows of several texts, as the model takes them."""
    tokens = [part for part in parts if isinstance(part, TokenRows)]
    if tokens:
        return TokenBatch(tokens, shared)
    return [part.row(index) for part in parts for index in range(len(part))]


def _some(rows: TokenBatch | Sequence[Row], indices: Indices) -> TokenBatch | list[Row]:
    if isinstance(rows, TokenBatch):
        return rows.take(indices)
    return [rows[index] for index in indices]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    said = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "not enough memory")
    return any(sign in said for sign in signs)


def _free_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
