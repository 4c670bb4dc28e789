"""The command ``slalom report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom_xai.cli.options import argument, without_default
from slalom_xai.system.files import check_writable
from slalom_xai.system.interrupts import exit_on_interrupt

_HELP = (
    "Puts saved explanations into one interactive page: "
    "of one text side by side, of several texts with a list."
)
_EPILOG = """\
Examples:

    slalom explain --file review.txt --out ours.json && \
slalom explain --file review.txt --method lime --out lime.json

    slalom report ours.json lime.json --html compared.html

    slalom report results/explanations --html report.html --title "Reviews"
"""


_Files = Annotated[list[Path], argument("Saved explanations, or folders of them.")]
_Html = Annotated[Path, without_default("Where to write the page.")]
_Title = Annotated[str | None, without_default("Heading of the page.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("report", help=_HELP, epilog=_EPILOG)(_report)


def _report(
    files: _Files,
    html: _Html,
    title: _Title = None,
) -> None:
    """The command; ``_HELP`` says what it does."""
    from slalom_xai.errors import InputError, SlalomError

    check_writable("--html", html)
    with exit_on_interrupt():
        from slalom_xai.explanation import Explanation
        from slalom_xai.reports.html import write_report
    explanations = []
    for path in _expand_folders(files):
        try:
            explanations.append(Explanation.load(path))
        except SlalomError as error:
            message = str(error)
            if str(path) not in message:
                message = f"{path}: {message}"
            raise InputError(message) from error
    typer.echo(f"Saved: {write_report(explanations, html, title=title)}")


def _expand_folders(files: list[Path]) -> list[Path]:
    """Folders as the result files in them, in the order of their names."""
    from slalom_xai.errors import InputError

    paths: list[Path] = []
    for path in files:
        if not path.is_dir():
            paths.append(path)
            continue
        inside = sorted(path.glob("**/*.json"))
        if not inside:
            raise InputError(
                f"the folder {path} holds no .json files: "
                "give files that Explanation.save or --out wrote"
            )
        paths += inside
    return paths
