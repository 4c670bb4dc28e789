"""The command ``slalom explain``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slalom_xai.cli.api import (
    Api,
    report_spending,
)
from slalom_xai.cli.cache import report_cache
from slalom_xai.cli.figure import check_figure, draw_figure
from slalom_xai.cli.one_text import Watch, explain_text, finish, read_text, somebody_watches
from slalom_xai.cli.options import (
    CacheFolder,
    UseCache,
    argument,
    cache_option,
    spread_options,
    switch,
    without_default,
)
from slalom_xai.cli.output import Write
from slalom_xai.options import ExplainOptions
from slalom_xai.system.files import check_writable
from slalom_xai.system.interrupts import exit_on_interrupt

_EPILOG = """\
Examples:

    slalom explain "A warm, funny film with one weak scene."

    slalom explain --file review.txt --out explanation.json

    cat review.txt | slalom explain - --model ./my-classifier --json > explanation.json

    slalom explain "It rains." --pair "The street is wet." --model ./my-pair-classifier

    slalom explain --file review.txt --granularity sentence --max-calls 100
        --api http://localhost:8000/v1 --api-model NAME --label negative=0 --label positive=1

    slalom explain -- "-- a text that starts with a dash"

    slalom explain --file review.txt --cache    (a second run finds the answers of the first)

    OMP_NUM_THREADS=1 slalom explain --file review.txt    (on a CPU, with one thread)
"""


_Text = Annotated[str | None, argument("The text to explain, or - for standard input.")]
_File = Annotated[Path | None, without_default("Read the text from this file.")]
_Pair = Annotated[str | None, without_default("The second text, for a model of sentence pairs.")]
_AsJson = Annotated[bool, switch("--json", "Print the explanation as JSON.")]
_Verbose = Annotated[
    bool, switch("--verbose", "Show every score with its error, and how the test went in numbers.")
]
_Out = Annotated[Path | None, without_default("Save the explanation as JSON here.")]
_Figure = Annotated[Path | None, without_default("Save a figure here, as .svg, .pdf or .png.")]
_Kind = Annotated[str, typer.Option(help="Kind of figure: scatter, text or bars.")]
_Html = Annotated[Path | None, without_default("Save the interactive view as a web page here.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("explain", epilog=_EPILOG)(spread_options(_explain))


def _explain(
    *,
    text: _Text = None,
    file: _File = None,
    pair: _Pair = None,
    options: ExplainOptions,
    cache: UseCache = None,
    cache_folder: CacheFolder = None,
    as_json: _AsJson = False,
    verbose: _Verbose = False,
    out: _Out = None,
    figure: _Figure = None,
    kind: _Kind = "scatter",
    html: _Html = None,
    behind: Api,
) -> None:
    """Shows why a classifier judges a text as it does."""
    given = _given_text(text, file)
    wanted_cache = cache_option(cache, cache_folder)
    behind.check(options.model)
    check_writable("--out", out)
    check_writable("--html", html)
    if figure is not None:
        with exit_on_interrupt():
            check_figure("--figure", figure, kind)
    watch = Watch() if somebody_watches() and not as_json else None
    with exit_on_interrupt():  # most of the waiting before the first call is imports
        remote = behind.classifier()
        on_round = None if watch is None else watch.on_round
        explainer = options.load(remote, on_round=on_round, cache=wanted_cache)
    if remote is not None:
        behind.agree(explainer, remote, given, pair)
    try:
        with report_spending(remote):
            explanation, interrupted = explain_text(partial(explainer, given, pair), watch)
    finally:
        if explainer.cache is not None:
            report_cache(explainer.cache)
    writes: list[Write] = []
    if out is not None:
        writes.append(("--out", out, explanation.save))
    if html is not None:
        writes.append(("--html", html, explanation.to_html))
    if figure is not None:
        writes.append(("--figure", figure, partial(draw_figure, [explanation], kind)))
    finish(explanation, writes, as_json, interrupted, verbose)


def _given_text(text: str | None, file: Path | None) -> str:
    """The text from the argument, a file or standard input."""
    from slalom_xai.errors import InputError

    if (text is None) == (file is None):
        advice = "give the text as an argument, or --file PATH, or - for standard input"
        if text:
            advice += ", but only one of them"
        raise InputError(advice)
    if text is not None and text != "-":
        return text
    return read_text(file)
