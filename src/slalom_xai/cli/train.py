"""The command ``slalom train``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.output import echo_json
from slalom_xai.system.interrupts import STATUS, leaving_at_once

if TYPE_CHECKING:
    from slalom_xai.training import Score, TrainingReport

_EPILOG = """\
Examples:

    slalom train reviews.csv --out my-classifier

    slalom train reviews.csv --init distilbert/distilbert-base-uncased --test test.csv --out fine-tuned

    slalom train reviews.csv --teacher fine-tuned --size tiny --half --out small

    slalom explain --model my-classifier "A slow start, but a wonderful film."
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("train", epilog=_EPILOG)(_train)


def _train(
    table: Annotated[
        Path,
        typer.Argument(
            help="CSV, TSV, JSON lines or Parquet with a text and a class in each row.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to save the model in.", show_default=False)],
    text: Annotated[str, typer.Option(help="Column of the texts.")] = "text",
    label: Annotated[
        str, typer.Option(help="Column of the classes: names or whole numbers.")
    ] = "label",
    pair: Annotated[
        str | None,
        typer.Option(help="Column of the second texts, for a model of pairs.", show_default=False),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Names for numbered classes, or the order of named ones, such as bad,good.",
            show_default=False,
        ),
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(
            help="Table to choose the best epoch on. Default: a part of the training table.",
            show_default=False,
        ),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Share of each class kept for validation. Default: 0.1.", show_default=False
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Table to test the saved model on, once, at the end.", show_default=False
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub id of the model to start from. Default: from scratch.",
            show_default=False,
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of --init.", show_default=False)
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let a hub model run its own code.")
    ] = False,
    size: Annotated[
        str | None,
        typer.Option(
            help="From scratch: tiny (2 layers × 128), small (4 × 256) or base (6 × 512). Default: tiny.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="From scratch: bert (an encoder) or gpt2 (a decoder). Default: bert.",
            show_default=False,
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(
            help="Number of layers. With --init: keep only this many of the first ones. Default: by --size, or all.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            help="From scratch: size of a token's vector. Default: by --size.", show_default=False
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="From scratch: size of the vocabulary. Default: by --size.", show_default=False
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub id of a classifier to learn from. It must have the same classes.",
            show_default=False,
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            help="How many partial texts the teacher judges for each text. Default: 4.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Passes over the texts. Default: 3 to fine-tune, 6 with a teacher, 10 from scratch.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Largest learning rate. Default: 5e-5 to fine-tune, by --size from scratch.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Most texts in one batch. Default: by the number of texts.", show_default=False
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many epochs without a better validation accuracy. Default: 3.",
            show_default=False,
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Most tokens to read of each text. Default: as many as the model reads, at most 512.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same model on the same machine.")
    ] = 0,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where to train, such as cpu or cuda. Default: a GPU if there is one.",
            show_default=False,
        ),
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Store the weights as float16, in half the space.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace the model of an earlier training in the folder."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Trains a text classifier on a table, from scratch, from a pretrained model or from a teacher."""
    with leaving_at_once():
        from slalom_xai.training import TrainingOptions, train

    options = TrainingOptions(
        text=text,
        label=label,
        pair=pair,
        labels=None if labels is None else tuple(name.strip() for name in labels.split(",")),
        validation=validation,
        holdout=holdout,
        test=test,
        init=init,
        revision=revision,
        trust_remote_code=trust_remote_code,
        size=size,
        family=family,
        layers=layers,
        width=width,
        vocabulary=vocabulary,
        teacher=teacher,
        parts=parts,
        epochs=epochs,
        rate=rate,
        batch=batch,
        patience=patience,
        max_length=max_length,
        seed=seed,
        device=device,
        half=half,
        overwrite=overwrite,
    )
    report = train(table, out, options, tell=lambda line: typer.echo(line, err=True))
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
    names = ", ".join(report.labels[:8]) + (", ..." if len(report.labels) > 8 else "")
    lines = [
        f"{report.parameters:,} parameters, {len(report.labels)} classes ({names}), {report.rows:,} training texts, {report.seconds:.0f} s",
        f"validation: {_score(report.validation)}, epoch {report.best_epoch} of {len(report.history)}",
    ]
    if report.test is not None:
        lines.append(f"test: {_score(report.test)}")
    lines += [f"Saved: {report.folder}", f'Next: slalom explain --model {report.folder} "..."']
    return "\n".join(lines)


def _score(score: Score) -> str:
    return f"accuracy {score.accuracy:.4f}, mean confidence {score.confidence:.4f}, {score.rows:,} texts"
