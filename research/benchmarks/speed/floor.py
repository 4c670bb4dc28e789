"""Forward-pass time: the bare forward passes of given rows, batched as fast as possible.

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
Inputs = dict[str, Tensor]

CPU_TOKENS = (512, 1024, 2048, 4096, 8192)  # tokens per batch that are tried
GPU_TOKENS = (16384, 65536, 262144)  # the same
TRIAL_SECONDS = 0.15  # roughly what a trial of one way of batching may take


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


class Runner:
    """Runs rows through a model.

    Args:
        model: a transformers classifier.
        pad: the id that fills up short rows, on the right.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self.model = model
        self.pad = pad
        self.device: torch.device = next(model.parameters()).device
        self.default = Way(2048 if self.device.type == "cpu" else 65536, equal=False)

    def plan(self, rows: Sequence[Row], way: Way) -> list[list[int]]:
        """Which rows go together, longest first."""
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]), reverse=True)
        groups = []
        start = 0
        while start < len(order):
            width = size(rows[order[start]])
            stop = min(len(order), start + max(1, way.tokens // max(1, width)))
            while way.equal and size(rows[order[stop - 1]]) != width:
                stop -= 1
            groups.append(order[start:stop])
            start = stop
        return groups

    def batch(self, rows: Sequence[Row], indices: Sequence[int]) -> Inputs:
        """Some rows, the longest first, on the device; with a mask where something is padded."""
        lengths = np.array([size(rows[index]) for index in indices])
        ids = np.full((len(indices), lengths[0]), self.pad, dtype=np.int64)
        for line, index in enumerate(indices):
            ids[line, : lengths[line]] = np.frombuffer(rows[index], dtype=np.int32)
        inputs = {"input_ids": torch.from_numpy(ids).to(self.device)}
        if lengths[-1] < lengths[0]:
            mask = (np.arange(lengths[0]) < lengths[:, None]).astype(np.int64)
            inputs["attention_mask"] = torch.from_numpy(mask).to(self.device)
        return inputs

    def answers(self, rows: Sequence[Row]) -> Tensor:
        """Logits (m, classes) in the order of the rows, on the CPU."""
        plan = self.plan(rows, self.default)
        with torch.inference_mode():
            parts = [self.model(**self.batch(rows, indices)).logits.float() for indices in plan]
        order = torch.tensor([index for indices in plan for index in indices])
        return torch.cat(parts).cpu()[order.argsort()]

    def seconds(self, batches: Iterable[Inputs]) -> float:
        """How long the forward passes of batches take, inputs being in place; on a GPU in TF32."""
        before = torch.get_float32_matmul_precision()
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        self.synchronize()
        start = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                self.model(**batch)
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
        plan = runner.plan(self.rows, self.way)
        self._batches = [runner.batch(self.rows, indices) for indices in plan]

    def seconds(self) -> float:
        """One measurement."""
        return self.runner.seconds(self._batches)

    def _fastest(self) -> Way:
        """The fastest way for some of the rows, spread over their lengths."""
        tokens = CPU_TOKENS if self.runner.device.type == "cpu" else GPU_TOKENS
        ways = [Way(count, equal) for count in tokens for equal in (True, False)]
        some = self._share(ways[len(ways) // 2])
        for way in (*ways[:2], *ways[-2:]):  # the smallest and the largest batches warm up
            self._trial(some, way)
        seconds = {way: self._trial(some, way) for way in ways}
        # The machine may have been busy: the best three get another chance.
        best = sorted(ways, key=lambda way: seconds[way])[:3]
        return min(best, key=lambda way: min(seconds[way], *(self._trial(some, way) for _ in "ab")))

    def _share(self, way: Way) -> list[Row]:
        """Rows that take about as long as a trial may."""
        by_length = sorted(self.rows, key=len)
        in_batch = max(1, way.tokens * len(self.rows) // self.tokens)
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
