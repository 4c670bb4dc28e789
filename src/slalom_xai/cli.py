"""The command line: ``slalom`` and its commands; the larger ones have a file of their own."""

from __future__ import annotations

import sys
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai import __version__, cli_bench, cli_figure, cli_report, cli_reproduce, cli_train
from slalom_xai.cli_output import Write, check_writable, echo_json, write_all
from slalom_xai.cli_words import for_command_line
from slalom_xai.interrupts import STATUS, leaving_at_once, sent_again

if TYPE_CHECKING:
    from slalom_xai.explanation import Explanation

app = typer.Typer(
    help="Explains text classifiers: a value and an importance for every token.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

_EXPLAIN_EPILOG = """\
Examples:

    slalom explain "A warm, funny film with one weak scene."

    slalom explain --file review.txt --out explanation.json

    cat review.txt | slalom explain - --model ./my-classifier --json > explanation.json

    slalom explain "It rains." --pair "The street is wet." --model ./my-pair-classifier

    slalom explain -- "-- a text that starts with a dash"
"""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"slalom-xai {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """Explains text classifiers: a value and an importance for every token."""


@app.command(epilog=_EXPLAIN_EPILOG)
def explain(
    text: Annotated[str | None, typer.Argument(help="The text to explain, or - for standard input.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(help="Read the text from this file.", show_default=False)] = None,
    model: Annotated[
        str | None, typer.Option(help="Folder or hub id of a classifier. Default: the embedded movie-review model.", show_default=False)
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder or hub id of its tokenizer. Default: the model's own.", show_default=False)
    ] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for a model of sentence pairs.", show_default=False)] = None,
    method: Annotated[str, typer.Option(help="How to explain; see `slalom methods`.")] = "slalom",
    budget: Annotated[
        int | None, typer.Option(help="Most model calls to use. Default: chosen by the text's length.", show_default=False)
    ] = None,
    granularity: Annotated[str, typer.Option(help="What gets a score: token, type, word, phrase or sentence.")] = "token",
    target: Annotated[str | None, typer.Option(help="Label or index of the class to explain.", show_default=False)] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Names for classes that a model only numbers, such as negative,positive.", show_default=False),
    ] = None,
    removal: Annotated[str, typer.Option(help="How to leave out a unit: delete it, or put the mask or unk token in its place.")] = "delete",
    truncation: Annotated[bool, typer.Option("--truncation", help="Explain the beginning of a text that is too long.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same explanation.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="Where to run, such as cpu or cuda. Default: a GPU if there is one.", show_default=False)
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Precision, such as bfloat16. Default: as saved, float32 on a CPU.", show_default=False)
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.", show_default=False)] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Let a hub model run its own code.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Save the explanation as JSON here.", show_default=False)] = None,
    figure: Annotated[Path | None, typer.Option(help="Save a figure here, as .svg, .pdf or .png.", show_default=False)] = None,
    kind: Annotated[str, typer.Option(help="Kind of figure: scatter, text or bars.")] = "scatter",
    html: Annotated[Path | None, typer.Option(help="Save the interactive view as a web page here.", show_default=False)] = None,
) -> None:
    """Shows why a classifier judges a text as it does."""
    given = _text(text, file)
    check_writable("--out", out)
    check_writable("--html", html)
    if figure is not None:
        with leaving_at_once():
            cli_figure.check("--figure", figure, kind)
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
        writes.append(("--figure", figure, partial(cli_figure.draw, [explanation], kind)))
    _finish(explanation, writes, as_json)


@app.command(epilog="Example:\n\n    slalom methods --json")
def methods(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Lists the methods that --method takes."""
    from slalom_xai.estimators import methods as known

    _list(known(), as_json)


@app.command(epilog="Example:\n\n    slalom metrics --json")
def metrics(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Lists the metrics that slalom bench computes."""
    from slalom_xai.metrics import metrics as known

    _list(known(), as_json)


def _list(known: dict[str, str], as_json: bool) -> None:
    if as_json:
        echo_json(known)
        return
    width = max(map(len, known))
    for name, summary in known.items():
        typer.echo(f"{name:{width}}  {summary}")


cli_train.register(app)
cli_bench.register(app)
cli_figure.register(app)
cli_report.register(app)
cli_reproduce.register(app)


def _text(text: str | None, file: Path | None) -> str:
    """The text from the argument, a file or standard input."""
    from slalom_xai.errors import InputError

    if (text is None) == (file is None):
        raise InputError(
            "give the text as an argument, or --file PATH, or - for standard input" + (", but only one of them" if text else "")
        )
    if file is None and text != "-":
        return text or ""
    try:
        if file is None and sys.stdin is None:
            raise InputError("there is no standard input to read: pipe a text in, or give --file PATH")
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


def main() -> None:
    """Runs the command; an error is one line on standard error and a non-zero exit."""
    from slalom_xai.errors import SlalomError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without emoji shows a question mark
    try:
        with sent_again():
            code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == STATUS:  # how some versions of typer report Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()  # a full disk is heard of here
        if isinstance(code, int) and code:  # the command did its work and has bad news
            sys.exit(code)
    except SlalomError as error:
        _fail(for_command_line(str(error)), 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", STATUS)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            _fail(f"cannot write the result: {error.strerror or error}", 1)
        sys.stderr.close()  # the reader of a pipe has seen enough
        sys.exit(1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # a mistyped option or command, in any version of click
            raise
        _fail(f"{error.format_message()} See slalom --help.", 2)


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
