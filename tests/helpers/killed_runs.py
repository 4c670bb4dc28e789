"""A program that explains a text with a cache and is killed at random moments, again and again.

Children are forked and kill themselves: a thread of theirs waits until so many answers have been
asked, then does nothing for a random while, and kills its process wherever that is. What a child
has asked and stored goes to a ledger. The last child is left alone. Its result, and that of any
child that was done before its kill, is compared with one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from pathlib import Path

from fakes import Averaging
from killed import killed_in_child
from paid import TEXT, Paid

from slalom_xai import Explainer
from slalom_xai.queries import AnswerCache

BUDGET = 120
BATCH = 40  # tokens: many small batches


class Ledger:
    """Lines that a kill does not lose, and a thread that kills."""

    def __init__(self, path: Path, kill_at: int | None, spin: int) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._left = kill_at
        self._now = threading.Event()
        if kill_at is not None:
            threading.Thread(target=self._kill, args=(spin,), daemon=True).start()

    def asked(self, key: str) -> None:
        self.write("asked", key)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._now.set()

    def write(self, event: str, key: str) -> None:
        os.write(self._handle, (json.dumps([event, key]) + "\n").encode())

    def _kill(self, spin: int) -> None:
        self._now.wait()
        for _ in range(spin):
            pass
        os.kill(os.getpid(), signal.SIGKILL)


class Noted(Averaging):
    """A local model that writes down what it is asked."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger

    def answer(self, rows):
        answers = super().answer(rows)
        for row in rows:
            self._ledger.asked(str(row))
        return answers


def run(kind: str, folder: Path, kill_at: int | None, spin: int) -> None:
    """Explains the text with a cache in a folder, and writes the result beside it."""
    sys.setswitchinterval(1e-5)  # so that threads, and the one that kills, meet anywhere
    ledger = Ledger(folder.with_suffix(".ledger"), kill_at, spin)
    if kind == "paid":
        model = Paid(Averaging(), ledger.asked, lambda key: ledger.write("kept", key), threads=3)
        cache = AnswerCache(folder)
    else:
        model = Noted(ledger)
        cache = AnswerCache(folder).opened_for("averaging")
    explanation = Explainer(model, budget=BUDGET, batch_tokens=BATCH, cache=cache)(TEXT)
    explanation.save(folder.with_suffix(".json"))


def asked_again(path: Path) -> list[str]:
    """Rows that were asked although their answers had been stored."""
    kept: set[str] = set()
    again = []
    for line in path.read_text().splitlines():
        event, key = json.loads(line)
        if event == "kept":
            kept.add(key)
        elif key in kept:
            again.append(key)
    return again


def explain_to_the_end(kind: str, root: Path, kills: int, chance: random.Random) -> list[Path]:
    """Kills so many runs and leaves the last alone; the folders of those that came to an end."""
    done = []
    while True:
        folder = root / f"{kind}-{len(done)}"
        kill_at = chance.randint(1, 5) if kills > 0 else None
        spin = chance.randrange(30_000)
        if killed_in_child(lambda at=folder, n=kill_at, s=spin: run(kind, at, n, s)):
            kills -= 1
            continue
        done.append(folder)
        if kills == 0:
            return done


def main(root: Path, kills: int) -> None:
    """Kills so many runs and says what came of it."""
    chance = random.Random(0)
    alone = Explainer(Averaging(), budget=BUDGET, batch_tokens=BATCH)(TEXT).save(
        root / "alone.json"
    )
    few = kills // 4
    done = explain_to_the_end("paid", root, kills - few, chance)
    done += explain_to_the_end("local", root, few, chance)
    different = [
        folder.name
        for folder in done
        if folder.with_suffix(".json").read_bytes() != alone.read_bytes()
    ]
    again = [key for folder in done for key in asked_again(folder.with_suffix(".ledger"))]
    told = {"finished": len(done), "different": different, "asked again": again}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
