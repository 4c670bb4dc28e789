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
    """Counts answered rows."""

    def __init__(self, display: RichProgress, task: TaskID) -> None:
        self._display, self._task, self._total = display, task, 0

    def start(self, total: int) -> None:
        """Expect this many more rows."""
        self._total += total
        self._display.update(self._task, total=self._total)

    def advance(self, rows: int) -> None:
        """Some rows are answered."""
        self._display.advance(self._task, rows)


@contextmanager
def progress_bar(show: bool | None, label: str) -> Iterator[Bar | None]:
    """A bar that disappears when done; none where ``show`` is None and standard error is no terminal."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shape = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*shape, console=Console(stderr=True), transient=True) as display:
        yield Bar(display, display.add_task(label, total=None))
