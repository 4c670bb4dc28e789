"""The command ``slalom methods``."""

from __future__ import annotations

from typing import Annotated

import typer

from slalom_xai.cli.output import echo_list

_EPILOG = "Example:\n\n    slalom methods --json"


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("methods", epilog=_EPILOG)(_methods)


def _methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Lists the methods that --method takes."""
    from slalom_xai.estimators import methods

    echo_list(methods(), as_json)
