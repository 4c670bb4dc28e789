"""A progress bar: on standard error when a person is watching, in a notebook when asked for.

Where results come in rounds, the last one can stand above the bar (``result_above_bar``).
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


_ASKING = "asking the model"


class Display(Protocol):
    """What shows a bar."""

    def show(self, done: int, total: int, label: str) -> None:
        """Shows how far the work is."""


class Terminal:
    """A bar that rich draws in a terminal."""

    def __init__(self, display: RichProgress, task: TaskID) -> None:
        self._display, self._task = display, task

    def show(self, done: int, total: int, label: str) -> None:
        """Shows how far the work is; where it begins anew, so does its clock."""
        if done == 0:
            self._display.reset(self._task)
        self._display.update(self._task, total=total, completed=done, description=label)


class Board:
    """A part of the terminal that holds a preliminary result, with a bar below it."""

    def __init__(self, live: Live, bar: RichProgress) -> None:
        self._live, self._bar = live, bar

    @property
    def height(self) -> int:
        """Lines of the terminal."""
        return self._live.console.height

    def show(self, result: RenderableType) -> None:
        """Puts a result in the place of the one before."""
        from rich.console import Group

        self._live.update(Group(result, self._bar), refresh=True)

    def write(self, line: str) -> None:
        """Writes a line that stays."""
        self._live.console.print(line, markup=False, highlight=False)


class Notebook:
    """A bar below the cell of a notebook, which needs no widgets; gone when done."""

    PAUSE = 0.2  # seconds between two drawings

    def __init__(self) -> None:
        self._handle: Any = import_module("IPython.display").display(_html(""), display_id=True)
        self._drawn = 0.0

    def show(self, done: int, total: int, label: str) -> None:
        """Shows how far the work is, now and then."""
        now = time.monotonic()
        if now - self._drawn >= self.PAUSE:
            self._drawn = now
            bar = f'<progress value="{done}" max="{total}"></progress>'
            self._handle.update(_html(f"{bar} {label} {done}/{total}"))

    def close(self) -> None:
        """Takes the bar away."""
        self._handle.update(_html(""))


class Bar:
    """Counts rows: those a model answered, or those it learnt from."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._total = self._done = 0
        self._label = _ASKING
        self._spent = ""

    def start(self, total: int, label: str = _ASKING, *, afresh: bool = False) -> None:
        """Expects this many more rows.

        Args:
            total: how many.
            label: what is done with them.
            afresh: forget those before, for work that comes in rounds.
        """
        if afresh:
            self._total = self._done = 0
        self._total += total
        self._label = label
        self._show(label)

    def advance(self, rows: int, spent: str = "") -> None:
        """Some rows are done; when a model has answered all of them, a fit follows.

        Args:
            rows: how many.
            spent: what has been paid for so far, to be shown from now on.
        """
        self._done += rows
        self._spent = spent or self._spent
        asked = self._done == self._total and self._label == _ASKING
        self._show("fitting" if asked else self._label)

    def _show(self, label: str) -> None:
        shown = f"{label} ({self._spent})" if self._spent else label
        self._display.show(self._done, self._total, shown)


_outer: ContextVar[Bar | None] = ContextVar("_outer", default=None)


@contextmanager
def progress_bar(show: bool | None) -> Iterator[Bar | None]:
    """A bar that disappears when done.

    Args:
        show: whether to show one; None: only if standard error is a terminal. Below a result, the
            bar that is there is used.
    """
    if show is not False and _outer.get() is not None:
        yield _outer.get()
        return
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield None
        return
    if _in_notebook():
        with _notebook_bar() as bar:
            yield bar
        return
    with _terminal_bar() as bar:
        yield bar


@contextmanager
def result_above_bar() -> Iterator[Board]:
    """A place on standard error for preliminary results, gone when done.

    The bars of the work inside are drawn below it.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    display = _rich_bar(console)
    token = _outer.set(Bar(Terminal(display, display.add_task(_ASKING, total=None))))
    try:
        with Live(display, console=console, transient=True) as live:
            yield Board(live, display)
    finally:
        _outer.reset(token)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """The bars of the work inside are shown by ``display``, and nowhere else.

    What ``display`` raises ends the work.
    """
    token = _outer.set(Bar(display))
    try:
        yield
    finally:
        _outer.reset(token)


@contextmanager
def _notebook_bar() -> Iterator[Bar]:
    notebook = Notebook()
    try:
        yield Bar(notebook)
    finally:
        notebook.close()


@contextmanager
def _terminal_bar() -> Iterator[Bar]:
    from rich.console import Console

    with _rich_bar(Console(stderr=True)) as display:
        yield Bar(Terminal(display, display.add_task(_ASKING, total=None)))


def _rich_bar(console: Console) -> RichProgress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shape = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*shape, console=console, transient=True)


def _in_notebook() -> bool:
    """Whether what IPython displays is shown in a notebook."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _html(content: str) -> Any:
    return import_module("IPython.display").HTML(content)


def quiet_in_notebooks() -> None:
    """Imports tqdm without its warning that a notebook has no widgets.

    Other libraries bring tqdm along, and this package does not need it.
    """
    if not _in_notebook():
        return
    with warnings.catch_warnings(), contextlib.suppress(ImportError):
        warnings.simplefilter("ignore")
        import_module("tqdm.auto")
