"""Computations that may wait for those of other texts, so that all are done in one go.

A fit is many small steps. Those of ten texts take hardly longer than those of one when they are
done together. So a method hands a fit to a ``WorkPool`` and does not care whether others join it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkPool(Protocol):
    """Where computations are handed in."""

    def run(self, work: Callable[[Sequence[Item]], Sequence[Result]], item: Item) -> Result:
        """What ``work`` makes of an item; ``work`` takes several items at once, in their order."""


class OneByOne:
    """Computes at once."""

    def run(self, work: Callable[[Sequence[Item]], Sequence[Result]], item: Item) -> Result:
        """What ``work`` makes of an item, alone."""
        return work([item])[0]
