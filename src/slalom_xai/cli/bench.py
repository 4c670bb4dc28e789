"""The command ``slalom bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.options import (
    Offer,
    Shards,
    TextField,
    names,
    spread_options,
    switch,
    without_default,
)
from slalom_xai.errors import InputError
from slalom_xai.options import ExplainOptions
from slalom_xai.system.interrupts import exit_on_interrupt
from slalom_xai.system.shards import Shard

if TYPE_CHECKING:
    import pandas as pd

    from slalom_xai.metrics import AtLeast

_HELP = (
    "Compares explanation methods on many texts: "
    "a summary here; a table with intervals, a tidy file and figures in the folder."
)
_EPILOG = """\
Examples:

    slalom bench --data reviews.csv --out results

    slalom bench --model my-classifier --data reviews.csv --methods slalom,lime,attn-lrp \
--metrics fidelity,deletion --texts 50 --out results

    slalom bench --data marked.jsonl --rationale marks --metrics human \
--methods slalom,kernel-shap --truncation --out human
"""


_Data = Annotated[Path, without_default("CSV, TSV, JSON lines or Parquet with a text in each row.")]
_Out = Annotated[
    Path,
    without_default("Folder for the results; a second run continues where the first stopped."),
]
_Methods = Annotated[str, typer.Option(help="Methods, separated by commas; see `slalom methods`.")]
_Metrics = Annotated[str, typer.Option(help="Metrics, separated by commas; see `slalom metrics`.")]
_Texts = Annotated[int, typer.Option(help="How many texts to draw; 0 takes all.")]
_Budget = Annotated[
    int,
    typer.Option(help="Most model calls for each explanation; 0 chooses by the text's length."),
]
_LabelField = Annotated[
    str, typer.Option(help="Column of the classes in --corpus, and in --data if it has one.")
]
_RationaleField = Annotated[
    str | None, without_default("Column of people's marks, one for each word.")
]
_WordsField = Annotated[
    str | None,
    without_default("Column of the marked words. Default: the text, split at white space."),
]
_AtLeast = Annotated[
    str | None,
    without_default("How many annotators must mark a word for it to count: a number, or all."),
]
_Corpus = Annotated[Path | None, without_default("Table of texts and classes, for naive-bayes.")]
_Score = Annotated[
    str | None,
    without_default("Score that ranks units. Default: shapley; additive methods have one score."),
]
_Options = Annotated[
    ExplainOptions,
    Offer(
        only=("model", "granularity", "removal", "truncation", "seed", "device", "dtype"),
        help={"seed": "Seed for drawing the texts and for the methods."},
    ),
]
_Retry = Annotated[bool, switch("--retry", "Try again what failed in an earlier run.")]
_AsJson = Annotated[bool, switch("--json", "Print the results as JSON.")]


_SHARDS_ADVICE = "when all shards are done, run the command without --shard to make the tables"


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    old_name = {"token_normalize_func": lambda name: "shard" if name == "part" else name}
    app.command("bench", help=_HELP, epilog=_EPILOG, context_settings=old_name)(
        spread_options(_bench)
    )


def _bench(
    *,
    data: _Data,
    out: _Out,
    options: _Options,
    methods: _Methods = "slalom,linear",
    metrics: _Metrics = "fidelity,deletion,insertion,cost",
    texts: _Texts = 100,
    budget: _Budget = 1000,
    text: TextField = "text",
    label: _LabelField = "label",
    rationale: _RationaleField = None,
    words: _WordsField = None,
    at_least: _AtLeast = None,
    corpus: _Corpus = None,
    score: _Score = None,
    retry: _Retry = False,
    shard: Shards = "1/1",
    as_json: _AsJson = False,
) -> None:
    """The command; ``_HELP`` says what it does."""
    with exit_on_interrupt():
        from slalom_xai.data.bench import BenchOptions, bench

    plan = BenchOptions(
        methods=_split_names(methods),
        metrics=_split_names(metrics),
        texts=texts or None,
        budget=budget or None,
        text=text,
        label=label,
        rationale=rationale,
        words=words,
        at_least=_annotators(at_least),
        corpus=corpus,
        score=score,
        granularity=options.granularity,
        removal=options.removal,
        truncation=options.truncation,
        seed=options.seed,
        retry=retry,
        shard=Shard.read(shard),
    )
    try:
        frame = bench(
            options.model,
            data,
            out,
            plan,
            device=options.device,
            dtype=options.dtype,
            tell=_tell,
        )
    except KeyboardInterrupt:
        _tell(f"what was finished is in {out}: run the same command again to continue")
        raise
    if as_json:
        typer.echo(frame.to_json(orient="records"))
    elif plan.shard.count > 1:
        typer.echo(f"Shard {shard} is in {out}: {_SHARDS_ADVICE}")
    else:
        _finish(frame, out)


def _tell(line: str) -> None:
    """Says how far the work is; standard output is for results."""
    typer.echo(line, err=True)


def _finish(frame: pd.DataFrame, out: Path) -> None:
    """Prints a summary and what was saved.

    Raises:
        typer.Exit: nothing could be measured.
    """
    from slalom_xai.data.bench import summary

    typer.echo(summary(frame))
    typer.echo(
        f"Saved: {out / 'table.md'} (all numbers with intervals), "
        f"{out / 'results.csv'}, {out / 'figures'}"
    )
    if frame["value"].isna().all():
        _tell(f"error: nothing could be measured: see the column 'why' of {out / 'results.csv'}")
        raise typer.Exit(1)


def _split_names(given: str) -> tuple[str, ...]:
    """Names separated by commas, without empty ones."""
    return tuple(name for name in names(given) if name)


def _annotators(given: str | None) -> AtLeast | None:
    """How many annotators must mark a word, from such as 2, or all."""
    if given is None:
        return None
    if given == "all":
        return "all"
    try:
        return float(given)
    except ValueError as error:
        raise InputError(
            f"--at-least is {given!r}: give how many annotators must mark a word, such as 2, or all"
        ) from error
