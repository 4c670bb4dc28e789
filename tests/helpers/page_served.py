"""A running ``slalom serve`` with two models and a small data set, for tests of its page."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from servers import Server, serving
from tiny import tiny

REVIEW = "The plot is thin and the jokes are tired, but both leads are wonderful."
ROWS = 120  # of the data set: more than two pages
_GOOD, _BAD = "a wonderful and warm film, number", "a dull and tired film, number"
_USUAL = {"granularity": "word", "budget": 60}


class Served:
    """A server that runs.

    Attributes:
        address: of its page, with a slash at the end.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = server.address.partition("?")[0]

    def get(self, where: str) -> Any:
        """What the server answers, as JSON."""
        return self._server.get(urlsplit(self.address).path + where).json

    def ask(self, text: str = REVIEW, **question: Any) -> dict[str, Any]:
        """Asks for an explanation."""
        return self._server.ask(text, **_USUAL | question)

    def ended(self, text: str = REVIEW, **question: Any) -> dict[str, Any]:
        """Asks, and waits for the end of the job, good or bad."""
        return self._server.ended(self.ask(text, **question)["id"])

    def explained(self, text: str = REVIEW, **question: Any) -> dict[str, Any]:
        """Asks, and waits for the explanation."""
        return self._server.explained(text, **_USUAL | question)


@contextlib.contextmanager
def serving_page(folder: Path, *options: str) -> Iterator[Served]:
    """Starts a server that keeps everything in a folder; it ends with the block."""
    model, words = tiny("bert")
    model.save_pretrained(folder / "tiny")
    words.save_pretrained(folder / "tiny")
    models = ["--model", "embedded", "--model", f"second={folder / 'tiny'}"]
    with serving(folder, "--data", _data(folder), *models, *options) as server:
        yield Served(server)


def _data(folder: Path) -> Path:
    """Reviews with labels, every tenth of them the wrong one."""
    path = folder / "reviews.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        for number in range(1, ROWS + 1):
            good = number % 2 == 0
            label = good != (number % 10 == 0)
            text = f"{_GOOD if good else _BAD} {number}"
            rows.writerow([text, "positive" if label else "negative"])
    return path
