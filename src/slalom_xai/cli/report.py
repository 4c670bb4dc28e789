"""The command ``slalom report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slalom_xai.cli.output import check_writable
from slalom_xai.system.interrupts import leaving_at_once

_EPILOG = """\
Examples:

    slalom explain --file review.txt --out ours.json && slalom explain --file review.txt --method lime --out lime.json

    slalom report ours.json lime.json --html compared.html

    slalom report results/explanations --html report.html --title "Reviews"
"""


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("report", epilog=_EPILOG)(_report)


def _report(
    files: Annotated[
        list[Path],
        typer.Argument(help="Saved explanations, or folders of them.", show_default=False),
    ],
    html: Annotated[Path, typer.Option(help="Where to write the page.", show_default=False)],
    title: Annotated[
        str | None, typer.Option(help="Heading of the page.", show_default=False)
    ] = None,
) -> None:
    """Puts saved explanations into one interactive page: of one text side by side, of several texts with a list."""
    from slalom_xai.errors import InputError, SlalomError

    check_writable("--html", html)
    with leaving_at_once():
        from slalom_xai.explanation import Explanation
        from slalom_xai.reports.html import write_report
    explanations = []
    for path in _expanded(files):
        try:
            explanations.append(Explanation.load(path))
        except SlalomError as error:
            message = str(error)
            raise InputError(message if str(path) in message else f"{path}: {message}") from error
    typer.echo(f"Saved: {write_report(explanations, html, title=title)}")


def _expanded(files: list[Path]) -> list[Path]:
    """Folders as the result files in them, in the order of their names."""
    from slalom_xai.errors import InputError

    found: list[Path] = []
    for path in files:
        inside = sorted(path.glob("**/*.json")) if path.is_dir() else [path]
        if not inside:
            raise InputError(
                f"the folder {path} holds no .json files: give files that Explanation.save or --out wrote"
            )
        found += inside
    return found
