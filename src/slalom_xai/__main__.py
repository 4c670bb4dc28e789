"""Starts the command line: ``slalom``, or ``python -m slalom_xai``."""

from __future__ import annotations

from slalom_xai.system.interrupts import exit_on_interrupt


def main() -> None:
    """Imports the command line, which Ctrl-C may interrupt without a traceback, and runs it."""
    with exit_on_interrupt():
        from slalom_xai.cli import main as run
    run()


if __name__ == "__main__":
    main()
