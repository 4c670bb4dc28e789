"""The floor: nothing but the forward passes of given rows, batched as well as can be. It uses no code of the package."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Row = bytes  # token ids, special tokens included, as four-byte integers: small, and equal where the ids are

CPU_BUDGETS = (512, 1024, 2048, 4096, 8192)  # tokens per batch
GPU_BUDGETS = (16384, 65536, 262144)
TRIAL_SECONDS = 0.25  # roughly what each way of batching may take when it is tried out
STORED_TOKENS = (
    2**23
)  # inputs that are made before the clock starts; longer lists of rows are timed in parts


def row_of(ids: Sequence[int] | NDArray[np.integer]) -> Row:
    """Token ids as a row."""
    return np.asarray(ids, dtype=np.int32).tobytes()


def size(row: Row) -> int:
    """Tokens in a row."""
    return len(row) // 4


@dataclass(frozen=True)
class Way:
    """How rows are batched: tokens per batch, and whether only rows of one length go together (then nothing is padded or masked)."""

    tokens: int
    equal: bool

    def __str__(self) -> str:
        return f"{self.tokens} tokens a batch, {'equal lengths' if self.equal else 'padded'}"


@dataclass(frozen=True)
class Batch:
    """Inputs on the device; ``mask`` is None where nothing is padded."""

    ids: Tensor
    mask: Tensor | None


class Runner:
    """Runs rows through a model.

    Args:
        model: a transformers classifier.
        pad: the id that fills up short rows, on the right.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device = next(model.parameters()).device
        self.default = Way(2048 if self.device.type == "cpu" else 65536, equal=False)

    def plan(self, rows: Sequence[Row], way: Way) -> list[list[int]]:
        """Which rows go together, longest first."""
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]), reverse=True)
        groups = []
        start = 0
        while start < len(order):
            width = size(rows[order[start]])
            stop = min(len(order), start + max(1, way.tokens // max(1, width)))
            if way.equal:
                while size(rows[order[stop - 1]]) != width:
                    stop -= 1
            groups.append(order[start:stop])
            start = stop
        return groups

    def batch(self, rows: Sequence[Row], places: Sequence[int]) -> Batch:
        """Some rows, the longest first, as inputs."""
        width = size(rows[places[0]])
        ids = np.full((len(places), width), self.pad, dtype=np.int64)
        lengths = np.array([size(rows[place]) for place in places])
        for line, place in enumerate(places):
            ids[line, : lengths[line]] = np.frombuffer(rows[place], dtype=np.int32)
        mask = (
            None
            if lengths[-1] == width
            else torch.from_numpy((np.arange(width) < lengths[:, None]).astype(np.int64)).to(
                self.device
            )
        )
        return Batch(torch.from_numpy(ids).to(self.device), mask)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (rows, classes) of one batch."""
        if batch.mask is None:
            return self.model(input_ids=batch.ids).logits
        return self.model(input_ids=batch.ids, attention_mask=batch.mask).logits

    def answers(self, rows: Sequence[Row]) -> Tensor:
        """Logits (m, classes) in the order of the rows, on the CPU."""
        plan = self.plan(rows, self.default)
        with torch.inference_mode():
            logits = torch.cat(
                [self.forward(self.batch(rows, places)).float() for places in plan]
            ).cpu()
        return logits[torch.tensor([place for places in plan for place in places]).argsort()]

    def seconds(self, batches: Iterable[Batch]) -> float:
        """How long the forward passes of batches take, inputs being in place; on a GPU in TF32."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.device.type == "cuda" else before)
        self.synchronize()
        start = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                self.forward(batch)
        self.synchronize()
        torch.set_float32_matmul_precision(before)
        return time.perf_counter() - start

    def synchronize(self) -> None:
        """Waits for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


class Floor:
    """The forward passes of a set of distinct rows, ready to be timed again and again.

    Args:
        runner: what runs them.
        rows: the rows; repeated ones count once.
    """

    def __init__(self, runner: Runner, rows: Iterable[Row]) -> None:
        self.runner = runner
        self.rows = list(dict.fromkeys(rows))
        self.tokens = sum(map(size, self.rows))
        self.way = self._fastest()
        self._plan = runner.plan(self.rows, self.way)
        self._stored = (
            [runner.batch(self.rows, places) for places in self._plan]
            if self.tokens <= STORED_TOKENS
            else None
        )

    def seconds(self) -> float:
        """One measurement."""
        if self._stored is not None:
            return self.runner.seconds(self._stored)
        every = -(-self.tokens // STORED_TOKENS)
        return sum(
            self.runner.seconds(
                [self.runner.batch(self.rows, places) for places in self._plan[start::every]]
            )
            for start in range(every)
        )

    def _fastest(self) -> Way:
        """The best of all ways on a share of the rows, spread over their lengths."""
        budgets = CPU_BUDGETS if self.runner.device.type == "cpu" else GPU_BUDGETS
        ways = [Way(tokens, equal) for tokens in budgets for equal in (True, False)]
        part = self._share(ways[len(ways) // 2])
        for warm in (True, False):
            found = {
                way: self._trial(part, way)
                for way in ways
                if not warm or way.tokens in (budgets[0], budgets[-1])
            }
        close = sorted(found, key=lambda way: found[way])[
            :3
        ]  # the machine may have been busy: the best get another chance
        again = {
            way: min(found[way], self._trial(part, way), self._trial(part, way)) for way in close
        }
        return min(again, key=lambda way: again[way])

    def _share(self, way: Way) -> list[Row]:
        """Rows that take about as long as one trial may."""
        middle = sorted(self.rows, key=len)[len(self.rows) // 2 :][
            : max(1, way.tokens // max(1, self.tokens // len(self.rows)))
        ]
        self._trial(middle, way)
        expected = self._trial(middle, way) / sum(map(size, middle)) * self.tokens
        every = max(1, min(len(self.rows), round(min(expected, 1e6) / TRIAL_SECONDS)))
        return sorted(self.rows, key=len)[every // 2 :: every] or self.rows[:1]

    def _trial(self, rows: Sequence[Row], way: Way) -> float:
        """Seconds for some rows; infinite where a batch does not fit into memory."""
        try:
            return self.runner.seconds(
                [self.runner.batch(rows, places) for places in self.runner.plan(rows, way)]
            )
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return float("inf")
