"""Starts the workers, replaces those that die, and asks them quick questions."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from slalom_xai.app.jobs import Jobs
from slalom_xai.app.limits import Limits
from slalom_xai.app.worker import WorkerSpec

log = logging.getLogger("slalom.serve")

_PAUSES = (0.2, 1.0, 5.0, 30.0)  # seconds before a worker is started again, by its failures in a row
_STEADY = 60.0  # seconds after which a worker's failures are forgotten
_FAREWELL = 20.0  # seconds that workers have to hand back their jobs


class NoAnswer(Exception):
    """No worker could answer: the message says why and what to do."""


class Refused(Exception):
    """The worker says that the question cannot be answered, and why."""


@dataclass
class ModelState:
    """A model as the server knows it.

    Attributes:
        name: on this server.
        state: "loading", "ready" or "failed".
        message: why it failed.
        facts: what a worker said about it when it was ready.
    """

    name: str
    state: str = "loading"
    message: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Supervisor:
    """All workers of a server.

    Args:
        specs: of the models; ``owner`` is filled in here.
        workers: processes for each model.
        jobs: of the store.
        limits: of the server.
    """

    def __init__(
        self, specs: list[WorkerSpec], workers: int, jobs: Jobs, limits: Limits
    ) -> None:
        self.models = {spec.name: ModelState(spec.name) for spec in specs}
        self.restarts = 0
        self._jobs, self._limits = jobs, limits
        self._ending = threading.Event()
        self._keepers = [
            _Keeper(self, replace(spec, owner=uuid.uuid4().hex[:12]))
            for spec in specs
            for _ in range(workers)
        ]
        self._turn = itertools.count()

    def start(self) -> None:
        """Starts the workers; none of them is waited for."""
        for keeper in self._keepers:
            keeper.start()
        threading.Thread(target=self._find_lost, daemon=True).start()

    def stop(self) -> None:
        """Ends the workers; what they were working on goes back to the queue."""
        self._ending.set()
        for keeper in self._keepers:
            keeper.stop()
        until = time.monotonic() + _FAREWELL
        for keeper in self._keepers:
            keeper.join(until - time.monotonic())

    def wake(self, model: str) -> None:
        """Tells the workers of a model that a job waits."""
        for keeper in self._keepers:
            if keeper.spec.name == model:
                keeper.tell({"do": "wake"})

    async def ask(self, model: str | None, kind: str, body: dict[str, Any]) -> Any:
        """A quick question to a model's worker, or to any that is ready.

        Raises:
            Refused: it cannot be answered.
            NoAnswer: there is no worker to answer it, or it took too long.
        """
        keepers = [
            keeper
            for keeper in self._keepers
            if keeper.ready and model in (None, keeper.spec.name)
        ]
        if not keepers:
            raise NoAnswer("the model is being loaded: try again in a few seconds")
        keeper = keepers[next(self._turn) % len(keepers)]
        future = keeper.ask(kind, body)
        try:
            said = await asyncio.wait_for(asyncio.wrap_future(future), self._limits.ask_seconds)
        except TimeoutError as error:
            raise NoAnswer("the model did not answer in time: try again later") from error
        if "error" in said:
            raise Refused(said["error"])
        if "fault" in said:
            raise NoAnswer("an error in slalom-xai itself; the server's log has more")
        return said["result"]

    def _find_lost(self) -> None:
        """Puts back jobs whose worker has died with its server."""
        while not self._ending.wait(self._limits.lease / 3):
            try:
                before = time.time() - self._limits.lease
                found = self._jobs.hand_back_lost(before=before, most=self._limits.attempts)
            except Exception:
                log.exception("lost jobs could not be looked for")
                continue
            if found:
                log.warning("%d jobs were lost by their workers and wait again", found)
                for model in self.models:
                    self.wake(model)

    # What keepers report.

    def heard(self, spec: WorkerSpec, said: dict[str, Any]) -> None:
        """A worker is ready, or its model cannot be loaded."""
        model = self.models[spec.name]
        if said["say"] == "ready":
            model.facts = {name: said[name] for name in said if name != "say"}
            model.state, model.message = "ready", None
            log.info("model %s is ready", spec.name)
        else:
            model.state, model.message = "failed", said["message"]
            log.error("model %s cannot be loaded: %s", spec.name, said["message"])

    def died(self, spec: WorkerSpec, code: int) -> None:
        """A worker ended by itself: its jobs wait again."""
        self.restarts += 1
        log.error("a worker of %s ended (status %d) and is replaced", spec.name, code)
        self._jobs.hand_back(spec.owner, most=self._limits.attempts)
        ready = any(keeper.ready for keeper in self._keepers if keeper.spec.name == spec.name)
        if not ready:
            self.models[spec.name].state = "loading"

    @property
    def ending(self) -> threading.Event:
        """Set when the server ends."""
        return self._ending


class _Keeper(threading.Thread):
    """Keeps one worker running."""

    def __init__(self, supervisor: Supervisor, spec: WorkerSpec) -> None:
        super().__init__(daemon=True)
        self.spec = spec
        self.ready = False
        self._supervisor = supervisor
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()

    def run(self) -> None:
        failures = 0
        while not self._supervisor.ending.is_set():
            started = time.monotonic()
            code, failed = self._run_once()
            if self._supervisor.ending.is_set() or failed:
                return
            if time.monotonic() - started > _STEADY:
                failures = 0
            self._supervisor.died(self.spec, code)
            self._supervisor.ending.wait(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    def _run_once(self) -> tuple[int, bool]:
        """Starts a worker and listens to it until it ends: its status, and whether loading failed."""
        failed = False
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}
        process = subprocess.Popen(
            [sys.executable, "-m", "slalom_xai.app.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        assert process.stdin is not None and process.stdout is not None
        with self._lock:
            self._process = process
        self._write(self.spec.to_json())
        for line in process.stdout:
            said = json.loads(line)
            if said["say"] == "answer":
                future = self._asked.pop(said["id"], None)
                if future is not None and not future.cancelled():
                    future.set_result(said)
                continue
            failed = said["say"] == "failed"
            self.ready = said["say"] == "ready"
            self._supervisor.heard(self.spec, said)
        self.ready = False
        code = process.wait()
        with self._lock:
            self._process = None
            left, self._asked = self._asked, {}
        for future in left.values():
            if not future.cancelled():
                future.set_exception(NoAnswer("the model's worker ended: try again in a moment"))
        return code, failed

    def stop(self) -> None:
        """Ends the input of the worker, which then ends."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end of the worker; one that does not end is killed."""
        super().join(max(timeout or 0, 0.1))
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def tell(self, told: dict[str, Any]) -> None:
        """Writes a line to the worker, where there is one."""
        self._write(json.dumps(told))

    def _write(self, line: str) -> None:
        with self._lock:
            process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return
            try:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            except OSError:  # it has just died: its keeper will see
                return

    def ask(self, kind: str, body: dict[str, Any]) -> Future[dict[str, Any]]:
        """Asks the worker a question."""
        number = next(self._numbers)
        future: Future[dict[str, Any]] = Future()
        self._asked[number] = future
        self.tell({"do": "ask", "id": number, "kind": kind, "body": body})
        return future
