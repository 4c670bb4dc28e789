"""A worker process: loads one model, then explains its jobs and answers quick questions.

It is started by the supervisor, which writes JSON lines to its standard input: first a ``WorkerSpec``,
then questions. What it has to say goes to standard output in the same form. When its input ends,
because the server told it to stop or is gone, it hands back its jobs and ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from slalom_xai.app.jobs import Jobs, Task
from slalom_xai.app.limits import Limits
from slalom_xai.app.results import Result, Results
from slalom_xai.app.store import Store
from slalom_xai.errors import SlalomError

log = logging.getLogger("slalom.worker")

_IDLE = 0.5  # seconds after which a worker looks for jobs that nobody told it of
_CHUNK = 64  # texts of the data set that are asked at once, between two looks for jobs
_SIGN = 3.0  # seconds between two signs of life


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker needs to know.

    Attributes:
        name: of the model on this server.
        source: folder, file or hub id; None: the embedded model.
        store: the file with jobs and results.
        owner: names this worker in the store.
        device, dtype, revision, trust_remote_code, labels: as ``Explainer`` takes them.
        limits: of the server.
        data: source, folder, text_field and label_field of the data set; None where there is none.
    """

    name: str
    source: str | None
    store: str
    owner: str
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    labels: list[str] | None = None
    limits: Limits = field(default_factory=Limits)
    data: dict[str, Any] | None = None

    def to_json(self) -> str:
        """As a line for the worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> WorkerSpec:
        """The inverse of ``to_json``."""
        data = json.loads(line)
        return cls(**data | {"limits": Limits(**data["limits"])})


class Worker:
    """One model with its jobs."""

    def __init__(self, spec: WorkerSpec, told: IO[str], says: IO[str]) -> None:
        self._spec, self._told, self._says = spec, told, says
        self._saying = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._questions: queue.Queue[dict[str, Any]] = queue.Queue()

    def run(self) -> None:
        """Loads the model and works until the input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        jobs = Jobs(Store(Path(self._spec.store)))
        try:
            self._load(jobs)
        except SlalomError as error:
            self._say({"say": "failed", "message": str(error)})
            return
        threading.Thread(target=self._give_signs, args=(jobs,), daemon=True).start()
        threading.Thread(target=self._answer_questions, daemon=True).start()
        try:
            while not self._ending.is_set():
                if not self._work.work() and not self._predict_some():
                    self._wake.wait(_IDLE)
                    self._wake.clear()
        finally:
            jobs.hand_back(self._spec.owner, most=self._spec.limits.attempts, fault=False)

    def _load(self, jobs: Jobs) -> None:
        # Slow imports: the server can already say that the model is being loaded.
        from slalom_xai.app.asking import QuickAnswers
        from slalom_xai.app.explaining import JobWorker
        from slalom_xai.app.fingerprint import fingerprint
        from slalom_xai.estimators import methods
        from slalom_xai.models.base import SaysItsLimit
        from slalom_xai.models.load import text_model

        spec = self._spec
        model = text_model(
            spec.source,
            device=spec.device,
            dtype=spec.dtype,
            revision=spec.revision,
            trust_remote_code=spec.trust_remote_code,
            labels=spec.labels,
        )
        self._labels = model.outputs.labels
        self._fingerprint = fingerprint(spec.source, spec.revision, spec.dtype)
        results = Results(Store(Path(spec.store)))
        self._quick = QuickAnswers(model, results.file)
        self._work = JobWorker(
            spec.name,
            model,
            self._fingerprint,
            spec.owner,
            jobs,
            results,
            spec.limits,
            self._ending.is_set,
            self._tell_data,
        )
        self._data = None
        if spec.data is not None:
            from slalom_xai.app.dataset import Dataset

            self._data = Dataset(
                Path(spec.data["source"]),
                Path(spec.data["folder"]),
                text_field=spec.data["text_field"],
                label_field=spec.data["label_field"],
            )
            self._data.prepare()
        self._say(
            {
                "say": "ready",
                "kind": model.outputs.kind,
                "labels": list(model.outputs.labels),
                "limit": model.limit if isinstance(model, SaysItsLimit) else None,
                "fingerprint": self._fingerprint,
                "methods": methods(),
            }
        )

    def _listen(self) -> None:
        """Reads what the server says, until it stops."""
        for line in self._told:
            told = json.loads(line)
            if told["do"] == "ask":
                self._questions.put(told)
            self._wake.set()
        self._ending.set()
        self._wake.set()

    def _give_signs(self, jobs: Jobs) -> None:
        while not self._ending.wait(_SIGN):
            try:
                jobs.seen(self._spec.owner)
            except Exception:  # a busy or full disk: the next sign may come through
                log.exception("no sign of life could be written")

    def _answer_questions(self) -> None:
        while True:
            told = self._questions.get()
            said: dict[str, Any] = {"say": "answer", "id": told["id"]}
            try:
                said["result"] = self._quick.answer(told["kind"], told["body"])
            except SlalomError as error:
                said["error"] = str(error)
            except Exception:
                log.exception("a question of kind %s failed", told["kind"])
                said["fault"] = True
            self._say(said)

    def _predict_some(self) -> bool:
        """Asks about some texts of the data set that the model has not seen; False: none is left."""
        if self._data is None:
            return False
        from slalom_xai.app.dataset import Prediction

        some = self._data.unpredicted(self._fingerprint, _CHUNK)
        if not some:
            return False
        answers = self._quick.predictions([text for _, text in some])
        rows = []
        for (row, _), answer in zip(some, answers, strict=True):
            label = answer.get("label")
            share = None
            if label is not None:
                share = max(answer["probabilities"])
            rows.append(Prediction(row, label, share, answer.get("error")))
        self._data.keep_predictions(self._fingerprint, rows, label_names=self._labels)
        return True

    def _tell_data(self, task: Task, result: Result) -> None:
        if self._data is not None and task.text_pair is None:
            self._data.keep_explained(self._fingerprint, task.text, result.key, result.fidelity)

    def _say(self, said: dict[str, Any]) -> None:
        with self._saying:
            self._says.write(json.dumps(said) + "\n")
            self._says.flush()


def main() -> None:
    """Runs a worker on the process's own streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends the input
    # Whatever a library prints goes to standard error, and cannot be taken for an answer.
    says = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    for library in ("transformers", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    spec = WorkerSpec.from_json(sys.stdin.readline())
    Worker(spec, sys.stdin, says).run()
    os._exit(0)  # a question may still be under way; nobody waits for it


if __name__ == "__main__":
    main()
