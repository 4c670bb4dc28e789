"""`slalom serve` as a process of its own, and a small client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import started

PATIENCE = 600  # seconds; far beyond what a busy machine needs


@dataclass
class Reply:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]


@dataclass
class Server:
    """A running server."""

    process: Any
    port: int
    address: str
    log_file: Path
    store: Path
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Asks; names of headers are written with underscores."""
        given = {**self.headers}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.request("POST", path, body, **headers)

    def ask(self, text: str, **settings: Any) -> dict[str, Any]:
        """Asks for an explanation; the job at once."""
        reply = self.post("/api/jobs", {"model": "embedded", "text": text, **settings})
        assert reply.status in (200, 202), reply.body
        return reply.json

    def job(self, number: int) -> dict[str, Any]:
        return self.get(f"/api/jobs/{number}").json

    def events(self, number: int) -> Iterator[dict[str, Any]]:
        """A job at each of its changes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", f"/api/jobs/{number}/events", headers=self.headers)
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def ended(self, number: int) -> dict[str, Any]:
        """A job when it has ended."""
        return list(self.events(number))[-1]

    def explained(self, text: str, **settings: Any) -> dict[str, Any]:
        """A job that is done."""
        job = self.ended(self.ask(text, **settings)["id"])
        assert job["state"] == "done", job
        return job

    def model(self, name: str) -> dict[str, Any]:
        models = self.get("/api/models").json["models"]
        return next(model for model in models if model["name"] == name)

    def ready(self, name: str = "embedded") -> dict[str, Any]:
        """A model when it is loaded."""
        until(lambda: self.model(name)["state"] != "loading", "the model to be loaded", self)
        return self.model(name)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def workers(self) -> list[int]:
        """The processes of the workers."""
        found = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(number) for file in found for number in file.read_text().split()]

    def stop(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


def until(condition: Any, what: str, server: Server | None = None) -> None:
    """Waits for a condition; an error after minutes, with the server's log."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            said = "" if server is None else server.log
            raise AssertionError(f"waited in vain for {what}\n{said}")
        time.sleep(0.05)


def command(*options: Any) -> list[str]:
    return [sys.executable, "-m", "slalom_xai", "serve", *map(str, options)]


@contextlib.contextmanager
def serving(folder: Path, *options: Any, headers: Any = None) -> Iterator[Server]:
    """A server on a free port, with its store and its log in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    log, store = folder / "log.txt", folder / "store.sqlite"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    given = command("--port", 0, "--store", store, *options)
    with (
        log.open("a") as said,
        started(given, stdout=-1, stderr=said, text=True, env=environment) as process,
    ):
        line = process.stdout.readline()
        found = re.search(r"Slalom serves (http://[^:]+:(\d+)\S*)", line)
        assert found, log.read_text()
        server = Server(process, int(found[2]), found[1], log, store, headers or {})
        try:
            yield server
        finally:
            if process.poll() is None:
                server.stop()
