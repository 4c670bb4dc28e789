"""The command ``slalom``: its commands, each from its own file, and what happens if one fails."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from slalom_xai import __version__
from slalom_xai.cli import (
    audit,
    bench,
    cache,
    cite,
    corpus,
    diff,
    explain,
    figure,
    methods,
    metrics,
    report,
    serve,
    train,
    vocabulary,
)
from slalom_xai.cli.output import for_command_line
from slalom_xai.system.interrupts import STATUS, resend_interrupts

app = typer.Typer(
    help="Explains text classifiers: a value and an importance for every token.",
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"slalom-xai {__version__}")
        raise typer.Exit


_VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True),
]


@app.callback()
def _root(
    version: _VersionOption = False,
) -> None:
    """Explains text classifiers: a value and an importance for every token."""


COMMANDS = (
    explain,
    cite,
    corpus,
    audit,
    vocabulary,
    diff,
    methods,
    metrics,
    train,
    bench,
    figure,
    report,
    serve,
    cache,
)
for command in COMMANDS:
    command.register(app)


def main() -> None:
    """Runs the command ``slalom``."""
    run(app, "slalom")


def run(app: typer.Typer, name: str) -> None:
    """Runs a command; an error is one line on standard error and a non-zero exit."""
    from slalom_xai.errors import SlalomError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without emoji shows a question mark
    try:
        with resend_interrupts():
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
        # A mistyped option or command, in any version of click, has a message of its own.
        if not hasattr(error, "format_message"):
            raise
        _fail(f"{error.format_message()} See {name} --help.", 2)


def _fail(message: str, code: int) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(code)
