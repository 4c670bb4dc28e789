"""Models whose answers are worth keeping: one that stores them itself, and noisy ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from fakes import Averaging

from slalom_xai.models import Row
from slalom_xai.models.base import AnswerStore

TEXT = "a slow start but then one truly wonderful film after all"


class Noisy(Averaging):
    """Answers with noise, in a fixed order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)

    def answer(self, rows: Sequence[Row]) -> torch.Tensor:
        noise = self._rng.normal(scale=0.05, size=(len(rows), 2))
        return super().answer(rows) + torch.as_tensor(noise)


class Paid:
    """A model that is asked row by row in several threads, and stores each answer itself.

    Args:
        inner: answers.
        on_ask: is told of each key before it is asked.
        on_kept: is told of each key once its answer is stored.
        threads: how many ask at once; answers of a noisy model depend on their order.
    """

    def __init__(
        self,
        inner: Averaging,
        on_ask: Callable[[str], None] = lambda key: None,
        on_kept: Callable[[str], None] = lambda key: None,
        threads: int = 1,
    ) -> None:
        self.name, self.device, self.outputs = inner.name, inner.device, inner.outputs
        self.probe_calls = 0
        self.read, self.size, self.show = inner.read, inner.size, inner.show
        self.fingerprint = "paid, version 1"
        self._inner, self._threads = inner, threads
        self._on_ask, self._on_kept = on_ask, on_kept
        self._memory: dict[str, list[float]] = {}
        self._store: AnswerStore | None = None

    def use(self, store: AnswerStore) -> None:
        self._store = store

    def answer(self, rows: Sequence[Row]) -> torch.Tensor:
        seen: Counter[Row] = Counter()
        keys = []
        for row in rows:
            keys.append(f"{seen[row]} {row}")
            seen[row] += 1
        unknown = [key for key in keys if key not in self._memory]
        if self._store is not None:
            self._memory.update(self._store.find(unknown))
        missing = [key for key in dict.fromkeys(keys) if key not in self._memory]
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(self._ask, missing))
        return torch.tensor([self._memory[key] for key in keys], dtype=torch.float64)

    def _ask(self, key: str) -> None:
        self._on_ask(key)
        answer = self._inner.answer([key.partition(" ")[2]])[0].tolist()
        if self._store is not None:
            self._store.keep(key, answer)
        self._on_kept(key)
        self._memory[key] = answer
