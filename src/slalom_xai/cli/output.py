"""What every command does with its results: nothing that was computed is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from slalom_xai.errors import SlalomError

Write = tuple[str, Path, Callable[[Path], Path]]  # option, path, and what writes it


def echo_json(data: Any) -> None:
    """Prints JSON that every encoding of standard output can hold: other characters are escaped."""
    typer.echo(json.dumps(data, ensure_ascii=True))


def echo_list(known: dict[str, str], as_json: bool) -> None:
    """Prints names and what they stand for."""
    if as_json:
        echo_json(known)
        return
    width = max(map(len, known))
    for name, summary in known.items():
        typer.echo(f"{name:{width}}  {summary}")


def write_all(writes: Sequence[Write]) -> tuple[list[Path], list[str]]:
    """Writes files, each whether or not another fails; gives those written and what went wrong.

    Args:
        writes: option, path and how to write it.
    """
    written, problems = [], []
    for option, path, write in writes:
        try:
            written.append(write(path))
        except SlalomError as error:
            problems.append(f"{option}: {error}")
        except OSError as error:
            problems.append(f"{option}: cannot write {path}: {error.strerror or error}")
    return written, problems
