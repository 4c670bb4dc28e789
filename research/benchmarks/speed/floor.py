"""The floor: nothing but the forward passes of given rows, batched as well as can be.

It uses no code of the package.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Token ids, special tokens included, as four-byte integers: small, and equal where the ids are.
Row = bytes

CPU_BUDGETS = (512, 1024, 2048, 4096, 8192)  # tokens per batch
GPU_BUDGETS = (16384, 65536, 262144)  # the same
TRIAL_SECONDS = 0.25  # roughly what each way of batching may take when it is tried out
# Tokens of inputs that are made before the clock starts; longer lists of rows are timed in parts.
STORED_TOKENS = 2**23


def row_of(ids: Sequence[int] | NDArray[np.integer]) -> Row:
    """Token ids as a row."""
    return np.asarray(ids, dtype=np.int32).tobytes()


def size(row: Row) -> int:
    """Tokens in a row."""
    return len(row) // 4


@dataclass(frozen=True)
class Way:
    """How rows are batched.

    Attributes:
        tokens: in a batch.
        equal: whether only rows of one length go together; then nothing is padded or masked.
    """

    tokens: int
    equal: bool

    def __str__(self) -> str:
        if self.equal:
            return f"{self.tokens} tokens a batch, equal lengths"
        return f"{self.tokens} tokens a batch, padded"


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
        self.default = Way(65536, equal=False)
        if self.device.type == "cpu":
            self.default = Way(2048, equal=False)

    def plan(self, rows: Sequence[Row], way: Way) -> list[list[int]]:
        """Which rows go together, longest first."""
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]), reverse=True)
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

    def batch(self, rows: Sequence[Row], indices: Sequence[int]) -> Batch:
        """Some rows, the longest first, as inputs."""
        width = size(rows[indices[0]])
        ids = np.full((len(indices), width), self.pad, dtype=np.int64)
        lengths = np.array([size(rows[index]) for index in indices])
        for line, index in enumerate(indices):
            ids[line, : lengths[line]] = np.frombuffer(rows[index], dtype=np.int32)
        on_device = torch.from_numpy(ids).to(self.device)
        if lengths[-1] == width:
            return Batch(on_device, None)
        mask = (np.arange(width) < lengths[:, None]).astype(np.int64)
        return Batch(on_device, torch.from_numpy(mask).to(self.device))

    def forward(self, batch: Batch) -> Tensor:
        """Logits (rows, classes) of one batch."""
        inputs = {"input_ids": batch.ids}
        if batch.mask is not None:
            inputs["attention_mask"] = batch.mask
        logits: Tensor = self.model(**inputs).logits
        return logits

    def answers(self, rows: Sequence[Row]) -> Tensor:
        """Logits (m, classes) in the order of the rows, on the CPU."""
        plan = self.plan(rows, self.default)
        parts = []
        with torch.inference_mode():
            for indices in plan:
                parts.append(self.forward(self.batch(rows, indices)).float())
        logits = torch.cat(parts).cpu()
        order = torch.tensor([index for indices in plan for index in indices])
        return logits[order.argsort()]

    def seconds(self, batches: Iterable[Batch]) -> float:
        """How long the forward passes of batches take, inputs being in place; on a GPU in TF32."""
        before = torch.get_float32_matmul_precision()
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
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
        self._stored: list[Batch] | None = None
        if self.tokens <= STORED_TOKENS:
            self._stored = [runner.batch(self.rows, indices) for indices in self._plan]

    def seconds(self) -> float:
        """One measurement."""
        if self._stored is not None:
            return self.runner.seconds(self._stored)
        every = -(-self.tokens // STORED_TOKENS)
        seconds = 0.0
        for start in range(every):
            part = [self.runner.batch(self.rows, indices) for indices in self._plan[start::every]]
            seconds += self.runner.seconds(part)
        return seconds

    def _fastest(self) -> Way:
        """The best of all ways on a share of the rows, spread over their lengths."""
        budgets: tuple[int, ...] = GPU_BUDGETS
        if self.runner.device.type == "cpu":
            budgets = CPU_BUDGETS
        ways = [Way(tokens, equal) for tokens in budgets for equal in (True, False)]
        part = self._share(ways[len(ways) // 2])
        for way in ways:  # the smallest and the largest batches warm up
            if way.tokens in (budgets[0], budgets[-1]):
                self._trial(part, way)
        seconds = {way: self._trial(part, way) for way in ways}
        # The machine may have been busy: the best three get another chance.
        again = {}
        for way in sorted(seconds, key=lambda way: seconds[way])[:3]:
            again[way] = min(seconds[way], self._trial(part, way), self._trial(part, way))
        return min(again, key=lambda way: again[way])

    def _share(self, way: Way) -> list[Row]:
        """Rows that take about as long as one trial may."""
        by_length = sorted(self.rows, key=len)
        mean = max(1, self.tokens // len(self.rows))
        in_batch = max(1, way.tokens // mean)
        middle = by_length[len(self.rows) // 2 :][:in_batch]
        self._trial(middle, way)
        expected = self._trial(middle, way) / sum(map(size, middle)) * self.tokens
        every = max(1, min(len(self.rows), round(min(expected, 1e6) / TRIAL_SECONDS)))
        return by_length[every // 2 :: every] or self.rows[:1]

    def _trial(self, rows: Sequence[Row], way: Way) -> float:
        """Seconds for some rows; infinite where a batch does not fit into memory."""
        try:
            plan = self.runner.plan(rows, way)
            return self.runner.seconds([self.runner.batch(rows, indices) for indices in plan])
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return float("inf")
