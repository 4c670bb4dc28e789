"""How far a run is: a bar where a person watches, and a line now and then where none does."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from slalom_xai.progress import Bar, progress_bar

_LABEL = "explaining texts"
_FIRST = 5.0  # seconds until the first line
_PAUSE = 30.0  # seconds between two lines


class TextsDone:
    """Counts texts.

    Args:
        texts: how many are to be done.
        bar: where a person watches.
        lines: whether to write lines in the place of a bar.
        clock: gives seconds.
    """

    def __init__(
        self,
        texts: int,
        bar: Bar | None,
        lines: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._texts, self._bar, self._lines = texts, bar, lines
        self._done, self._clock = 0, clock
        self._started = clock()
        self._said = self._started - _PAUSE + _FIRST
        if bar is not None:
            bar.start(texts, _LABEL, afresh=True)

    def advance(self, texts: int) -> None:
        """Some texts are done."""
        self._done += texts
        if self._bar is not None:
            self._bar.advance(texts)
        now = self._clock()
        if self._lines and now - self._said >= _PAUSE:
            self._said = now
            sys.stderr.write(self.line(now - self._started) + "\n")
            sys.stderr.flush()

    def line(self, seconds: float) -> str:
        """How far the run is after so many seconds."""
        rate = self._done / max(seconds, 1e-9)
        said = f"{self._done:,} of {self._texts:,} texts, {rate:.1f} a second"
        if self._done == 0:
            return said
        left = timedelta(seconds=round((self._texts - self._done) / rate))
        return f"{said}, {left} left"


@contextmanager
def texts_done(texts: int, show: bool | None) -> Iterator[TextsDone]:
    """Shows how far a run is.

    Args:
        texts: how many are to be done.
        show: None: a bar in a terminal, and lines elsewhere; False: neither.
    """
    with progress_bar(show) as bar:
        yield TextsDone(texts, bar, lines=bar is None and show is not False)
