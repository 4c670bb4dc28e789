"""Log lines that say what happened and where in the code, but not what a visitor wrote."""

from __future__ import annotations

import logging
import sys
import traceback

_LIBRARIES = ("transformers", "httpx", "matplotlib")


def set_up() -> None:
    """Lets log lines of this process go to standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)


def trace(error: BaseException, *, texts: bool) -> str:
    """Where an error comes from, for the log.

    Args:
        error: that nobody expected.
        texts: whether its message, which may quote a visitor's text, belongs in the log.
    """
    if texts:
        return "".join(traceback.format_exception(error)).rstrip()
    frames = "".join(traceback.format_tb(error.__traceback__))
    return (
        f"{type(error).__name__} (its message may quote a text: see --log-texts)\n{frames}".rstrip()
    )
