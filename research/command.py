"""The command ``python -m research``: claims and experiments, run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom_xai.cli.command import run
from slalom_xai.cli.options import AsJson, Shards, argument, switch, without_default
from slalom_xai.cli.output import echo_json
from slalom_xai.system.interrupts import exit_on_interrupt
from slalom_xai.system.shards import Shard

if TYPE_CHECKING:
    from research.base import Outcome, Reproduction, Settings

_EPILOG = """\
Examples:

    python -m research --list

    python -m research repeated-token

    python -m research recovery shapley --out results

    python -m research claims --json > results.json

    python -m research all --data reviews --out results

    python -m research table-6 --out results

    python -m research table-6 --full --shard 2/8 --out results

    python -m research black-box --data data --api http://localhost:8000/v1 --api-model smollm2
"""


_Names = Annotated[
    list[str] | None,
    argument("Claims and experiments to run; claims, experiments: every one of these; all: both."),
]
_Listed = Annotated[bool, switch("--list", "List every claim and experiment that can be run.")]
_Out = Annotated[
    Path | None,
    without_default(
        "Folder for figures (SVG), tables (CSV, Markdown) and what experiments have finished: "
        "a second run continues where the first stopped."
    ),
]
_Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
_Full = Annotated[bool, switch("--full", "Run experiments at the paper's size; needs a GPU.")]
_Yes = Annotated[bool, switch("--yes", "Run --full without a GPU, too.")]
_Data = Annotated[
    Path | None, without_default("Folder with the real data that some experiments need.")
]
_Api = Annotated[
    str | None,
    without_default("Address of a server with a language model, which black-box needs."),
]
_ApiModel = Annotated[str | None, without_default("The name of the model on that server.")]
_ApiTop = Annotated[
    int,
    typer.Option(
        min=1,
        help="How many of the likeliest tokens the server should list; hosted ones list 20 at "
        "most, and llama.cpp's Python server as many as you like.",
    ),
]
_Finished = Annotated[
    bool, switch("--finished", "Measure nothing; show what is finished in --out.")
]


app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


_OLD_NAME = {"token_normalize_func": lambda name: "shard" if name == "share" else name}


@app.command(epilog=_EPILOG, context_settings=_OLD_NAME)
def reproduce(
    names: _Names = None,
    listed: _Listed = False,
    out: _Out = None,
    seed: _Seed = 0,
    full: _Full = False,
    yes: _Yes = False,
    data: _Data = None,
    shard: Shards = "1/1",
    finished: _Finished = False,
    api: _Api = None,
    api_model: _ApiModel = None,
    api_top: _ApiTop = 20,
    as_json: AsJson = False,
) -> None:
    """Runs the theorems behind the scores and the paper's experiments, and checks what they say."""
    from slalom_xai.errors import InputError, check_seed

    with exit_on_interrupt():
        from research.base import Settings
        from research.registry import chosen, everything
        from research.report import prepare

    if listed:
        _list(everything(), as_json)
        return
    if not names:
        raise InputError(
            "no claim was named: give a name, or claims for every claim; "
            "python -m research --list shows the names"
        )
    check_seed("--seed", seed, most=2**32 - 1)  # some claims make seeds of their own from it
    wanted = _without_servers(chosen(names), names, api)
    settings = Settings(
        seed=seed,
        full=full,
        data=data,
        shard=Shard.read(shard),
        finished=finished,
        api=api,
        api_model=api_model,
        api_top=api_top,
    )
    if out is None and (settings.shard.count > 1 or finished):
        given = "--finished" if finished else "--shard"
        raise InputError(f"{given} needs a folder that keeps what is finished: give --out FOLDER")
    _check(wanted, settings, yes)
    if out is not None:
        prepare(out)
    try:
        records = _run_all(wanted, out, settings, quiet=as_json)
    except KeyboardInterrupt:
        if out is not None:
            told = f"what was finished is in {out}: run the same command again to continue"
            typer.echo(told, err=True)
        raise
    if as_json:
        echo_json(records)
    # A theorem that does not hold is an error; an experiment that does not is a finding.
    if not all(record["holds"] or "verdict" in record for record in records):
        raise typer.Exit(1)


def _without_servers(
    wanted: list[Reproduction], names: list[str], api: str | None
) -> list[Reproduction]:
    """What can be run without a server, where none was given; what was named itself stays."""
    kept = []
    for one in wanted:
        if api is None and one.server and one.name not in names:
            typer.echo(f"{one.name} is left out: it needs a server, given by --api", err=True)
        else:
            kept.append(one)
    return kept


def _check(wanted: list[Reproduction], settings: Settings, yes: bool) -> None:
    """Refuses what could not be run, before anything is."""
    from slalom_xai.errors import InputError

    for one in wanted:
        if one.is_experiment:
            check_ready(one, settings, yes=yes)
        elif settings.full:
            raise InputError(
                f"--full is for experiments, but {one.name} has one size: leave --full out, or "
                "name experiments only"
            )
        elif settings.shard.count > 1 or settings.finished:
            raise InputError(
                f"--shard and --finished are for experiments, and {one.name} is a claim: "
                "leave them out"
            )


def check_ready(one: Reproduction, settings: Settings, *, yes: bool) -> None:
    """Refuses a run of an experiment that could not end well, before anything is computed.

    Args:
        one: what is to be run.
        settings: how.
        yes: run the full size without a GPU, too.

    Raises:
        InputError: a table or a column is missing, or the full size has no GPU.
    """
    from slalom_xai.errors import InputError
    from slalom_xai.models.load import choose_device

    if settings.finished:
        return  # nothing will be measured
    if one.server and (settings.api is None or settings.api_model is None):
        raise InputError(
            f"{one.name} asks a language model on a server, and none was named: give --api URL and "
            "--api-model NAME, as for slalom explain"
        )
    for needed in one.data:
        needed.table(one.name, settings.data)
    if settings.full and not yes and not one.server and choose_device(None).type == "cpu":
        raise InputError(
            f"{one.name} at full size takes about {one.hours:g} hours on two cores, "
            "and there is no GPU here: give --yes to start it, or leave --full out"
        )


def _run_all(
    wanted: list[Reproduction], out: Path | None, settings: Settings, *, quiet: bool
) -> list[dict[str, Any]]:
    """Runs one after the other; without a folder, what experiments share is kept until the end."""
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        kept = out or Path(temporary)
        records = [_run(one, out, kept, settings, quiet=quiet) for one in wanted]
        return [record for record in records if record is not None]


def _run(
    reproduction: Reproduction, out: Path | None, kept: Path, settings: Settings, *, quiet: bool
) -> dict[str, Any] | None:
    """Runs one claim, saves and prints what it gave, and returns it for programs.

    A shard of an experiment gives nothing yet: None.
    """
    import time
    from dataclasses import replace

    from research.cells import ShardDone, manifest
    from research.report import as_dict, save, save_record
    from slalom_xai.system.progress import progress_bar

    if reproduction.is_experiment:
        settings = replace(settings, store=kept / reproduction.study)
    started = time.perf_counter()
    try:
        with progress_bar(None) as bar:
            outcome = reproduction.run(replace(settings, bar=bar))
    except ShardDone as done:
        typer.echo(f"{reproduction.name}: {done}", err=True)
        return None
    seconds = time.perf_counter() - started
    files: list[Path] = []
    if out is not None:
        files = save(reproduction, outcome, out)
    record = as_dict(reproduction, outcome, time.perf_counter() - started, files)
    if reproduction.is_experiment:
        record["manifest"] = manifest(settings, seconds)
        if out is not None:
            record["files"].append(str(save_record(record, out)))
    if not quiet:
        _show(reproduction, outcome, record)
    return record


def _show(reproduction: Reproduction, outcome: Outcome, record: dict[str, Any]) -> None:
    """Prints the result of a claim for a person."""
    from research.report import markdown

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


def main() -> None:
    """Runs the command as ``slalom`` runs its own."""
    run(app, "python -m research")
