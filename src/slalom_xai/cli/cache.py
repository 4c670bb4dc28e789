"""The command ``slalom cache``, and what other commands say about the cache they used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import AsJson, switch, without_default
from slalom_xai.cli.output import echo_json
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from slalom_xai.queries.cache import KeptAnswers

_EPILOG = """\
Examples:

    slalom cache

    slalom cache --folder answers --json

    slalom cache --clear
"""

_Folder = Annotated[Path | None, without_default("Folder of the cache. Default: your own.")]
_Clear = Annotated[bool, switch("--clear", "Remove all answers from it.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("cache", epilog=_EPILOG)(_cache)


def _cache(folder: _Folder = None, clear: _Clear = False, as_json: AsJson = False) -> None:
    """Shows where models' answers are kept on disk and how many there are, or removes them."""
    with exit_on_interrupt():
        from slalom_xai.queries.cache import AnswerCache

    cache = AnswerCache(folder)
    removed = cache.clear() if clear else None
    info = cache.info()
    if as_json:
        numbers = {"answers": info.answers, "bytes": info.bytes, "most_bytes": info.most_bytes}
        echo_json({"path": str(info.path), **numbers, "removed": removed})
        return
    if removed is not None:
        typer.echo(f"Removed {removed:,} answers.")
    typer.echo(
        f"{info.path}: {info.answers:,} answers, {info.bytes / 1e6:,.1f} MB of at most "
        f"{info.most_bytes / 1e6:,.0f} MB"
    )


def report_cache(cache: KeptAnswers) -> None:
    """Says on standard error how many answers came from a cache, and what went wrong with it."""
    looked_for = cache.hits + cache.misses
    typer.echo(
        f"Cache: {cache.hits:,} of {looked_for:,} answers were there ({cache.path})", err=True
    )
    for problem in cache.problems():
        typer.echo(f"warning: {problem}", err=True)
