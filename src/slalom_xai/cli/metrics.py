"""The command ``slalom metrics``."""

from __future__ import annotations

import typer

from slalom_xai.cli.options import AsJson
from slalom_xai.cli.output import echo_list

_EPILOG = "Example:\n\n    slalom metrics --json"


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("metrics", epilog=_EPILOG)(_metrics)


def _metrics(as_json: AsJson = False) -> None:
    """Lists the metrics that slalom bench computes."""
    from slalom_xai.metrics import metrics

    echo_list(metrics(), as_json)
