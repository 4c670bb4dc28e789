"""The command ``slalom explain``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.figure import check_figure, draw_figure
from slalom_xai.cli.output import Write, check_writable, echo_json, write_all
from slalom_xai.system.interrupts import leaving_at_once

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

_EPILOG = """\
Examples:

    slalom explain "A warm, funny film with one weak scene."

    slalom explain --file review.txt --out explanation.json

    cat review.txt | slalom explain - --model ./my-classifier --json > explanation.json

    slalom explain "It rains." --pair "The street is wet." --model ./my-pair-classifier

    slalom explain -- "-- a text that starts with a dash"
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("explain", epilog=_EPILOG)(_explain)


def _explain(
    text: Annotated[
        str | None,
        typer.Argument(help="The text to explain, or - for standard input.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Read the text from this file.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub id of a classifier. Default: the embedded movie-review model.",
            show_default=False,
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Folder or hub id of its tokenizer. Default: the model's own.", show_default=False
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(help="The second text, for a model of sentence pairs.", show_default=False),
    ] = None,
    method: Annotated[str, typer.Option(help="How to explain; see `slalom methods`.")] = "slalom",
    budget: Annotated[
        int | None,
        typer.Option(
            help="Most model calls to use. Default: chosen by the text's length.",
            show_default=False,
        ),
    ] = None,
    granularity: Annotated[
        str, typer.Option(help="What gets a score: token, type, word, phrase or sentence.")
    ] = "token",
    target: Annotated[
        str | None, typer.Option(help="Label or index of the class to explain.", show_default=False)
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Names for classes that a model only numbers, such as negative,positive.",
            show_default=False,
        ),
    ] = None,
    removal: Annotated[
        str,
        typer.Option(
            help="How to leave out a unit: delete it, or put the mask or unk token in its place."
        ),
    ] = "delete",
    truncation: Annotated[
        bool, typer.Option("--truncation", help="Explain the beginning of a text that is too long.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same explanation.")] = 0,
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
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of a hub id.", show_default=False)
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let a hub model run its own code.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Save the explanation as JSON here.", show_default=False)
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Save a figure here, as .svg, .pdf or .png.", show_default=False),
    ] = None,
    kind: Annotated[str, typer.Option(help="Kind of figure: scatter, text or bars.")] = "scatter",
    html: Annotated[
        Path | None,
        typer.Option(help="Save the interactive view as a web page here.", show_default=False),
    ] = None,
) -> None:
    """Shows why a classifier judges a text as it does."""
    given = _text(text, file)
    check_writable("--out", out)
    check_writable("--html", html)
    if figure is not None:
        with leaving_at_once():
            check_figure("--figure", figure, kind)
    with leaving_at_once():  # most of the waiting before the first call is imports
        from slalom_xai.explainer import Explainer

        explainer = Explainer(
            model,
            tokenizer,
            method=method,
            budget=budget,
            granularity=granularity,
            target=target,
            labels=None if labels is None else [label.strip() for label in labels.split(",")],
            removal=removal,
            truncation=truncation,
            random_state=seed,
            device=device,
            dtype=dtype,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )
    explanation = explainer(given, pair)
    writes: list[Write] = [("--out", out, explanation.save)] if out is not None else []
    if html is not None:
        writes.append(("--html", html, explanation.to_html))
    if figure is not None:
        writes.append(("--figure", figure, partial(draw_figure, [explanation], kind)))
    _finish(explanation, writes, as_json)


def _text(text: str | None, file: Path | None) -> str:
    """The text from the argument, a file or standard input."""
    from slalom_xai.errors import InputError

    if (text is None) == (file is None):
        raise InputError(
            "give the text as an argument, or --file PATH, or - for standard input"
            + (", but only one of them" if text else "")
        )
    if file is None and text != "-":
        return text or ""
    try:
        if file is None and sys.stdin is None:
            raise InputError(
                "there is no standard input to read: pipe a text in, or give --file PATH"
            )
        raw = sys.stdin.buffer.read() if file is None else file.read_bytes()
        return raw.decode("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file or 'standard input'} is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error


def _finish(explanation: Explanation, writes: list[Write], as_json: bool) -> None:
    """Writes and shows a result. Where a file cannot be written, the whole result is printed as JSON and nothing is lost."""
    from slalom_xai.errors import InputError

    saved, problems = write_all(writes)
    kept = writes[0][1] in saved if writes and writes[0][0] == "--out" else False
    if as_json or (problems and not kept):
        echo_json(explanation.to_dict())
    else:
        _show(explanation, saved)
    if problems:
        where = "" if kept else "; the result is on standard output, as JSON"
        raise InputError("; ".join(problems) + where)


def _show(explanation: Explanation, saved: list[Path]) -> None:
    from rich.console import Console

    from slalom_xai.reports.terminal import render

    console = Console(highlight=False)
    console.print(render(explanation))
    for path in saved:
        console.print(f"Saved: {path}", markup=False, soft_wrap=True)
