"""Times our methods and others, each beside the forward passes of what it sends to the model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest import mock

from research.benchmarks.speed.floor import Floor, Row, Runner, row_of
from research.benchmarks.speed.others import OTHERS, Explain, other
from research.benchmarks.speed.record import recorded
from research.benchmarks.speed.subjects import Lab, Predict, Subject
from research.clock import clocked

OURS = ("slalom", "linear", "slalom-eff", "slalom-fidel")
# Like the libraries that ours are compared with: tokens are deleted, and class 1 is explained.
COMPARED = {"granularity": "token", "target": 1, "removal": "delete"}
# What an explanation consists of: a module, perhaps a class there, and the function. The rest is
# drawing and comparing perturbed texts, and making results.
PARTS = {
    "asking": ("queries.batches", "Batches", "columns"),
    "first fits": ("methods.slalom", "", "begin_fits"),
    "last fits": ("methods.slalom", "", "complete_fits"),
    "report": ("methods.slalom", "", "summarise"),
}


@dataclass
class Watch:
    """What our methods do while they are watched.

    Attributes:
        clock: seconds by part, in ``PARTS``.
        calls: perturbed texts sent.
    """

    clock: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    calls: int = 0
    _sent: list[Any] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """The distinct ones."""
        written = (rows.row(index) for rows in self._sent for index in range(len(rows)))
        return [row_of(ids) for ids, *_ in dict.fromkeys(written)]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose seconds count as a part."""

        def call(*given: Any, **named: Any) -> Any:
            if part == "asking":
                self._sent += given[1]
                self.calls += sum(map(len, given[1]))
            start = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.clock[part] += time.perf_counter() - start

        return call


@contextmanager
def watched() -> Iterator[Watch]:
    """Watches our methods while this is open."""
    watch = Watch()
    with ExitStack() as stack:
        for part, (module, owner, name) in PARTS.items():
            holder: Any = import_module(f"slalom_xai.{module}")
            holder = getattr(holder, owner) if owner else holder
            timed = watch.timed(part, getattr(holder, name))
            stack.enter_context(mock.patch.object(holder, name, timed))
        yield watch


def ours(lab: Lab, method: str = "slalom", calls: int | None = None, **options: Any) -> Any:
    """An explainer of ours."""
    from slalom_xai import Explainer

    return Explainer(
        lab.model, lab.tokenizer, method=method, budget=calls, show_progress=False, **options
    )


def build(lab: Lab, method: str, calls: int, **options: Any) -> Explain:
    """Ours or another method, which explains texts with so many calls."""
    if method in OTHERS:
        return other(lab, method, calls)
    explainer = ours(lab, method, calls, **options)

    def explain(subject: Subject) -> Predict:
        predict: Predict = explainer(subject.text).predict
        return predict

    return explain


def beside_forward_passes(
    work: Callable[[], Any], lab: Lab, turns: int = 3, *, by_us: bool = True
) -> tuple[Any, list[Row], dict[str, Any]]:
    """Times something, and after each turn the forward passes of what it sends to the model.

    Args:
        work: what is timed.
        lab: the model.
        turns: how often. Before several, it is run once more; one should be warmed up.
        by_us: whether our methods do it.

    Returns:
        What came out, the distinct rows that were sent, and a record.
    """
    results: list[Any] = []
    seconds, floors, parts = [], [], []
    for turn in range(turns + (turns > 1)):
        watching: AbstractContextManager[Any] = watched() if by_us else recorded(lab.model)
        with watching as seen:
            taken = clocked(lambda: results.append(work()), lab.device)
        if turn == 0:
            rows, calls = list(seen.rows), seen.calls
            floor = Floor(Runner(lab.model, lab.pad), rows)
        if turn or turns == 1:
            seconds.append(taken)
            floors.append(floor.seconds())
            parts.append(seen.clock if by_us else {})
    record = {"calls": calls, "rows": len(floor.rows), "seconds": seconds, "forward": floors}
    if by_us:
        record["parts"] = {part: statistics.median(one[part] for one in parts) for part in PARTS}
    return results[-1], rows, record


def ratio(seconds: Sequence[float], forward: Sequence[float]) -> float:
    """The median of paired ratios: both of a pair were measured one right after the other."""
    return statistics.median(one / other for one, other in zip(seconds, forward, strict=True))
