"""A program that explains a corpus and is killed at random moments, again and again.

Children are forked and killed: at a step that has to do with files, or a random while after a text
is done. The next child goes on with the same folder, and the last one is left alone. Its files are
compared with those of a run that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from killed import killed_at, killed_in_child
from tiny import CORPUS, tiny

from slalom_xai.data.corpus import ExplainOptions, explain_corpus
from slalom_xai.data.corpus import run as shown
from slalom_xai.data.corpus.staging import PartSize

PARTS, TEXTS = 8, 3


def table(root: Path) -> Path:
    """Short texts, of which one cannot be explained."""
    path = root / "texts.jsonl"
    lines = []
    for index in range(PARTS * TEXTS):
        words = CORPUS[index % len(CORPUS)].split()
        text = " ".join(words[index % 3 : index % 3 + 5])
        lines.append(json.dumps({"id": f"t{index}", "text": "" if index == 4 else text}))
    path.write_text("\n".join(lines) + "\n")
    return path


def run(root: Path, out: Path) -> None:
    """Explains the table into a folder, or goes on with it."""
    options = ExplainOptions(model=str(root / "model"), budget=40, method="slalom")
    explain_corpus(
        root / "texts.jsonl", out, options, size=PartSize(texts=TEXTS), show_progress=False
    )


def run_until(root: Path, out: Path, texts: int, seconds: float) -> None:
    """The same, killed a while after so many texts are done."""
    counted = shown.TextsDone.advance

    def advance(self: shown.TextsDone, done: int) -> None:
        nonlocal texts
        counted(self, done)
        texts -= done
        if texts <= 0:
            threading.Thread(target=kill).start()

    def kill() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    shown.TextsDone.advance = advance  # type: ignore[method-assign]
    run(root, out)


def files(out: Path) -> dict[str, bytes]:
    """What a finished corpus consists of, except how long it took."""
    found = [*out.glob("parts/*"), *(out / name for name in ("errors.jsonl", "manifest.json"))]
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


def main(root: Path, kills: int) -> None:
    """Kills so many runs and says what came of it."""
    chance = random.Random(0)
    model, tokenizer = tiny("bert")
    model.save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    table(root)
    finished, out = 0, root / "killed-0"
    while kills > 0:
        if chance.random() < 0.5:
            killed = killed_at(chance.randrange(20), partial(run, root, out), out)
        else:
            texts, seconds = chance.randint(1, 8), chance.random() / 50
            killed = killed_in_child(partial(run_until, root, out, texts, seconds))
        kills -= killed
        if not killed:
            finished += 1
            out = root / f"killed-{finished}"
    assert not killed_in_child(partial(run, root, out))
    assert not killed_in_child(partial(run, root, root / "alone"))
    whole = files(root / "alone")
    different = []
    for number in range(finished + 1):
        found = files(root / f"killed-{number}")
        different += [name for name in whole.keys() | found if whole.get(name) != found.get(name)]
    left = [str(path) for path in root.glob("killed-*/staged/*")]
    told = {"files": len(whole), "different": different, "left": left, "runs": finished + 1}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
