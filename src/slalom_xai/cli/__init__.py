"""The command line: ``slalom``, one file per command."""

from slalom_xai.cli.command import app, main

__all__ = ["app", "main"]
