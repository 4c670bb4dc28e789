"""Hands rows to a model in batches of similar length, as many at a time as memory allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, ModelError, SlalomError, shortened
from slalom_xai.models import Row, TextModel
from slalom_xai.models.base import LendsPrefixes, SaysItsSize, TakesTokens
from slalom_xai.models.token_rows import KeptTokens, Rows, SpelledRows, TokenBatch, TokenRows
from slalom_xai.queries.shared_batches import plan_batches
from slalom_xai.system.threads import LIGHT, at_most

Places = NDArray[np.int64]

LARGEST = 1e100  # answers from here on are refused: sums of their squares would not be finite
PADDING = 0.04  # of a batch's tokens, at most
FEW = 64  # rows for which a text is not read beforehand
SMALL = 64  # but a batch is not ended for less padding than this part of a full one: each has its own overhead


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

    def answer(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """The explained columns (m, C), float64, of each set of rows."""


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
        self.tokens = tokens or (8_192 if model.device.type == "cpu" else 65_536)

    def answer(self, asked: Sequence[Rows], progress: Progress | None = None) -> list[Tensor]:
        """The explained columns (m, C), float64, of rows about one text, or about several at once.

        Raises:
            ModelError: an answer that is not finite, or a row that does not fit into memory.
        """
        sizes = [self._sizes(rows) for rows in asked]
        owner = np.repeat(np.arange(len(asked)), [len(rows) for rows in asked])
        place = np.concatenate([np.arange(len(rows)) for rows in asked])
        every = np.concatenate(sizes)
        found = []
        light = isinstance(self.model, SaysItsSize) and self.model.light
        threads = LIGHT if light else None
        with at_most(threads), self._cuts(asked, every) as cuts:
            for batch, shared in cuts:
                rows = batch[owner[batch].argsort(kind="stable")]  # rows of one text stand together
                parts = [
                    asked[one].take(place[rows[owner[rows] == one]])
                    for one in np.unique(owner[rows])
                ]
                found.append((rows, self._ask(_together(parts, shared))))
                if progress:
                    progress.advance(len(rows))
        logits = torch.cat([answers for _, answers in found])
        back = np.empty(len(every), dtype=np.int64)
        back[np.concatenate([rows for rows, _ in found])] = np.arange(len(every))
        logits = logits[torch.as_tensor(back, device=logits.device)]
        return list(
            torch.split(self._columns(logits, asked, owner, place), [len(rows) for rows in asked])
        )

    def _sizes(self, rows: Rows) -> Places:
        if isinstance(rows, TokenRows):
            return rows.sizes
        return np.array([self.model.size(row) for row in rows.rows], dtype=np.int64)

    @contextmanager
    def _cuts(self, asked: Sequence[Rows], sizes: Places) -> Iterator[Iterable[tuple[Places, int]]]:
        """Batches of rows, as their places and the tokens that a model lends them, having read the text once."""
        order = (-sizes).argsort(kind="stable")
        plain = ((order[batch], 0) for batch in self._cut(sizes[order]))
        kept = [rows for rows in asked if isinstance(rows, KeptTokens)]
        one_text = len(kept) == len(asked) and all(rows.text is kept[0].text for rows in kept)
        model = self.model
        if not one_text or len(sizes) < FEW:
            yield plain
            return
        if not isinstance(model, LendsPrefixes) or not model.lends:
            yield plain
            return
        text, shared = kept[0].text, np.concatenate([rows.shared for rows in kept])
        if not plan_batches(shared, sizes, self.tokens, len(text.streams[0])).worth:
            yield plain
            return
        with model.lending(text) as most:
            plan = plan_batches(np.minimum(shared, most), sizes, self.tokens, len(text.streams[0]))
            yield ((batch.rows, batch.shared) for batch in plan.batches) if plan.worth else plain

    def _cut(self, sizes: Places) -> Iterator[slice]:
        """Cuts sorted sizes, longest first, by what the token budget is at that moment, and before padding grows large."""
        start, last = 0, len(sizes)
        while start < last:
            longest = max(1, int(sizes[start]))
            most = min(last, start + max(1, self.tokens // longest))
            padding = np.cumsum(longest - sizes[start:most])
            over = padding > np.maximum(
                PADDING * longest * np.arange(1, most - start + 1), self.tokens / SMALL
            )
            end = start + int(over.argmax()) if over.any() else most
            equal = start + int(np.searchsorted(-sizes[start:end], -sizes[start], side="right"))
            end = (
                equal if 2 * (equal - start) >= end - start else end
            )  # equally long rows need neither padding nor a mask
            yield slice(start, end)
            start = end

    def _ask(self, rows: TokenBatch | Sequence[Row]) -> Tensor:
        """Logits of one batch, asked in halves where it does not fit into memory."""
        try:
            if isinstance(rows, TokenBatch):
                assert isinstance(
                    self.model, TakesTokens
                )  # or its reading would not have token ids
                return self.model.answer_tokens(rows)
            return self.model.answer(rows)
        except SlalomError:
            raise
        except Exception as error:
            spelled = rows.row(0) if isinstance(rows, TokenBatch) else rows[0]
            if not out_of_memory(error):
                reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
                raise ModelError(
                    f"{self.model.name} failed on {shortened(self.model.show(spelled))} ({reason}): try the model on this text alone"
                ) from error
            longest = (
                int(rows.sizes.max())
                if isinstance(rows, TokenBatch)
                else max(self.model.size(row) for row in rows)
            )
            if len(rows) == 1:
                raise ModelError(
                    f"one row of {longest} tokens does not fit into memory: use a shorter text, a smaller model or another device"
                ) from error
            self.tokens = max(1, min(self.tokens, len(rows) * longest) // 2)
        _free_memory(self.model.device)
        halves = np.array_split(np.arange(len(rows)), 2)
        return torch.cat(
            [
                self._ask(
                    rows.take(half)
                    if isinstance(rows, TokenBatch)
                    else [rows[place] for place in half]
                )
                for half in halves
            ]
        )

    def _columns(
        self, logits: Tensor, asked: Sequence[Rows], owner: Places, place: Places
    ) -> Tensor:
        """Logits as what is explained, in double precision, if they are numbers."""
        exact = logits.device if logits.device.type != "mps" else torch.device("cpu")
        columns = self.model.outputs.columns(logits.to(exact, torch.float64))
        bad = ~(columns.abs() < LARGEST).all(dim=1) | ~logits.isfinite().all(dim=1).to(exact)
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            rows, number = asked[owner[first]], int(place[first])
            answer = ", ".join(f"{value:.4g}" for value in logits[first][:6].tolist())
            raise ModelError(
                f"{self.model.name} returned [{answer}] (shape {tuple(logits.shape)}) for {shortened(self.model.show(_spelled(rows, number)))}: "
                f"expected finite numbers below {LARGEST:.0e}; check the model's weights and precision"
            )
        return columns


def _together(parts: Sequence[Rows], shared: int) -> TokenBatch | list[Row]:
    """The rows of several texts, as the model takes them."""
    tokens = [part for part in parts if isinstance(part, TokenRows)]
    return (
        TokenBatch(tokens, shared)
        if tokens
        else [row for part in parts if isinstance(part, SpelledRows) for row in part.rows]
    )


def _spelled(rows: Rows, place: int) -> Row:
    return rows.row(place) if isinstance(rows, TokenRows) else rows.rows[place]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return any(
        sign in str(error).lower()
        for sign in ("out of memory", "can't allocate memory", "not enough memory")
    )


def _free_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
