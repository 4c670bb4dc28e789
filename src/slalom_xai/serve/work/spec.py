"""What a worker is told when it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# What a visitor may ask for.


@dataclass(frozen=True)
class Limits:
    """Bounds on requests and on the work that they cause.

    Attributes:
        connections: that are open at the same time; more are refused.
        head_seconds: a request's first line and headers must arrive within so many seconds.
        body: bytes of a request.
        body_seconds: a request's body must arrive within so many seconds.
        text: characters of a text.
        budget: model calls for an explanation.
        seconds: of work on one job; a group of jobs has so many each.
        queue: jobs that may wait for one model; more are refused.
        together: jobs with the same settings that a worker takes at once, as a list call would.
        watchers: connections that follow a job at the same time.
        rows: of edited texts in one question to a model.
        keys: explanations in one report.
        asked: quick questions that may wait for one worker; more are refused.
        ask_seconds: how long a request waits for a model's quick answer.
        attempts: how often a job is begun before it is given up, because its worker died.
        lease: seconds after which a job without a sign of its worker is taken from it.
    """

    connections: int = 500
    head_seconds: float = 10.0
    body: int = 1_000_000
    body_seconds: float = 20.0
    text: int = 100_000
    budget: int = 20_000
    seconds: float = 600.0
    queue: int = 256
    together: int = 32
    watchers: int = 200
    rows: int = 64
    keys: int = 8
    asked: int = 64
    ask_seconds: float = 60.0
    attempts: int = 3
    lease: float = 15.0


# What a worker is told when it starts.


@dataclass(frozen=True)
class DataSpec:
    """Where the data set is.

    Attributes:
        source: the file.
        folder: where its rows are kept.
        text_field, label_field: its columns, as ``Dataset`` takes them.
    """

    source: str
    folder: str
    text_field: str
    label_field: str | None


def bound_to(source: str | None, dtype: str | None, labels: tuple[str, ...] | None) -> str:
    """What a model is loaded from, and how: one line, equal for the same.

    Args:
        source: as ``WorkerSpec`` has it; of a folder or a file, where it really is counts.
        dtype: likewise.
        labels: likewise.
    """
    place = source
    if source is not None and Path(source).exists():
        place = str(Path(source).resolve())
    return json.dumps([place, dtype, labels])


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker needs to know.

    Attributes:
        name: of the model on this server.
        source: folder, file or hub id; None: the embedded model.
        store: the file with jobs and results.
        bound: what jobs of this model are bound to (see ``bound_to``).
        owner: names this worker in the store.
        predicts: whether it asks about the data set while no job waits.
        device, dtype, trust_remote_code, labels: as ``Explainer`` takes them.
        limits: of the server.
        data: None where there is none.
        log_texts: whether log lines may hold texts.
    """

    name: str
    source: str | None
    store: str
    bound: str = ""
    owner: str = ""
    predicts: bool = True
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    labels: tuple[str, ...] | None = None
    limits: Limits = field(default_factory=Limits)
    data: DataSpec | None = None
    log_texts: bool = False

    def to_json(self) -> str:
        """As a line for the worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> WorkerSpec:
        """The inverse of ``to_json``."""
        told: dict[str, Any] = json.loads(line)
        told["limits"] = Limits(**told["limits"])
        if told["labels"] is not None:
            told["labels"] = tuple(told["labels"])
        if told["data"] is not None:
            told["data"] = DataSpec(**told["data"])
        return cls(**told)

    def without_paths(self, message: str) -> str:
        """A message for visitors: it names the model as they know it, not the folder it is in."""
        if self.source is None:
            return message
        paths = {self.source, str(Path(self.source)), str(Path(self.source).absolute())}
        for path in sorted(paths, key=len, reverse=True):
            if os.sep in path:
                message = message.replace(path, self.name)
        return message
