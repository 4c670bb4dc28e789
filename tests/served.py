"""A running ``slalom serve`` with two models and a small data set."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

from processes import started
from tiny import tiny

REVIEW = "The plot is thin and the jokes are tired, but both leads are wonderful."
ROWS = 120  # of the data set: more than two pages
_GOOD, _BAD = "a wonderful and warm film, number", "a dull and tired film, number"


class Served:
    """A server that runs.

    Attributes:
        address: of its page, with a slash at the end.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, where: str) -> Any:
        """What the server answers, as JSON."""
        with urllib.request.urlopen(self.address + where) as answer:
            return json.load(answer)

    def ask(self, **question: Any) -> dict[str, Any]:
        """Asks for an explanation."""
        usual = {"model": "embedded", "text": REVIEW, "granularity": "word", "budget": 60}
        request = urllib.request.Request(
            self.address + "api/jobs",
            json.dumps(usual | question).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            job: dict[str, Any] = json.load(answer)
        return job

    def ended(self, **question: Any) -> dict[str, Any]:
        """Asks, and waits for the end of the job, good or bad."""
        job = self.ask(**question)
        with urllib.request.urlopen(f"{self.address}api/jobs/{job['id']}/events") as events:
            events.read()  # the stream ends with the job
        done: dict[str, Any] = self.get(f"api/jobs/{job['id']}")
        return done

    def explained(self, **question: Any) -> dict[str, Any]:
        """Asks, and waits for the explanation."""
        done = self.ended(**question)
        assert done["state"] == "done", done
        return done


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """Starts a server that keeps everything in a folder; it ends with the block."""
    model, words = tiny("bert")
    model.save_pretrained(folder / "tiny")
    words.save_pretrained(folder / "tiny")
    command = [sys.executable, "-m", "slalom_xai", "serve", "--port", "0"]
    command += ["--store", str(folder / "store.sqlite"), "--data", str(_data(folder))]
    command += ["--model", "embedded", "--model", f"second={folder / 'tiny'}", *options]
    with (
        open(folder / "log", "w", encoding="utf-8") as log,
        started(command, stdout=PIPE, stderr=log, text=True) as process,
    ):
        said = process.stdout.readline()
        assert said.startswith("Slalom serves http"), (folder / "log").read_text(encoding="utf-8")
        yield Served(said.split()[-1].partition("?")[0])
        process.terminate()
        process.wait()


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
