"""What the commands that explain one text share: reading it, waiting for it, and showing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slalom_xai.cli.output import Write, echo_json, write_all

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation
    from slalom_xai.system.progress import Board

# What a person sees while an explanation is refined: the last result, and what each round bought.
#
# All of it goes to standard error, and only where both streams are terminals: what a command
# prints on standard output is the same whether or not somebody watches.


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
        from slalom_xai.system.progress import result_above_bar

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


# What the commands that explain one text share: reading it, waiting for it, and showing it.


def read_text(file: Path | None) -> str:
    """A file, or standard input, as text.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    from slalom_xai.errors import InputError

    try:
        return _read_bytes(file).decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file or 'standard input'} is not UTF-8 text "
            f"({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error


def _read_bytes(file: Path | None) -> bytes:
    """A file, or standard input."""
    from slalom_xai.errors import InputError

    if file is not None:
        return file.read_bytes()
    if sys.stdin is None:
        raise InputError("there is no standard input to read: pipe a text in, or give --file PATH")
    return sys.stdin.buffer.read()


def explain_text(
    explain: Callable[[], Explanation], watch: Watch | None
) -> tuple[Explanation, bool]:
    """The explanation, and whether it is a preliminary one, because Ctrl-C ended its refinement."""
    if watch is None:
        return explain(), False
    try:
        with watch.shown():
            explanation = explain()
    except KeyboardInterrupt:
        if watch.last is None:
            raise
        return watch.last, True
    watch.finish(explanation)
    return explanation, False


def finish(
    explanation: Explanation,
    writes: list[Write],
    as_json: bool,
    interrupted: bool,
    verbose: bool = False,
) -> None:
    """Writes and shows a result, and ends as Ctrl-C does if that interrupted its refinement.

    Where a file cannot be written, the whole result is printed as JSON, and nothing is lost.
    """
    from slalom_xai.errors import InputError
    from slalom_xai.explanation.saving import scores_to_dict

    saved, problems = write_all(writes)
    is_saved = any(option == "--out" and path in saved for option, path, _ in writes)
    if as_json or (problems and not is_saved):
        echo_json({**explanation.to_dict(), **scores_to_dict(explanation)})
    else:
        _show(explanation, saved, verbose)
    if problems and is_saved:
        raise InputError("; ".join(problems))
    if problems:
        raise InputError("; ".join(problems) + "; the result is on standard output, as JSON")
    if interrupted:
        typer.echo(f"This is the result of the first {explanation.calls} calls.", err=True)
        raise KeyboardInterrupt


def _show(explanation: Explanation, saved: list[Path], verbose: bool) -> None:
    from rich.console import Console

    from slalom_xai.reports.terminal import render

    console = Console(highlight=False)
    console.print(render(explanation, verbose=verbose))
    for path in saved:
        console.print(f"Saved: {path}", markup=False, soft_wrap=True)
