"""Keeps one worker process running, and talks to it."""

from __future__ import annotations

import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from typing import Any, Protocol

from slalom_xai.app.work.spec import WorkerSpec

log = logging.getLogger("slalom.serve")

_PAUSES = (0.2, 1.0, 5.0, 30.0)  # seconds before the next start, by failures in a row
_STEADY = 60.0  # seconds after which a worker's failures are forgotten
_COMMAND = (sys.executable, "-P", "-m", "slalom_xai.app.work.worker")


class NoAnswer(Exception):
    """No worker could answer: the message says why and what to do."""


class Listener(Protocol):
    """Who is told what becomes of workers."""

    ending: threading.Event

    def heard(self, spec: WorkerSpec, said: dict[str, Any]) -> None:
        """A worker is ready, or its model cannot be loaded."""

    def died(self, spec: WorkerSpec, code: int, failures: int) -> None:
        """A worker ended by itself, so many times in a row."""


class Keeper(threading.Thread):
    """Starts a worker, and another one when it ends.

    Args:
        listener: is told what becomes of the worker.
        spec: of the worker.

    Attributes:
        ready: whether the worker has loaded its model.
    """

    def __init__(self, listener: Listener, spec: WorkerSpec) -> None:
        super().__init__(daemon=True)
        self.spec = spec
        self.ready = False
        self._listener = listener
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()

    @property
    def asked(self) -> int:
        """Questions that wait for their answers."""
        return len(self._asked)

    def run(self) -> None:
        """Runs one worker after the other, until the server ends or the model cannot be loaded."""
        failures = 0
        while not self._listener.ending.is_set():
            started = time.monotonic()
            try:
                code, failed = self._run_once()
                if self._listener.ending.is_set() or failed:
                    return
                if time.monotonic() - started > _STEADY:
                    failures = 0
                failures += 1
                self._listener.died(self.spec, code, failures)
            except Exception as error:  # whatever happens, there is a worker again soon
                failures += 1
                log.error("the worker of %s could not be replaced yet: %s", self.spec.name, error)
            self._listener.ending.wait(_PAUSES[min(failures, len(_PAUSES)) - 1])

    def _run_once(self) -> tuple[int, bool]:
        """Runs a worker to its end: its status, and whether its model could not be loaded."""
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        with self._lock:
            self._process = process
        self._tell(self.spec.to_json())
        try:
            failed = self._listen(process)
        finally:
            self.ready = False
            with self._lock:
                self._process = None
                left, self._asked = self._asked, {}
            for future in left.values():
                future.set_exception(NoAnswer("the model's worker ended: try again in a moment"))
            code = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        return code, failed

    def _listen(self, process: subprocess.Popen[str]) -> bool:
        """Hears a worker to its end; whether its model could not be loaded."""
        failed = False
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # it died while it spoke
            said = json.loads(line)
            if said["say"] == "answer":
                with self._lock:
                    future = self._asked.pop(said["id"], None)
                if future is not None:
                    future.set_result(said)
                continue
            failed = said["say"] == "failed"
            self._listener.heard(self.spec, said)
            self.ready = not failed
        return failed

    def stop(self) -> None:
        """Ends the input of the worker, which then ends."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Waits for the end of the worker; one that does not end in time is killed."""
        self.join(max(seconds, 0.1))
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self.join()

    def wake(self) -> None:
        """Tells the worker that a job waits."""
        self._tell(json.dumps({"do": "wake"}))

    def ask(self, kind: str, body: dict[str, Any]) -> Future[dict[str, Any]]:
        """Asks the worker a question."""
        future: Future[dict[str, Any]] = Future()
        future.set_running_or_notify_cancel()  # nobody can take it back, so it can be answered
        number = next(self._numbers)
        with self._lock:
            self._asked[number] = future
        if not self._tell(json.dumps({"do": "ask", "id": number, "kind": kind, "body": body})):
            with self._lock:
                waiting = self._asked.pop(number, None)
            if waiting is not None:
                waiting.set_exception(NoAnswer("the model's worker ended: try again in a moment"))
        return future

    def _tell(self, line: str) -> bool:
        """Writes a line to the worker; whether there was one to read it."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return False
            try:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            except OSError:  # it has just died
                return False
        return True
