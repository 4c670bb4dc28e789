"""A progress bar on standard error, when a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Bar:
    """Counts rows: those a model answered, or those it learnt from."""

    def __init__(self, display: RichProgress, task: TaskID) -> None:
        self._display, self._task, self._total, self._done, self._label = display, task, 0, 0, "asking the model"

    def start(self, total: int, label: str = "asking the model", *, afresh: bool = False) -> None:
        """Expect this many more rows; ``afresh`` forgets those before, for work that comes in rounds."""
        if afresh:
            self._total = self._done = 0
            self._display.reset(self._task)
        self._total, self._label = self._total + total, label
        self._display.update(self._task, total=self._total, completed=self._done, description=label)

    def advance(self, rows: int) -> None:
        """Some rows are done."""
        self._done += rows
        label = "fitting" if self._done == self._total and self._label == "asking the model" else self._label
        self._display.update(self._task, completed=self._done, description=label)


@contextmanager
def progress_bar(show: bool | None) -> Iterator[Bar | None]:
    """A bar that disappears when done; none where ``show`` is None and standard error is no terminal."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    shape = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*shape, console=Console(stderr=True), transient=True) as display:
        yield Bar(display, display.add_task("asking the model", total=None))
