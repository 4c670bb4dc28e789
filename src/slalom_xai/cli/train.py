"""The command ``slalom train``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import argument, spread_options, switch, without_default
from slalom_xai.cli.output import echo_json
from slalom_xai.data.training.options import TrainingOptions
from slalom_xai.system.interrupts import STATUS, exit_on_interrupt

if TYPE_CHECKING:
    from slalom_xai.data.training import Score, TrainingReport

_HELP = (
    "Trains a text classifier on a table, from scratch, from a pretrained model or from a teacher."
)
_EPILOG = """\
Examples:

    slalom train reviews.csv --out my-classifier

    slalom train reviews.csv --init distilbert/distilbert-base-uncased \
--test test.csv --out fine-tuned

    slalom train reviews.csv --teacher fine-tuned --size tiny --half --out small

    slalom explain --model my-classifier "A slow start, but a wonderful film."
"""


_SHOWN_CLASSES = 8  # names of classes in the summary, at most

_Table = Annotated[
    Path,
    argument("CSV, TSV, JSON lines or Parquet with a text and a class in each row."),
]
_Out = Annotated[Path, without_default("Folder to save the model in.")]
_AsJson = Annotated[bool, switch("--json", "Print the report as JSON.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("train", help=_HELP, epilog=_EPILOG)(spread_options(_train))


def _train(
    *,
    table: _Table,
    out: _Out,
    options: TrainingOptions,
    as_json: _AsJson = False,
) -> None:
    """The command; ``_HELP`` says what it does."""
    with exit_on_interrupt():
        from slalom_xai.data.training import train

    _finish(train(table, out, options, tell=lambda line: typer.echo(line, err=True)), as_json)


def _finish(report: TrainingReport, as_json: bool) -> None:
    """Prints what came of it; an interrupted training ends like any interrupted command."""
    if as_json:
        echo_json(report.to_dict())
    else:
        typer.echo(_summary(report))
    if report.interrupted:
        typer.echo(
            f"interrupted; what was learned until then is saved in {report.folder}", err=True
        )
        sys.exit(STATUS)


def _summary(report: TrainingReport) -> str:
    """What happened and what can be done next, for a person."""
    shown = ", ".join(report.labels[:_SHOWN_CLASSES])
    if len(report.labels) > _SHOWN_CLASSES:
        shown += ", ..."
    lines = [
        f"{report.parameters:,} parameters, {len(report.labels)} classes ({shown}), "
        f"{report.rows:,} training texts, {report.seconds:.0f} s",
        f"validation: {_score(report.validation)}, "
        f"epoch {report.best_epoch} of {len(report.history)}",
    ]
    if report.test is not None:
        lines.append(f"test: {_score(report.test)}")
    lines.append(f"Saved: {report.folder}")
    lines.append(f'Next: slalom explain --model {report.folder} "..."')
    return "\n".join(lines)


def _score(score: Score) -> str:
    return (
        f"accuracy {score.accuracy:.4f}, mean confidence {score.confidence:.4f}, "
        f"{score.rows:,} texts"
    )
