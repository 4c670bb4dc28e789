"""Hands rows to a model in batches of similar length, as many at a time as memory allows."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, SlalomError, quote_text
from slalom_xai.models import TextModel
from slalom_xai.models.answers import check_logits
from slalom_xai.models.base import (
    AnswersTogether,
    IsPaidFor,
    KeepsAnswers,
    LendsPrefixes,
    SaysItsSize,
    TakesThreads,
    TakesTokens,
)
from slalom_xai.models.rows import Indices, Rows, TokenRows, TokenText
from slalom_xai.models.token_batch import TokenBatch
from slalom_xai.queries.cache import KeptAnswers
from slalom_xai.queries.cutting import cut_by_padding, plan_batches
from slalom_xai.queries.queries import Progress
from slalom_xai.queries.rows import (
    Batch,
    BatchRows,
    NumberedRows,
    StoredRows,
    some_rows,
    taken_rows,
)
from slalom_xai.system.process import THREADS, at_most, for_batches, work_alone

# Does several things at once, each in a thread of its own, and gives the results in order.
#
# Torch can share the work of one operation among threads, but these wait for each other after
# every one. Where operations are short, and above all where other programs want the processor,
# most of the time goes into that waiting. Threads that have a batch each wait for nobody. Each of
# them computes as one thread would by itself, so that results do not depend on how many there
# are.


Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    alone: Callable[[Item], bool],
) -> Iterator[Result]:
    """What ``work`` makes of each item, in their order.

    Args:
        work: called in several threads at once.
        items: taken one by one, so that only a few of them are in memory.
        threads: how many.
        alone: whether an item is worked on by itself, after those before it and before those
            after it.
    """
    pool = ThreadPoolExecutor(threads, initializer=work_alone)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while under_way and (by_itself or len(under_way) >= threads):
                yield under_way.popleft().result()
            under_way.append(pool.submit(work, item))
            if by_itself:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


# Hands rows to a model in batches of similar length, as many at a time as memory allows.


LARGEST = 1e100  # answers from here on are refused: sums of their squares would not be finite


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


class Batches:
    """Hands rows to a model in batches of similar length; learns from running out of memory.

    Args:
        model: what is asked.
        tokens: padded tokens a batch holds at most; by default 8,192 on a CPU and 65,536 elsewhere.
        store: where answers are looked for and stored; None: nowhere, or where the model stores its
            answers itself.
    """

    def __init__(
        self, model: TextModel, tokens: int | None = None, store: KeptAnswers | None = None
    ) -> None:
        if tokens is not None and (not isinstance(tokens, int) or tokens < 1):
            raise InputError(
                f"batch_tokens is {tokens!r}: give a whole number of at least 1, or leave it out"
            )
        self.model = model
        self._store = store
        self._remembers = isinstance(model, KeepsAnswers)
        self._told = False  # that there is too little memory
        on_cpu = model.device.type == "cpu"
        self.tokens = tokens or (BATCHING.cpu_tokens if on_cpu else BATCHING.device_tokens)

    def columns(
        self,
        asked: Sequence[Rows],
        progress: Progress | None = None,
        before: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """The explained columns (m, C), float64, of rows about one text, or about several at once.

        Raises:
            ModelError: an answer that is not finite, or a row that does not fit into memory.
        """
        numbered = NumberedRows.of(asked)
        if self._remembers:
            logits = self._recall(numbered, before, progress)
        elif self._store is None:
            logits = self._logits(numbered, None, progress)
        else:
            stored = StoredRows(self._store, numbered, before or [0] * len(asked))
            logits = self._logits(numbered, stored, progress)
        columns = self._columns_of(logits, numbered)
        return list(torch.split(columns, [len(rows) for rows in asked]))

    def _logits(
        self, asked: NumberedRows, stored: StoredRows | None, progress: Progress | None
    ) -> Tensor:
        """The logits (m, width) of all rows; the model is asked about those that are not stored."""
        if stored is None and isinstance(self.model, AnswersTogether):
            return self._ask_together(asked, progress)
        sizes = self._sizes_of(asked)
        order: list[Indices] = []
        answers: list[Tensor] = []
        threads = THREADS.fit if self._light else None
        with at_most(threads), self._batches(asked, sizes, stored) as batches:
            for answer in self._ask_all(taken_rows(asked, batches, order)):
                if stored is not None:
                    stored.keep(order[len(answers)], answer)
                answers.append(answer)
                if progress:
                    progress.advance(len(answer))
        if stored is not None:
            self._learn_outputs(asked)
            order.append(np.array(stored.numbers, dtype=np.int64))
            home = torch.device("cpu") if self.model.device.type == "mps" else self.model.device
            answers.append(stored.known(self.model))
            answers = [part.to(home, torch.float64) for part in answers]
            if progress:
                progress.advance(len(stored.numbers))
        logits = torch.cat(answers)
        back = np.empty(len(sizes), dtype=np.int64)
        back[np.concatenate(order)] = np.arange(len(sizes))
        return logits[torch.as_tensor(back, device=logits.device)]

    def _recall(
        self, asked: NumberedRows, before: Sequence[int] | None, progress: Progress | None
    ) -> Tensor:
        """The logits (m, width) of a model that remembers its answers.

        It tells copies of a row apart if they are asked in one go. So where a row is asked once
        more, the first copy is asked along: its answer is remembered, and costs nothing. The answer
        that showed whether the model repeats itself serves again, because it was paid for.
        """
        if before is None:
            return self._logits(asked, None, progress)
        logits = []
        for rows, times in zip(asked.sets, before, strict=True):
            if times == 0:
                logits.append(self._logits(NumberedRows.of([rows]), None, progress))
                continue
            copies = [rows.row(0), *(rows.row(index) for index in range(len(rows)))]
            logits.append(self._ask(copies)[1:])
            if progress:
                progress.advance(len(rows))
        return torch.cat(logits)

    def _learn_outputs(self, asked: NumberedRows) -> None:
        """Asks one row, of a model that does not know before its first answer what it answers."""
        try:
            self.model.outputs  # noqa: B018
        except ModelError:
            self._ask(next(taken_rows(asked, [(np.array([0]), 0)], [])))

    def _ask_together(self, asked: NumberedRows, progress: Progress | None) -> Tensor:
        """Logits (m, width) from a model that bundles rows itself."""
        model = self.model
        assert isinstance(model, AnswersTogether)
        rows = [asked.row(number) for number in range(len(asked.owner))]

        def done(answered: int) -> None:
            if progress:
                progress.advance(answered, model.spent if isinstance(model, IsPaidFor) else "")

        return check_logits(model.answer_together(rows, done), len(rows), model)

    def _sizes_of(self, asked: NumberedRows) -> Indices:
        """The length of each row, (m,)."""
        if asked.together is not None:
            return asked.together.sizes
        return np.concatenate([self._sizes(rows) for rows in asked.sets])

    def _sizes(self, rows: Rows) -> Indices:
        """The length of each row of a set."""
        if isinstance(rows, TokenRows):
            return rows.sizes
        sizes = [self.model.size(rows.row(index)) for index in range(len(rows))]
        return np.array(sizes, dtype=np.int64)

    @contextmanager
    def _batches(
        self, asked: NumberedRows, sizes: Indices, stored: StoredRows | None
    ) -> Iterator[Iterable[Batch]]:
        """The rows that are not stored in batches, planned as for all rows."""
        if stored is None:
            with self._planned(asked, sizes) as batches:
                yield batches
        elif stored.complete:
            yield []
        else:
            with self._planned(asked, sizes) as batches:
                yield stored.unknown(batches)

    @contextmanager
    def _planned(self, asked: NumberedRows, sizes: Indices) -> Iterator[Iterable[Batch]]:
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
        with model.lend_prefix(text) as lent_tokens:
            plan = plan_batches(np.minimum(shared, lent_tokens), sizes, self.tokens, len(text))
            if plan.pays:
                yield ((batch.rows, batch.shared) for batch in plan.batches)
            else:
                yield unshared

    @property
    def _light(self) -> bool:
        """Whether the model is so small that torch's threads would mostly wait for each other."""
        return isinstance(self.model, SaysItsSize) and self.model.light

    def _ask_all(self, batches: Iterable[BatchRows]) -> Iterator[Tensor]:
        """The logits of each batch, in their order.

        A small model is asked about several at once, where it can be.
        """
        model, threads = self.model, for_batches()
        if threads == 1 or not self._light or not isinstance(model, TakesThreads):
            yield from map(self._ask, batches)
            return
        with model.hold_for_threads() as together:
            if not together:
                yield from map(self._ask, batches)
                return

            def alone(rows: BatchRows) -> bool:
                assert isinstance(rows, TokenBatch)  # a model of tokens has no others
                return model.must_be_alone(rows)

            ask = partial(self._ask, answer=model.answer_beside)
            yield from side_by_side(ask, batches, threads, alone)

    def _ask(self, rows: BatchRows, answer: Callable[[TokenBatch], Tensor] | None = None) -> Tensor:
        """Logits (rows, width) of one batch, asked in halves where it does not fit into memory.

        Args:
            rows: the batch.
            answer: asks the model about tokens; None: in the ordinary way.
        """
        try:
            if not isinstance(rows, TokenBatch):
                return check_logits(self.model.answer(rows), len(rows), self.model)
            if answer is None:
                assert isinstance(self.model, TakesTokens)  # or readings would have no token ids
                answer = self.model.answer_tokens
            return check_logits(answer(rows), len(rows), self.model)
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
            self._halve(len(rows) * longest)
        _free_memory(self.model.device)
        halves = np.array_split(np.arange(len(rows)), 2)
        return torch.cat([self._ask(some_rows(rows, half), answer) for half in halves])

    def _halve(self, tokens: int) -> None:
        """Makes batches smaller, where one of so many tokens did not fit into memory."""
        self.tokens = max(1, min(self.tokens, tokens) // 2)
        if not self._told:
            self._told = True
            message = (
                f"{self.model.name}: a batch of {tokens} tokens did not fit into memory: smaller "
                f"ones are used. To begin with them, give batch_tokens={self.tokens}"
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _longest(self, rows: BatchRows) -> int:
        """The length of the longest row."""
        if isinstance(rows, TokenBatch):
            return int(rows.sizes.max())
        return max(self.model.size(row) for row in rows)

    def _failed(self, error: Exception, rows: BatchRows) -> ModelError:
        """The error for a model that failed on a batch."""
        first = rows.row(0) if isinstance(rows, TokenBatch) else rows[0]
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return ModelError(
            f"{self.model.name} failed on {quote_text(self.model.show(first))} ({reason}): "
            "try the model on this text alone"
        )

    def _columns_of(self, logits: Tensor, asked: NumberedRows) -> Tensor:
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
            shown = quote_text(self.model.show(asked.row(first)))
            raise ModelError(
                f"{self.model.name} returned [{answer}] (shape {tuple(logits.shape)}) for {shown}: "
                f"expected finite numbers below {LARGEST:.0e}; "
                "check the model's weights and precision"
            )
        return columns


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
