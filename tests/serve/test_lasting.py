"""Nothing is lost: not by a full queue, a killed worker, a stopped server or a dead one."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from servers import serving, until

from slalom_xai import Explainer

TEXTS = [f"The film number {number} is slow, but its end is wonderful." for number in range(6)]


def running(server, number):
    until(lambda: server.job(number)["state"] == "running", f"job {number} to begin", server)


@pytest.mark.long
@pytest.mark.slow
def test_jobs_last_over_a_killed_worker_a_stop_and_a_killed_server(tmp_path):
    """One course through everything that may happen to a server, with one store."""
    with serving(tmp_path, "--queue", 3) as server:
        numbers = [server.ask(text)["id"] for text in TEXTS[:3]]  # its model is being loaded
        refused = server.post("/api/jobs", {"model": "embedded", "text": TEXTS[3]})
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) > 0
        assert refused.error == "3 jobs wait for embedded already: try again later"
        assert server.job(numbers[2])["ahead"] == 2
        cancelled = server.request("DELETE", f"/api/jobs/{numbers[1]}").json
        assert cancelled["state"] == "cancelled"
        running(server, numbers[0])
        (worker,) = server.workers
        os.kill(worker, signal.SIGKILL)
        assert server.ended(numbers[0])["state"] == "done"
        assert server.workers != [worker]
        assert "slalom_worker_restarts_total 1" in server.get("/metrics").body.decode()
        assert "slalom_refused_total 1" in server.get("/metrics").body.decode()
        until(lambda: server.model("embedded")["state"] == "ready", "another worker", server)
        later = [server.ask(text)["id"] for text in TEXTS[3:5]]
        running(server, later[0])
        server.stop(signal.SIGTERM)
    with serving(tmp_path, "--model", "twin=embedded", "--model", "embedded") as server:
        jobs = {number: server.job(number) for number in later}
        assert {job["state"] for job in jobs.values()} <= {"queued", "running", "done"}
        assert all(server.ended(number)["state"] == "done" for number in later)
        assert server.job(numbers[1])["state"] == "cancelled"
        server.ready("twin")
        known = server.post("/api/jobs", {"model": "twin", "text": TEXTS[0]})
        assert known.status == 200  # the same weights by another name, and another day
        assert known.json["key"] == server.job(numbers[0])["key"]
        last = server.ask(TEXTS[5])["id"]
        running(server, last)
        server.process.kill()
        server.process.wait()
    with serving(tmp_path) as server:
        assert server.ended(last)["state"] == "done"
        everything = server.get("/api/jobs").json["jobs"]
        assert [job["state"] for job in everything].count("done") == len(everything) - 1
        saved = server.get(f"/api/explanations/{server.job(last)['key']}").json
        assert saved["text"] == TEXTS[5]


@pytest.mark.long
def test_many_clients_lose_nothing_and_get_what_explainer_gives(server):
    """Four clients, twenty jobs, some of them asked twice."""
    server.ready()
    texts = [f"A film of kind {number % 15}, warm and dull." for number in range(20)]
    keys: dict[int, str] = {}

    def client(own):
        for number in own:
            keys[number] = server.explained(texts[number], budget=45)["key"]

    clients = [threading.Thread(target=client, args=(range(k, 20, 4),)) for k in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert sorted(keys) == list(range(20))
    assert len(set(keys.values())) == 15
    expected = Explainer(budget=45)(texts[7])
    found = server.get(f"/api/explanations/{keys[7]}").json["full"]
    assert found == pytest.approx(expected.full, rel=2e-5)  # it was explained beside other texts


@pytest.mark.long
def test_several_workers_share_one_queue(tmp_path, tiny_folder):
    with serving(tmp_path, "--workers", 2, "--model", f"tiny={tiny_folder}") as server:
        server.ready("tiny")
        numbers = [server.ask(f"good film {n}", model="tiny", seed=n)["id"] for n in range(6)]
        assert {server.ended(number)["state"] for number in numbers} == {"done"}
        assert len(server.workers) == 2
