"""Results as lines of JSON, written as soon as they are there; progress on standard error."""

from __future__ import annotations

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.system.files import append_line
from slalom_xai.system.shards import Shard


def say(line: str) -> None:
    """A line for whoever is waiting."""
    print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)


class ResultsFile:
    """A file of results that grows.

    Args:
        path: the file.
        deadline: seconds from now after which parts should not begin anything new.
    """

    def __init__(self, path: Path, deadline: float) -> None:
        self.path = path
        self._until = time.monotonic() + deadline
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, record: dict[str, Any]) -> None:
        """Adds a result."""
        append_line(self.path, json.dumps(record))

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._until - time.monotonic()

    def late(self, part: str) -> bool:
        """Whether there is no time for another part; says so."""
        if self.left > 0:
            return False
        say(f"{part}: left out, the time limit is reached")
        return True


def read(paths: list[Path]) -> list[dict[str, Any]]:
    """All results of some files.

    Raises:
        SystemExit: a file that is not there, or not of this kind.
    """
    found = []
    for path in paths:
        if not path.is_file():
            raise SystemExit(f"error: no file {path}: give what --out wrote")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise SystemExit(
                    f"error: line {number} of {path} is not JSON: give what --out wrote"
                ) from error
    return found


def shard(given: str) -> Shard:
    """A shard for ``argparse``, whose own message would not say what is wrong with it.

    Raises:
        SystemExit: it is none.
    """
    try:
        return Shard.read(given)
    except InputError as error:
        raise SystemExit(f"error: {error}") from None


def machine(device: str) -> dict[str, Any]:
    """Where this runs."""
    import torch
    import transformers

    name = f"{platform.machine()}, {torch.get_num_threads()} threads"
    if device == "cuda":
        name = torch.cuda.get_device_name()
    return {
        "machine": name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
