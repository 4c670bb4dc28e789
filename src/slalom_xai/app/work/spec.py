"""What a worker is told when it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slalom_xai.app.limits import Limits


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
