"""The workers of all models: what state they are in, and who answers a quick question."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from slalom_xai.serve.store.jobs import Bound, Jobs
from slalom_xai.serve.work.spec import Limits, WorkerSpec

# Keeps one worker process running, and talks to it.


log = logging.getLogger("slalom.serve")

_PAUSES = (0.2, 1.0, 5.0, 30.0)  # seconds before the next start, by failures in a row
_STEADY = 60.0  # seconds after which a worker's failures are forgotten
_COMMAND = (sys.executable, "-P", "-m", "slalom_xai.serve.work.worker")


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


# The workers of all models: what state they are in, and who answers a quick question.


_FAREWELL = 20.0  # seconds that workers have to hand back their jobs
_MANY = 3  # failures in a row after which visitors are told that a model does not start


State = Literal["loading", "ready", "failed"]


class Refused(Exception):
    """The worker says that the question cannot be answered, and why."""


@dataclass
class ModelState:
    """A model as the server knows it.

    Attributes:
        name: on this server.
        bound: what it is loaded from, and how.
        state: "loading", "ready" or "failed".
        message: why it failed.
        facts: what a worker said about it when it was ready.
    """

    name: str
    bound: str = ""
    state: State = "loading"
    message: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> Bound:
        """What jobs of this model are bound to."""
        return Bound(self.name, self.bound, self.facts.get("fingerprint"))


class Supervisor:
    """All workers of a server.

    Args:
        specs: of the models; ``owner`` is filled in here.
        workers: processes for each model.
        jobs: of the store.
        limits: of the server.

    Attributes:
        models: by their names.
        restarts: workers that ended and were replaced.
        ending: set when the server ends.
    """

    def __init__(self, specs: list[WorkerSpec], workers: int, jobs: Jobs, limits: Limits) -> None:
        self.models = {spec.name: ModelState(spec.name, spec.bound) for spec in specs}
        self.restarts = 0
        self.ending = threading.Event()
        self._jobs, self._limits = jobs, limits
        self._keepers = [
            Keeper(self, replace(spec, owner=uuid.uuid4().hex[:12], predicts=number == 0))
            for spec in specs
            for number in range(workers)
        ]
        self._turn = itertools.count()

    def start(self) -> None:
        """Starts the workers; none of them is waited for."""
        self._started = time.time()
        try:
            self._sign_on()
        except sqlite3.Error as error:  # a busy or full disk: the next sign may come through
            log.error("no sign of this server could be written: %s", error)
        for keeper in self._keepers:
            keeper.start()
        threading.Thread(target=self._find_lost, daemon=True).start()

    def stop(self) -> None:
        """Ends the workers; what they were working on goes back to the queue."""
        self.ending.set()
        for keeper in self._keepers:
            keeper.stop()
        until = time.monotonic() + _FAREWELL
        for keeper in self._keepers:
            keeper.wait(until - time.monotonic())
            self._jobs.hand_back(keeper.spec.owner, most=self._limits.attempts, fault=False)

    def wake(self, model: str) -> None:
        """Tells the workers of a model that a job waits."""
        for keeper in self._keepers:
            if keeper.spec.name == model:
                keeper.wake()

    async def ask(self, model: str | None, kind: str, body: dict[str, Any]) -> Any:
        """A quick question to a model's worker, or to any that is ready.

        Raises:
            Refused: it cannot be answered.
            NoAnswer: there is no worker to answer it, or it took too long.
        """
        keepers = [
            keeper for keeper in self._keepers if keeper.ready and model in (None, keeper.spec.name)
        ]
        if not keepers:
            raise NoAnswer("the model is being loaded: try again in a few seconds")
        keeper = keepers[next(self._turn) % len(keepers)]
        if keeper.asked >= self._limits.asked:
            raise NoAnswer(f"{keeper.asked} questions wait for the model already: try again later")
        future = asyncio.wrap_future(keeper.ask(kind, body))
        try:
            said = await asyncio.wait_for(future, self._limits.ask_seconds)
        except TimeoutError as error:
            raise NoAnswer("the model did not answer in time: try again later") from error
        if "error" in said:
            raise Refused(keeper.spec.without_paths(said["error"]))
        if "fault" in said:
            raise NoAnswer("an error in slalom-xai itself; the server's log has more")
        return said["result"]

    def _sign_on(self) -> None:
        """Tells other servers on this store which models there are here."""
        specs = [keeper.spec for keeper in self._keepers]
        self._jobs.sign_on({spec.owner: self.models[spec.name].known for spec in specs})

    def _find_unmatched(self) -> None:
        """Ends jobs for other models of the same names, which no server has had since the start.

        A server that was there when this one started has given a sign within one lease. It may be
        started again, and its jobs wait for it.
        """
        if time.time() < self._started + self._limits.lease:
            return
        found = self._jobs.fail_unmatched(list(self.models), since=self._started)
        if found:
            log.warning("%d jobs were for other models of the same names and have failed", found)

    def _find_lost(self) -> None:
        """Puts back jobs whose worker has died with its server."""
        while not self.ending.wait(self._limits.lease / 3):
            try:
                self._sign_on()
                self._find_unmatched()
                before = time.time() - self._limits.lease
                found = self._jobs.hand_back_lost(before=before, most=self._limits.attempts)
            except sqlite3.Error as error:
                log.error("lost jobs could not be looked for: %s", error)
                continue
            if found:
                log.warning("%d jobs were lost by their workers and wait again", found)
                for model in self.models:
                    self.wake(model)

    def heard(self, spec: WorkerSpec, said: dict[str, Any]) -> None:
        """A worker is ready, or its model cannot be loaded."""
        model = self.models[spec.name]
        if said["say"] == "ready":
            model.facts = {name: said[name] for name in said if name != "say"}
            model.state, model.message = "ready", None
            log.info("model %s is ready", spec.name)
        else:
            model.state, model.message = "failed", spec.without_paths(said["message"])
            log.error("model %s cannot be loaded: %s", spec.name, said["message"])

    def died(self, spec: WorkerSpec, code: int, failures: int) -> None:
        """A worker ended by itself: its jobs wait again."""
        self.restarts += 1
        log.error("a worker of %s ended (status %d) and is replaced", spec.name, code)
        model = self.models[spec.name]
        if not any(keeper.ready for keeper in self._keepers if keeper.spec.name == spec.name):
            model.state = "loading"
            if failures >= _MANY:
                model.state = "failed"
                model.message = f"its worker ended {failures} times; the server's log has more"
        self._jobs.hand_back(spec.owner, most=self._limits.attempts)
