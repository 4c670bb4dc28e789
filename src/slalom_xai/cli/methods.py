"""The command ``slalom methods``."""

from __future__ import annotations

import typer

from slalom_xai.cli.options import AsJson
from slalom_xai.cli.output import echo_list

_EPILOG = "Example:\n\n    slalom methods --json"


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("methods", epilog=_EPILOG)(_methods)


def _methods(as_json: AsJson = False) -> None:
    """Lists the methods that --method takes."""
    from slalom_xai.methods import methods

    echo_list(methods(), as_json)
