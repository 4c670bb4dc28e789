"""The command ``slalom reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom_xai.cli.output import echo_json
from slalom_xai.system.interrupts import leaving_at_once

if TYPE_CHECKING:
    from slalom_xai.theory import Reproduction

_EPILOG = """\
Examples:

    slalom reproduce --list

    slalom reproduce repeated-token

    slalom reproduce recovery shapley --out results

    slalom reproduce all --json > results.json
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("reproduce", epilog=_EPILOG)(_reproduce)


def _reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Claims to run, or all.", show_default=False)
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List every claim that can be run.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for figures (SVG) and tables (CSV, Markdown).", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Runs the theorems behind the scores and checks what they claim."""
    from slalom_xai.errors import InputError, check_seed

    with leaving_at_once():
        from slalom_xai.theory import chosen, reproductions
        from slalom_xai.theory.report import prepare

    if listed:
        _list(reproductions(), as_json)
        return
    if not names:
        raise InputError(
            "no claim was named: give a name, or all; slalom reproduce --list shows the names"
        )
    check_seed("--seed", seed, most=2**32 - 1)  # some claims make seeds of their own from it
    wanted = chosen(names)
    if out is not None:
        prepare(out)
    records = [_run(one, out, seed, quiet=as_json) for one in wanted]
    if as_json:
        echo_json(records)
    if not all(record["holds"] for record in records):
        raise typer.Exit(1)


def _run(found: Reproduction, out: Path | None, seed: int, *, quiet: bool) -> dict[str, Any]:
    import time

    from slalom_xai.progress import progress_bar
    from slalom_xai.theory import Settings
    from slalom_xai.theory.report import as_dict, markdown, save

    started = time.perf_counter()
    with progress_bar(None) as bar:
        outcome = found.run(Settings(seed=seed, bar=bar))
    files = save(found, outcome, out) if out is not None else []
    record = as_dict(found, outcome, time.perf_counter() - started, files)
    if not quiet:
        failed = sum(not check.holds for check in outcome.checks)
        verdict = (
            f"{failed} of {len(outcome.checks)} checks FAIL"
            if failed
            else f"All {len(outcome.checks)} checks hold"
        )
        typer.echo(markdown(found, outcome).replace("\\|", "|"))
        typer.echo(
            f"{verdict} ({record['seconds']:.1f} s)."
            + (f" Saved: {', '.join(map(str, files))}" if files else "")
            + "\n"
        )
    return record


def _list(known: dict[str, Reproduction], as_json: bool) -> None:
    if as_json:
        echo_json(
            [{"name": one.name, "title": one.title, "source": one.source} for one in known.values()]
        )
        return
    width = max(map(len, known), default=0)
    for one in known.values():
        typer.echo(f"{one.name:{width}}  {one.title} ({one.source})")
