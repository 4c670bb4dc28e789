"""How `slalom serve` bears load: jobs of many clients beside the bare list call of one process.

    python -m research.benchmarks.serve_load
    python -m research.benchmarks.serve_load --part rows --rows 100000

Parts:

- ``jobs``: 200 jobs of 20 clients with the embedded model, and ``Explainer(...)(texts)`` of one
  process on the same texts, in turns. Counts what was lost, and compares the time per text. Then
  asks more than the queue holds.
- ``rows``: a table of 100,000 rows, read by a server. Times the first page in each order, and
  watches the memory of the server.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_REVIEW = """the film is slow at first but its leads are wonderful and warm with a dull plot that
nobody saves until a moving last act makes every tired joke worth the wait again"""
_LIST = """
import json, resource, sys, time
from slalom_xai import Explainer
texts, budget = json.load(sys.stdin)
explainer = Explainer(budget=budget, show_progress=False)
explainer(texts[0])
started, busy = time.perf_counter(), time.process_time()
explainer(texts)
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(time.perf_counter() - started, time.process_time() - busy, most)
"""


class Server:
    """A server on a free port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), json.loads(answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """What is at a path."""
        return self.request("GET", path)[2]

    def follow(self, job: int) -> str:
        """The state in which a job ends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        state = "lost"
        try:
            connection.request("GET", f"/api/jobs/{job}/events")
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    state = json.loads(line[6:])["state"]
        finally:
            connection.close()
        return state

    def wait_for_model(self) -> None:
        """Waits until the model is loaded."""
        while self.get("/api/models")["models"][0]["state"] == "loading":
            time.sleep(0.1)

    def workers(self) -> list[int]:
        """Their process ids."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in children for pid in file.read_text().split()]

    def megabytes(self) -> tuple[float, float]:
        """Of the server, and of its workers together."""
        return _resident(self.process.pid), sum(_resident(pid) for pid in self.workers())

    def busy_seconds(self) -> tuple[float, float]:
        """Seconds of a processor that the server and its workers have used."""
        return _busy(self.process.pid), sum(_busy(pid) for pid in self.workers())


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def _busy(pid: int) -> float:
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[Server, float]]:
    """A server, and the seconds until it answered."""
    command = [sys.executable, "-m", "slalom_xai", "serve", "--port", "0"]
    command += ["--store", str(folder / "store.sqlite"), *options]
    started = time.perf_counter()
    with (folder / "log.txt").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        found = re.search(r"http://[^:]+:(\d+)", process.stdout.readline())
        if found is None:
            sys.exit((folder / "log.txt").read_text())
        server = Server(process, int(found[1]))
        server.get("/healthz")
        try:
            yield server, time.perf_counter() - started
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def made_texts(number: int, run: int) -> list[str]:
    """Short reviews of about 30 tokens, all different."""
    words, texts = _REVIEW.split(), []
    for index in range(number):
        turned = words[index % 13 :] + words[: index % 13]
        texts.append(f"{' '.join(turned[:26])}, number {run} {index}.")
    return texts


def measure_jobs(jobs: int, clients: int, budget: int, repeats: int) -> None:
    """Prints the time of a list call and of jobs, in turns, and what became of the jobs."""
    ratios, busy_ratios = [], []
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as (server, seconds):
        _print_start(server, seconds)
        server.wait_for_model()
        for run in range(repeats):
            texts = made_texts(jobs, run)
            listed, listed_busy, most = _list_seconds(texts, budget)
            before, busy_before = server.megabytes(), server.busy_seconds()
            took, states = _jobs_seconds(server, texts, clients, budget)
            after, busy_after = server.megabytes(), server.busy_seconds()
            own, work = (late - early for late, early in zip(busy_after, busy_before, strict=True))
            busy = own + work
            ratios.append(listed / took)
            busy_ratios.append(listed_busy / busy)
            print(
                f"run {run}: list call {listed:.1f} s ({listed_busy:.1f} s of a processor, "
                f"{most:.0f} MB at most), "
                f"{jobs} jobs of {clients} clients {took:.1f} s ({busy:.1f} s of a processor, "
                f"{own:.1f} s of them the server's): "
                f"throughput {ratios[-1]:.2f} of the list call's, "
                f"{busy_ratios[-1]:.2f} per second of a processor; {dict(states)}; "
                f"server {before[0]:.0f} to {after[0]:.0f} MB, "
                f"worker {before[1]:.0f} to {after[1]:.0f} MB",
                flush=True,
            )
    print(
        f"median throughput {statistics.median(ratios):.2f} of the list call's, "
        f"{statistics.median(busy_ratios):.2f} per second of a processor",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as place, serving(Path(place), "--queue", "20") as (few, _):
        asked = [_ask(few, text, budget) for text in made_texts(40, 99)]
        refused = [headers for status, headers, _ in asked if status == 503]
        waits = {headers.get("retry-after") for headers in refused}
        print(f"queue of 20, 40 asked at once: {len(refused)} refused, Retry-After {waits}")
        ends = Counter(few.follow(body["id"]) for status, _, body in asked if status == 202)
        print(f"the others: {dict(ends)}")


def _print_start(server: Server, seconds: float) -> None:
    busy = server.busy_seconds()[0]
    print(f"the server answers after {seconds:.2f} s ({busy:.2f} s of a processor)", flush=True)


def _list_seconds(texts: list[str], budget: int) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of a processor, and megabytes at most."""
    done = subprocess.run(
        [sys.executable, "-c", _LIST],
        input=json.dumps([texts, budget]),
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, busy, megabytes = map(float, done.stdout.split())
    return seconds, busy, megabytes


def _jobs_seconds(
    server: Server, texts: list[str], clients: int, budget: int
) -> tuple[float, Counter[str]]:
    states: Counter[str] = Counter()
    lock = threading.Lock()

    def client(own: list[str]) -> None:
        numbers = [_ask(server, text, budget)[2]["id"] for text in own]
        for number in numbers:
            state = server.follow(number)
            with lock:
                states[state] += 1

    threads = [threading.Thread(target=client, args=(texts[k::clients],)) for k in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started, states


def _ask(server: Server, text: str, budget: int) -> tuple[int, dict[str, str], Any]:
    body = {"model": "embedded", "text": text, "budget": budget}
    return server.request("POST", "/api/jobs", body)


def measure_rows(rows: int) -> None:
    """Prints how long the first page takes in each order, and the memory of the server."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "reviews.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "label"))
            for text in (f"{text} {text}" for text in made_texts(rows, 0)):
                writer.writerow((text, ("negative", "positive")[len(text) % 2]))
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        with serving(Path(place), "--data", str(path)) as (server, seconds):
            _print_start(server, seconds)
            _print_pages(server, "while it reads", ["sort=row"])
            started = time.perf_counter()
            while not server.get("/api/data")["imported"]:
                time.sleep(0.1)
            print(f"all rows are read {time.perf_counter() - started:.1f} s later")
            server.wait_for_model()
            while not server.get("/api/data")["predicted"].get("embedded"):
                time.sleep(0.1)
            orders = ["sort=row", "sort=label", "search=wonderful", "label=positive", "wrong=true"]
            for sort in ("probability", "prediction", "wrong", "fidelity"):
                orders.append(f"sort={sort}")
            _print_pages(
                server, "while the model predicts", [f"model=embedded&{o}" for o in orders]
            )
            _print_turning(server)


def _print_pages(server: Server, when: str, orders: list[str]) -> None:
    for order in orders:
        times = []
        for _ in range(5):
            started = time.perf_counter()
            server.get(f"/api/data/rows?{order}")
            times.append(1000 * (time.perf_counter() - started))
        usual = statistics.median(times)
        print(f"first page {when}, {order}: {usual:.0f} ms, {max(times):.0f} ms at most")


def _print_turning(server: Server) -> None:
    before, _ = server.megabytes()
    after, times = None, []
    for _ in range(200):
        cursor = "" if after is None else f"&after={after}"
        started = time.perf_counter()
        page = server.get(f"/api/data/rows?model=embedded&limit=200{cursor}")
        times.append(1000 * (time.perf_counter() - started))
        after = page["next"]
    print(
        f"200 pages of 200 rows: {max(times):.0f} ms at most; "
        f"server {before:.0f} to {server.megabytes()[0]:.0f} MB"
    )


def main() -> None:
    shown = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--part", choices=("jobs", "rows"), default="jobs")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--budget", type=int, default=100, help="model calls for each text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if given.part == "rows":
        measure_rows(given.rows)
    else:
        measure_jobs(given.jobs, given.clients, given.budget, given.repeats)


if __name__ == "__main__":
    main()
