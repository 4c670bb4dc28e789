"""The command line: ``slalom`` and its commands; the larger ones have a file of their own."""

from __future__ import annotations

import json
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai import cli_bench, cli_figure, cli_report, cli_reproduce, cli_train

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


@app.callback()
def _root() -> None:
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
    budget: Annotated[int | None, typer.Option(help="Model calls allowed. Default: by the text's length.", show_default=False)] = None,
    granularity: Annotated[str, typer.Option(help="What gets a score: token, type, word, phrase or sentence.")] = "token",
    target: Annotated[str | None, typer.Option(help="Label or index of the class to explain.", show_default=False)] = None,
    removal: Annotated[
        str, typer.Option(help="What leaving out a unit means: delete, or the token put in its place: mask or unk.")
    ] = "delete",
    truncation: Annotated[bool, typer.Option("--truncation", help="Explain the beginning of a text that is too long.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same explanation.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="Where to run, such as cpu or cuda. Default: a GPU if there is one.", show_default=False)
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Precision, such as bfloat16. Default: as saved, float32 on a CPU.", show_default=False)
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.", show_default=False)] = None,
    trust_remote_code: Annotated[bool, typer.Option("--trust-remote-code", help="Let a hub model run code of its own.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Save the explanation as JSON here.", show_default=False)] = None,
    figure: Annotated[Path | None, typer.Option(help="Save a figure here, as .svg, .pdf or .png.", show_default=False)] = None,
    kind: Annotated[str, typer.Option(help="Of the figure: scatter, text or bars.")] = "scatter",
    html: Annotated[Path | None, typer.Option(help="Save the interactive view as a web page here.", show_default=False)] = None,
) -> None:
    """Shows why a classifier judges a text as it does."""
    given = _text(text, file)
    for path in (out, html):
        _check_folder(path)
    if figure is not None:
        cli_figure.check(figure, kind)

    from slalom_xai.explainer import Explainer

    explainer = Explainer(
        model,
        tokenizer,
        method=method,
        budget=budget,
        granularity=granularity,
        target=target,
        removal=removal,
        truncation=truncation,
        random_state=seed,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
    )
    explanation = explainer(given, pair)
    saved = [path for path in (out and explanation.save(out), html and explanation.to_html(html)) if path]
    if figure is not None:
        saved.append(cli_figure.draw([explanation], kind, figure))
    if as_json:
        typer.echo(json.dumps(explanation.to_dict(), ensure_ascii=False))
    else:
        _show(explanation, saved)


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
        typer.echo(json.dumps(known))
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
            "give the text as an argument, or --file PATH, or - for standard input" + (", not several of them" if text else "")
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


def _check_folder(path: Path | None) -> None:
    """A result nobody can save should be known before it is computed."""
    from slalom_xai.errors import InputError

    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        raise InputError(f"cannot write {path}: give a file in a folder that exists")


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
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == 130:  # how some versions of typer report Ctrl-C
            raise KeyboardInterrupt
        if isinstance(code, int) and code:  # the command did its work and has bad news
            sys.exit(code)
    except SlalomError as error:
        _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", 130)
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
