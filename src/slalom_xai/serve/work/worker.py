"""A worker process: loads one model, then explains its jobs and answers quick questions.

It is started by the supervisor, which writes JSON lines to its standard input: first a
``WorkerSpec``, then questions. What it has to say goes to standard output in the same form. When
its input ends, because the server told it to stop or is gone, it hands back its jobs and ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from typing import IO, Any

from slalom_xai.errors import SlalomError
from slalom_xai.serve import logs
from slalom_xai.serve.store.file import DAMAGED, Result, Results, Store
from slalom_xai.serve.store.jobs import Bound, Jobs, Task
from slalom_xai.serve.work.spec import WorkerSpec
from slalom_xai.system.sqlite import is_damaged

log = logging.getLogger("slalom.worker")

_IDLE = 0.5  # seconds after which a worker looks for jobs that nobody told it of
_CHUNK = 64  # texts of the data set that are asked at once, between two looks for jobs
_SIGN = 3.0  # seconds between two signs of life
_PAUSE = 5.0  # seconds after which a store that could not be written is tried again


class Worker:
    """One model with its jobs."""

    def __init__(self, spec: WorkerSpec, told: IO[str], says: IO[str]) -> None:
        self._spec, self._told, self._says = spec, told, says
        self._saying = threading.Lock()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._questions: queue.Queue[dict[str, Any]] = queue.Queue()
        self._loaded = False
        self._signed_on = False
        self._left_open = False  # whether jobs of this worker may be marked that it does not do
        self._all_predicted = not spec.predicts

    def run(self) -> None:
        """Loads the model and works until the input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._load()
        except SlalomError as error:
            self._say({"say": "failed", "message": str(error)})
            return
        self._loaded = True
        threading.Thread(target=self._give_signs, daemon=True).start()
        threading.Thread(target=self._answer_questions, daemon=True).start()
        try:
            while not self._ending.is_set():
                if not self._step():
                    self._wake.wait(_IDLE)
                    self._wake.clear()
        finally:
            self._hand_back()

    def _load(self) -> None:
        # Slow imports: the server can already say that the model is being loaded.
        from slalom_xai.methods import methods
        from slalom_xai.models.base import SaysItsLimit
        from slalom_xai.models.fingerprints import fingerprint
        from slalom_xai.models.load import text_model
        from slalom_xai.serve.data import Dataset
        from slalom_xai.serve.work.explaining import JobWorker
        from slalom_xai.serve.work.questions import QuickAnswers

        spec = self._spec
        store = Store(Path(spec.store), look=False)  # the server has looked
        self._jobs, results = Jobs(store), Results(store)
        model = text_model(
            spec.source,
            device=spec.device,
            dtype=spec.dtype,
            trust_remote_code=spec.trust_remote_code,
            labels=spec.labels,
        )
        self._labels = model.outputs.labels
        self._fingerprint = fingerprint(spec.source, spec.dtype, labels=spec.labels)
        self._bound = Bound(spec.name, spec.bound, self._fingerprint)
        self._data = None
        if spec.data is not None:
            self._data = Dataset.of(spec.data)
            self._data.prepare()
        self._quick = QuickAnswers(model, results.file)
        self._work = JobWorker(
            spec, model, self._bound, self._jobs, results, self._ending, self._tell_data
        )
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

    def _step(self) -> bool:
        """Does some of what there is to do; False where there is nothing."""
        try:
            if not self._signed_on:
                self._jobs.has_loaded(self._spec.owner, self._bound)
                self._signed_on = True
            if self._left_open:
                self._hand_back()
            return self._work.work() or self._predict_some()
        except sqlite3.Error as error:
            shown = DAMAGED if is_damaged(error) else str(error)  # of damage it may quote a text
            log.error("the store cannot be used (%s): trying again", shown)
            self._left_open = True
            self._ending.wait(_PAUSE)
            return True

    def _hand_back(self) -> None:
        self._jobs.hand_back(self._spec.owner, most=self._spec.limits.attempts, fault=False)
        self._left_open = False

    def _listen(self) -> None:
        """Reads what the server says, until it stops."""
        for line in self._told:
            told = json.loads(line)
            if told["do"] == "ask":
                self._questions.put(told)
            self._wake.set()
        self._ending.set()
        self._wake.set()
        if not self._loaded:
            os._exit(0)  # loading cannot be interrupted, and there is nothing to hand back

    def _give_signs(self) -> None:
        while not self._ending.wait(_SIGN):
            try:
                self._jobs.seen(self._spec.owner)
            except sqlite3.Error as error:  # a busy or full disk: the next sign may come through
                log.error("no sign of life could be written: %s", error)

    def _answer_questions(self) -> None:
        while True:
            told = self._questions.get()
            said: dict[str, Any] = {"say": "answer", "id": told["id"]}
            try:
                said["result"] = self._quick.answer(told["kind"], told["body"])
            except SlalomError as error:
                said["error"] = str(error)
            except Exception as error:
                shown = logs.trace(error, texts=self._spec.log_texts)
                log.error("a question of kind %s failed: %s", told["kind"], shown)
                said["fault"] = True
            self._say(said)

    def _predict_some(self) -> bool:
        """Asks about texts of the data set that the model has not seen; False: none is left."""
        if self._data is None or self._all_predicted:
            return False
        from slalom_xai.serve.data import Prediction

        imported = self._data.imported
        some = self._data.find_unpredicted(self._fingerprint, _CHUNK)
        if not some:
            self._all_predicted = imported
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
    logs.set_up()
    spec = WorkerSpec.from_json(sys.stdin.readline())
    Worker(spec, sys.stdin, says).run()
    os._exit(0)  # a question may still be under way; nobody waits for it


if __name__ == "__main__":
    main()
