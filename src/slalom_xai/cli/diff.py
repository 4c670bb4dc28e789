"""The command ``slalom diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import (
    AsJson,
    Offer,
    TextField,
    argument,
    spread_options,
    without_default,
)
from slalom_xai.cli.output import echo_json, write_all
from slalom_xai.options import ExplainOptions
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from slalom_xai.data.diff import DiffPlan

_HELP = "Compares two models on the same texts: which words and which texts changed."
_EPILOG = """\
Examples:

    slalom diff ./classifier-v1 ./classifier-v2 --data reviews.csv --out diff

    slalom diff ./v1 ./v2 --data reviews.parquet --text review --id review_id
        --granularity word --budget 300 --fdr 0.01 --out diff

A run that was stopped resumes where it stopped with the same command.
"""

_Before = Annotated[str, argument("Folder or hub id of the first classifier, or embedded.")]
_After = Annotated[str, argument("Folder or hub id of the second classifier, or embedded.")]
_Data = Annotated[
    Path,
    without_default(
        "CSV, TSV, JSON lines or Parquet; a folder of such files; or a data set saved with "
        "save_to_disk."
    ),
]
_Out = Annotated[Path, without_default("Folder for the results.")]
_IdField = Annotated[
    str | None, without_default("Column that names each row. Default: rows are numbered.")
]
_Rate = Annotated[
    float, typer.Option("--fdr", help="Share of false finds among the words called changed.")
]
_Least = Annotated[int, typer.Option(help="Texts that a word must stand in.", min=1)]
_Workers = Annotated[
    int | None, without_default("How many processes. Default: one for each GPU, or one.")
]

_Options = Annotated[
    ExplainOptions, Offer(without=("method", "model", "tokenizer", "labels", "revision"))
]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("diff", help=_HELP, epilog=_EPILOG)(spread_options(_diff))


def _diff(
    *,
    before: _Before,
    after: _After,
    data: _Data,
    out: _Out,
    text: TextField = "text",
    id: _IdField = None,
    fdr: _Rate = 0.05,
    least: _Least = 2,
    options: _Options,
    workers: _Workers = None,
    as_json: AsJson = False,
) -> int:
    with exit_on_interrupt():
        from rich.console import Console

        from slalom_xai.data.corpus.source import CorpusFields
        from slalom_xai.data.diff import diff_models
        from slalom_xai.data.diff.report import (
            as_data,
            draw_diff,
            render,
            write_json,
            write_markdown,
        )

    try:
        found = diff_models(
            options.replace(model=before),
            options.replace(model=after),
            data,
            out,
            fields=CorpusFields(text, id),
            rate=fdr,
            least=least,
            workers=workers,
            on_plan=_tell,
        )
    except KeyboardInterrupt:
        typer.echo(f"What is finished is in {out}; the same command goes on.", err=True)
        raise
    written, problems = write_all(
        [
            ("--out", out / "diff.json", lambda path: write_json(found, path)),
            ("--out", out / "diff.md", lambda path: write_markdown(found, path)),
            ("--out", out / "diff.svg", lambda path: draw_diff(found, path)),
        ]
    )
    if as_json:
        echo_json(as_data(found))
    else:
        Console(highlight=False).print(render(found))
        for path in written:
            typer.echo(f"Saved: {path}")
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)
    return 1 if problems else 0


def _tell(plan: DiffPlan) -> None:
    typer.echo(
        f"{plan.texts:,} texts: up to about {plan.calls:,} calls to each of the two models.",
        err=True,
    )
