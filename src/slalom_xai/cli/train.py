"""The command ``slalom train``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import (
    TextField,
    argument,
    names,
    switch,
    without_default,
)
from slalom_xai.cli.output import echo_json
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
_LabelField = Annotated[str, typer.Option(help="Column of the classes: names or whole numbers.")]
_PairField = Annotated[
    str | None, without_default("Column of the second texts, for a model of pairs.")
]
_Labels = Annotated[
    str | None,
    without_default("Names for numbered classes, or the order of named ones, such as bad,good."),
]
_Validation = Annotated[
    Path | None,
    without_default("Table to choose the best epoch on. Default: a part of the training table."),
]
_Holdout = Annotated[
    float | None, without_default("Share of each class kept for validation. Default: 0.1.")
]
_Test = Annotated[
    Path | None, without_default("Table to test the saved model on, once, at the end.")
]
_Init = Annotated[
    str | None,
    without_default("Folder or hub id of the model to start from. Default: from scratch."),
]
_Revision = Annotated[str | None, without_default("Branch, tag or commit of --init.")]
_Size = Annotated[
    str | None,
    without_default(
        "From scratch: tiny (2 layers × 128), small (4 × 256) or base (6 × 512). Default: tiny."
    ),
]
_Family = Annotated[
    str | None,
    without_default(
        "From scratch: bert or distilbert (encoders), or gpt2 (a decoder). Default: bert."
    ),
]
_Layers = Annotated[
    int | None,
    without_default(
        "Number of layers. With --init: keep only this many of the first ones. "
        "Default: by --size, or all."
    ),
]
_Width = Annotated[
    int | None,
    without_default("From scratch: size of a token's vector. Default: by --size."),
]
_Vocabulary = Annotated[
    int | None,
    without_default("From scratch: size of the vocabulary. Default: by --size."),
]
_Teacher = Annotated[
    str | None,
    without_default(
        "Folder or hub id of a classifier to learn from. It must have the same classes."
    ),
]
_Parts = Annotated[
    int | None,
    without_default("How many partial texts the teacher judges for each text. Default: 4."),
]
_Epochs = Annotated[
    int | None,
    without_default(
        "Passes over the texts. Default: 3 to fine-tune, 6 with a teacher, 10 from scratch."
    ),
]
_Rate = Annotated[
    float | None,
    without_default("Largest learning rate. Default: 5e-5 to fine-tune, by --size from scratch."),
]
_Batch = Annotated[
    int | None,
    without_default("Most texts in one batch. Default: by the number of texts."),
]
_Patience = Annotated[
    int | None,
    without_default(
        "Stop after this many epochs without a better validation accuracy. Default: 3."
    ),
]
_MaxLength = Annotated[
    int | None,
    without_default(
        "Most tokens to read of each text. Default: as many as the model reads, at most 512."
    ),
]
_Seed = Annotated[int, typer.Option(help="The same seed gives the same model on the same machine.")]
_Device = Annotated[
    str | None,
    without_default("Where to train, such as cpu or cuda. Default: a GPU if there is one."),
]
_TrustRemoteCode = Annotated[
    bool, switch("--trust-remote-code", "Let a hub model run its own code.")
]
_Half = Annotated[bool, switch("--half", "Store the weights as float16, in half the space.")]
_Overwrite = Annotated[
    bool, switch("--overwrite", "Replace the model of an earlier training in the folder.")
]
_AsJson = Annotated[bool, switch("--json", "Print the report as JSON.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("train", help=_HELP, epilog=_EPILOG)(_train)


def _train(
    table: _Table,
    out: _Out,
    text: TextField = "text",
    label: _LabelField = "label",
    pair: _PairField = None,
    labels: _Labels = None,
    validation: _Validation = None,
    holdout: _Holdout = None,
    test: _Test = None,
    init: _Init = None,
    revision: _Revision = None,
    trust_remote_code: _TrustRemoteCode = False,
    size: _Size = None,
    family: _Family = None,
    layers: _Layers = None,
    width: _Width = None,
    vocabulary: _Vocabulary = None,
    teacher: _Teacher = None,
    parts: _Parts = None,
    epochs: _Epochs = None,
    rate: _Rate = None,
    batch: _Batch = None,
    patience: _Patience = None,
    max_length: _MaxLength = None,
    seed: _Seed = 0,
    device: _Device = None,
    half: _Half = False,
    overwrite: _Overwrite = False,
    as_json: _AsJson = False,
) -> None:
    """The command; ``_HELP`` says what it does."""
    with exit_on_interrupt():
        from slalom_xai.data.training import TrainingOptions, train

    options = TrainingOptions(
        text=text, label=label, pair=pair,
        labels=None if labels is None else names(labels),
        validation=validation, holdout=holdout, test=test,
        init=init, revision=revision, trust_remote_code=trust_remote_code,
        size=size, family=family, layers=layers, width=width, vocabulary=vocabulary,
        teacher=teacher, parts=parts,
        epochs=epochs, rate=rate, batch=batch, patience=patience, max_length=max_length,
        seed=seed, device=device, half=half, overwrite=overwrite,
    )  # fmt: skip
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
