"""The command ``slalom bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom_xai.errors import InputError
from slalom_xai.system.interrupts import leaving_at_once

_EPILOG = """\
Examples:

    slalom bench --data reviews.csv --out results

    slalom bench --model my-classifier --data reviews.csv --methods slalom,lime,attn-lrp --metrics fidelity,deletion --texts 50 --out results

    slalom bench --data marked.jsonl --rationale marks --metrics human --methods slalom,kernel-shap --truncation --out human
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("bench", epilog=_EPILOG)(_bench)


def _bench(
    data: Annotated[
        Path,
        typer.Option(
            help="CSV, TSV, JSON lines or Parquet with a text in each row.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the results; a second run continues where the first stopped.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub id of a classifier. Default: the embedded movie-review model.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas; see `slalom methods`.")
    ] = "slalom,linear",
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas; see `slalom metrics`.")
    ] = "fidelity,deletion,insertion,cost",
    texts: Annotated[int, typer.Option(help="How many texts to draw; 0 takes all.")] = 100,
    budget: Annotated[
        int,
        typer.Option(help="Most model calls for each explanation; 0 chooses by the text's length."),
    ] = 1000,
    text: Annotated[str, typer.Option(help="Column of the texts.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the classes in --corpus.")] = "label",
    rationale: Annotated[
        str | None,
        typer.Option(help="Column of people's marks, one for each word.", show_default=False),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(
            help="Column of the marked words. Default: the text, split at white space.",
            show_default=False,
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option(
            help="How many annotators must mark a word for it to count.", show_default=False
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Table of texts and classes, for naive-bayes.", show_default=False),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Score that ranks units. Default: each method's own.", show_default=False
        ),
    ] = None,
    granularity: Annotated[
        str, typer.Option(help="What gets a score: token, type, word, phrase or sentence.")
    ] = "token",
    removal: Annotated[
        str,
        typer.Option(
            help="How to leave out a unit: delete it, or put the mask or unk token in its place."
        ),
    ] = "delete",
    truncation: Annotated[
        bool, typer.Option("--truncation", help="Explain the beginning of texts that are too long.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed for drawing the texts and for the methods.")] = 0,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where to run, such as cpu or cuda. Default: a GPU if there is one.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Precision, such as bfloat16. Default: as saved, float32 on a CPU.",
            show_default=False,
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again what failed in an earlier run.")
    ] = False,
    part: Annotated[
        str | None,
        typer.Option(
            help="Work on one share of the texts, such as 2/4: several processes fill one folder.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Compares explanation methods on many texts: a summary here; a table with intervals, a tidy file and figures in the folder."""
    with leaving_at_once():
        from slalom_xai.bench import BenchOptions, bench, summary

    options = BenchOptions(
        methods=_names(methods),
        metrics=_names(metrics),
        texts=texts or None,
        budget=budget or None,
        text=text,
        label=label,
        rationale=rationale,
        words=words,
        at_least=at_least,
        corpus=corpus,
        score=score,
        granularity=granularity,
        removal=removal,
        truncation=truncation,
        seed=seed,
        retry=retry,
        part=_part(part),
    )
    try:
        frame = bench(
            model,
            data,
            out,
            options,
            device=device,
            dtype=dtype,
            tell=lambda line: typer.echo(line, err=True),
        )
    except KeyboardInterrupt:
        typer.echo(
            f"what was finished is in {out}: run the same command again to continue", err=True
        )
        raise
    if as_json:
        typer.echo(frame.to_json(orient="records"))
        return
    if part is not None:
        typer.echo(
            f"Part {part} is in {out}: when all parts are done, run the command without --part to make the tables"
        )
        return
    typer.echo(summary(frame))
    typer.echo(
        f"Saved: {out / 'table.md'} (all numbers with intervals), {out / 'results.csv'}, {out / 'figures'}"
    )
    if frame["value"].isna().all():
        typer.echo(
            f"error: nothing could be measured: see the column 'why' of {out / 'results.csv'}",
            err=True,
        )
        raise typer.Exit(1)


def _names(given: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",") if name.strip())


def _part(given: str | None) -> tuple[int, int] | None:
    if given is None:
        return None
    part, _, parts = given.partition("/")
    if not (part.isdecimal() and parts.isdecimal()):
        raise InputError(
            f"--part is {given!r}: give the number of the part and how many parts there are, such as 2/4"
        )
    return int(part), int(parts)
