"""The command ``slalom reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom_xai.cli.options import AsJson, argument, switch, without_default
from slalom_xai.cli.output import echo_json
from slalom_xai.system.interrupts import leaving_at_once

if TYPE_CHECKING:
    from slalom_xai.theory import Outcome, Reproduction

_EPILOG = """\
Examples:

    slalom reproduce --list

    slalom reproduce repeated-token

    slalom reproduce recovery shapley --out results

    slalom reproduce all --json > results.json
"""


_Names = Annotated[list[str] | None, argument("Claims to run, or all.")]
_Listed = Annotated[bool, switch("--list", "List every claim that can be run.")]
_Out = Annotated[
    Path | None, without_default("Folder for figures (SVG) and tables (CSV, Markdown).")
]
_Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("reproduce", epilog=_EPILOG)(_reproduce)


def _reproduce(
    names: _Names = None,
    listed: _Listed = False,
    out: _Out = None,
    seed: _Seed = 0,
    as_json: AsJson = False,
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


def _run(reproduction: Reproduction, out: Path | None, seed: int, *, quiet: bool) -> dict[str, Any]:
    """Runs one claim, saves and prints what it gave, and returns it for programs."""
    import time

    from slalom_xai.progress import progress_bar
    from slalom_xai.theory import Settings
    from slalom_xai.theory.report import as_dict, save

    started = time.perf_counter()
    with progress_bar(None) as bar:
        outcome = reproduction.run(Settings(seed=seed, bar=bar))
    files: list[Path] = []
    if out is not None:
        files = save(reproduction, outcome, out)
    record = as_dict(reproduction, outcome, time.perf_counter() - started, files)
    if not quiet:
        _show(reproduction, outcome, record)
    return record


def _show(reproduction: Reproduction, outcome: Outcome, record: dict[str, Any]) -> None:
    """Prints the result of a claim for a person."""
    from slalom_xai.theory.report import markdown

    verdict = f"All {len(outcome.checks)} checks hold"
    failed = sum(not check.holds for check in outcome.checks)
    if failed:
        verdict = f"{failed} of {len(outcome.checks)} checks FAIL"
    last = f"{verdict} ({record['seconds']:.1f} s)."
    if record["files"]:
        last += f" Saved: {', '.join(record['files'])}"
    typer.echo(markdown(reproduction, outcome).replace("\\|", "|"))
    typer.echo(last + "\n")


def _list(known: dict[str, Reproduction], as_json: bool) -> None:
    if as_json:
        echo_json([_described(one) for one in known.values()])
        return
    width = max(map(len, known), default=0)
    for one in known.values():
        typer.echo(f"{one.name:{width}}  {one.title} ({one.source})")


def _described(one: Reproduction) -> dict[str, str]:
    return {"name": one.name, "title": one.title, "source": one.source}
