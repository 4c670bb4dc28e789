"""The command ``slalom corpus``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.api import (
    Api,
)
from slalom_xai.cli.options import (
    AsJson,
    Shards,
    TextField,
    argument,
    spread_options,
    switch,
    without_default,
)
from slalom_xai.cli.output import echo_json
from slalom_xai.options import ExplainOptions
from slalom_xai.system.interrupts import exit_on_interrupt
from slalom_xai.system.shards import Shard

if TYPE_CHECKING:
    from slalom_xai.data.corpus import Summary

_HELP = (
    "Explains every text of a table into a folder of Parquet files; "
    "a run that was stopped resumes where it stopped."
)
_EPILOG = """\
Examples:

    slalom corpus reviews.csv --out explanations

    slalom corpus reviews.parquet --text review --id review_id --model ./my-classifier
        --granularity word --budget 300 --out explanations

    slalom corpus reviews.csv --out explanations --retry    (texts that failed are tried again)

    slalom corpus reviews.csv --out explanations --workers 4    (four processes of this machine)

    slalom corpus reviews.csv --out explanations --engine ray --workers 2

    slalom corpus reviews.csv --out explanations --granularity sentence --max-calls 5000
        --api http://localhost:8000/v1 --api-model NAME --label negative=0 --label positive=1

    slalom corpus reviews.csv --out /shared/explanations --shard 3/16    (one of sixteen jobs)

    python -c "import pandas; print(pandas.read_parquet('explanations/parts'))"
"""

_Table = Annotated[
    Path,
    argument(
        "CSV, TSV, JSON lines or Parquet; a folder of such files; or a data set saved with "
        "save_to_disk."
    ),
]
_Out = Annotated[
    Path, without_default("Folder for the results; a second run continues where the first stopped.")
]
_IdField = Annotated[
    str | None, without_default("Column that names each row. Default: rows are numbered.")
]
_PairField = Annotated[
    str | None, without_default("Column of the second texts, for a model of sentence pairs.")
]
_Engine = Annotated[str, typer.Option(help="Who explains: local (this machine) or ray.")]
_Workers = Annotated[
    int | None, without_default("How many processes or actors. Default: one for each GPU, or one.")
]
_RayAddress = Annotated[
    str | None,
    without_default("Address of a Ray cluster. Default: one on this machine, for this run."),
]
_Retry = Annotated[bool, switch("--retry", "Try texts again that failed.")]
_PartTexts = Annotated[
    int, typer.Option(help="Texts of a part at most: what a kill can cost.", min=1)
]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("corpus", help=_HELP, epilog=_EPILOG)(spread_options(_corpus))


def _corpus(
    *,
    table: _Table,
    out: _Out,
    text: TextField = "text",
    id: _IdField = None,
    pair: _PairField = None,
    options: ExplainOptions,
    engine: _Engine = "local",
    workers: _Workers = None,
    ray_address: _RayAddress = None,
    shard: Shards = "1/1",
    retry: _Retry = False,
    part_texts: _PartTexts = 1000,
    as_json: AsJson = False,
    behind: Api,
) -> int:
    behind.check(options.model)
    with exit_on_interrupt():
        from slalom_xai.data.corpus import explain_corpus
        from slalom_xai.data.corpus.engines import Engine
        from slalom_xai.data.corpus.source import CorpusFields
        from slalom_xai.data.corpus.staging import PartSize

    options = options.replace(remote=behind.remote_options())
    try:
        summary = explain_corpus(
            table,
            out,
            options,
            fields=CorpusFields(text, id, pair),
            engine=Engine(engine, workers, ray_address),
            shard=Shard.read(shard),
            retry=retry,
            size=PartSize(texts=part_texts),
            agree=None if behind.api is None else partial(_agree, behind, options, out),
        )
    except KeyboardInterrupt:
        typer.echo(f"What is finished is in {out}; the same command goes on.", err=True)
        raise
    finally:
        _show_spending(options, out)
    if as_json:
        echo_json(asdict(summary))
    else:
        _show(summary)
    return 1 if summary.failed else 0


def _agree(
    behind: Api, options: ExplainOptions, out: Path, texts: int, some: Sequence[str]
) -> None:
    """Says what a model behind an API may cost, and asks whether to begin."""
    assert options.remote is not None  # asked of such models only
    explainer = options.load_for_table()
    behind.agree_to_many(explainer, options.remote.classifier(_ledger(out)), texts, some)


def _show_spending(options: ExplainOptions, out: Path) -> None:
    """Says what a model behind an API has cost in all runs, also where something failed."""
    if options.remote is not None and _ledger(out).is_file():
        spent = options.remote.spending(_ledger(out))
        typer.echo(f"Asked {options.remote.model} in all runs: {spent}.", err=True)


def _ledger(out: Path) -> Path:
    from slalom_xai.data.corpus.folder import CorpusFolder

    return CorpusFolder(out).ledger


def _show(summary: Summary) -> None:
    """Says what is in the folder, and what is not."""
    rate = summary.texts_now / max(summary.seconds, 1e-9)
    typer.echo(
        f"{summary.explained:,} of {summary.texts:,} texts are explained in "
        f"{summary.folder}/parts ({summary.parts_done} of {summary.parts} parts)."
    )
    if summary.texts_now:
        typer.echo(
            f"This run: {summary.texts_now:,} texts, {summary.calls_now:,} model calls, "
            f"{summary.seconds:.0f} s, {rate:.1f} texts a second."
        )
    if summary.failed:
        typer.echo(
            f"{summary.failed:,} texts failed: {summary.folder}/errors.jsonl says why; "
            "--retry tries them again.",
            err=True,
        )
