"""The command ``slalom vocabulary``."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slalom_xai.cli.options import (
    AsJson,
    Offer,
    TextField,
    argument,
    names,
    spread_options,
    switch,
    without_default,
)
from slalom_xai.cli.output import Write, echo_json, write_all
from slalom_xai.options import ExplainOptions
from slalom_xai.system.files import check_writable
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from slalom_xai.data.vocabulary import Vocabulary, VocabularyPlan

_HELP = "Finds what every word is worth to a model, over many texts or for a list of words."
_EPILOG = """\
Examples:

    slalom vocabulary reviews.csv --out vocabulary.json --figure vocabulary.svg

    slalom vocabulary reviews.parquet --text review --model ./my-classifier --granularity word
        --items 2000 --out vocabulary.json

    slalom vocabulary --list words.txt --out words.json    (a word on each line)

    slalom vocabulary reviews.csv --list words.txt --out words.json    (these words, in texts)

    slalom vocabulary --show vocabulary.json --word film --word dull

    slalom vocabulary --show vocabulary.json --rows 50 --figure vocabulary.pdf
"""

_Table = Annotated[
    Path | None,
    argument(
        "CSV, TSV, JSON lines or Parquet; a folder of such files; or a data set saved with "
        "save_to_disk."
    ),
]
_List = Annotated[
    Path | None, without_default("Text file with the items, one on each line. Default: all.")
]
_Show = Annotated[Path | None, without_default("Read this vocabulary instead of building one.")]
_Word = Annotated[list[str] | None, without_default("Show this item; can be given several times.")]
_Out = Annotated[Path | None, without_default("Save the vocabulary as JSON here.")]
_Figure = Annotated[Path | None, without_default("Save a figure here, as .svg, .pdf or .png.")]
_Options = Annotated[
    ExplainOptions,
    Offer(
        without=("method", "budget", "removal"),
        usual={"granularity": "token"},
        help={"granularity": "What an item is: token or word."},
    ),
]
_Budget = Annotated[
    int | None, without_default("Most model calls in all. Default: about eleven for each item.")
]
_Items = Annotated[
    int, typer.Option(help="Most items; those that stand in most texts are kept.", min=2)
]
_Texts = Annotated[int, typer.Option(help="Most texts to read, drawn at random.", min=1)]
_Lengths = Annotated[
    str | None,
    without_default("Lengths of filled texts, such as 10,50. Default: typical of the texts."),
]
_Rows = Annotated[int, typer.Option(help="Items that are printed, the loudest first.", min=0)]
_Estimate = Annotated[bool, switch("--estimate", "Only say how many calls it will take.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("vocabulary", help=_HELP, epilog=_EPILOG)(spread_options(_vocabulary))


def _vocabulary(
    *,
    table: _Table = None,
    list: _List = None,
    show: _Show = None,
    word: _Word = None,
    out: _Out = None,
    figure: _Figure = None,
    text: TextField = "text",
    options: _Options,
    budget: _Budget = None,
    items: _Items = 50_000,
    texts: _Texts = 10_000,
    lengths: _Lengths = None,
    estimate: _Estimate = False,
    rows: _Rows = 20,
    as_json: AsJson = False,
) -> int:
    _check(table, list, show, out, figure)
    if show is not None:
        with exit_on_interrupt():
            from slalom_xai.data.vocabulary import Vocabulary

        return _finish(Vocabulary.load(show), None, figure, word or [], rows, as_json)
    with exit_on_interrupt():
        from slalom_xai.data.vocabulary.build import PlanOnly, build_from_files

        sizes = None if lengths is None else [_whole(part) for part in names(lengths)]

    def tell(plan: VocabularyPlan) -> None:
        _tell(plan, as_json and estimate)
        if estimate:
            raise PlanOnly

    try:
        found = build_from_files(
            options,
            table,
            list,
            field=text,
            most_texts=texts,
            most_items=items,
            lengths=sizes,
            budget=budget,
            on_plan=tell,
        )
    except PlanOnly:
        return 0
    return _finish(found, out, figure, word or [], rows, as_json)


def _whole(given: str) -> int:
    from slalom_xai.errors import InputError

    if not given.isdecimal() or int(given) < 1:
        raise InputError(
            f"--lengths has {given!r}: give whole numbers of at least 1, such as 10,50"
        )
    return int(given)


def _check(
    table: Path | None, words: Path | None, show: Path | None, out: Path | None, figure: Path | None
) -> None:
    """Refuses what cannot be done, before anything is computed."""
    from slalom_xai.errors import InputError

    if show is not None and (table is not None or words is not None or out is not None):
        raise InputError("--show reads a vocabulary: leave the table, --list and --out out")
    if show is None and table is None and words is None:
        raise InputError("there is nothing to read: give a table of texts, --list or --show")
    check_writable("--out", out)
    if figure is not None:
        from slalom_xai.cli.figure import check_figure

        with exit_on_interrupt():
            check_figure("--figure", figure, "scatter")


def _tell(plan: VocabularyPlan, as_json: bool) -> None:
    """Says what it will take, before the first call."""
    if as_json:
        echo_json({**asdict(plan), "calls": plan.calls})
        return
    typer.echo(
        f"{plan.items:,} items, {plan.texts:,} texts: {plan.calls:,} model calls "
        f"({plan.fills:,} for values, {plan.sequences:,} for short sequences, "
        f"{plan.deletions:,} for shortened texts).",
        err=True,
    )
    if plan.left_out:
        typer.echo(f"note: {plan.left_out:,} rarer items are left out (--items)", err=True)
    if plan.too_long:
        typer.echo(f"note: {plan.too_long:,} items have too many tokens; left out", err=True)
    for problem, count in plan.problems.items():
        typer.echo(f"note: {count:,} texts cannot be read: {problem}", err=True)


def _finish(
    vocabulary: Vocabulary,
    out: Path | None,
    figure: Path | None,
    words: list[str],
    rows: int,
    as_json: bool,
) -> int:
    """Writes the files and prints the items."""
    writes: list[Write] = []
    if out is not None:
        writes.append(("--out", out, vocabulary.save))
    if figure is not None:
        writes.append(("--figure", figure, partial(_draw, vocabulary, words)))
    written, problems = write_all(writes)
    chosen = [vocabulary.look_up(word) for word in words]  # what was computed is saved by now
    if not words:
        chosen = [vocabulary.item(index) for index in vocabulary.loudest(rows)]
    if as_json:
        echo_json([_finite(asdict(item)) for item in chosen])
    else:
        from rich.console import Console

        from slalom_xai.data.vocabulary.showing import render

        Console(highlight=False).print(render(vocabulary, chosen))
        for path in written:
            typer.echo(f"Saved: {path}")
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)
    return 1 if problems else 0


def _finite(cells: dict[str, Any]) -> dict[str, Any]:
    """Cells as JSON has them: what is not a number is null."""
    return {name: None if cell != cell else cell for name, cell in cells.items()}


def _draw(vocabulary: Vocabulary, words: list[str], path: Path) -> Path:
    from slalom_xai.reports.figures import save

    return save(vocabulary.plot(words=words), path)
