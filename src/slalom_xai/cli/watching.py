"""What a person sees while an explanation is refined: the last result, and what each round bought.

All of it goes to standard error, and only where both streams are terminals: what a command prints
on standard output is the same whether or not somebody watches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation
    from slalom_xai.progress import Board

_ROWS = 10  # of the table
_OTHER_LINES = 12  # around its rows: the prediction, title, header, hint and bar


def somebody_watches() -> bool:
    """Whether both streams are terminals."""
    streams = (sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


class Watch:
    """Shows preliminary results and keeps the last one.

    Attributes:
        last: the last preliminary result; None before the first.
    """

    def __init__(self) -> None:
        self.last: Explanation | None = None
        self._board: Board | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows results while this is open; they are gone afterwards, and their lines stay."""
        from slalom_xai.progress import result_above_bar

        with result_above_bar() as self._board:
            yield
        self._board = None

    def on_round(self, explanation: Explanation) -> None:
        """Shows the result of a round."""
        from slalom_xai.reports.terminal import brief, in_one_line

        self.last = explanation
        if self._board is not None:
            self._board.write(in_one_line(explanation))
            rows = max(1, min(_ROWS, self._board.height - _OTHER_LINES))
            self._board.show(brief(explanation, rows))

    def finish(self, explanation: Explanation) -> None:
        """Says what the last round bought, where there was one before it."""
        from slalom_xai.reports.terminal import in_one_line

        if self.last is not None:
            typer.echo(in_one_line(explanation), err=True)
