"""Jobs: asked, followed, cancelled, and answered at once where the answer is known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slalom_xai import Explainer, Explanation
from slalom_xai.reports.view import explanation_data
from slalom_xai.serve.store.file import Result, Store, as_json
from slalom_xai.serve.store.jobs import Bound, Jobs, QueueFull

LONG = " ".join(
    f"The film was slow at times, but scene {number} is wonderful." for number in range(8)
)
REVIEW = Path(__file__).parents[2] / "examples" / "review.txt"
SETTINGS = as_json(
    {
        "method": "slalom",
        "granularity": "token",
        "target": None,
        "removal": "delete",
        "budget": None,
        "seed": 0,
    }
)
M = Bound("m", "here", "f")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store.sqlite")


def test_a_job_shows_its_first_round_while_it_refines_and_is_then_what_explainer_gives(server):
    server.ready()
    text = REVIEW.read_text()  # of a short text, the first round says enough
    asked = server.post("/api/jobs", {"model": "embedded", "text": text})
    assert asked.status == 202
    assert asked.json["state"] in ("queued", "running")
    assert asked.headers["location"] == f"jobs/{asked.json['id']}"
    rounds, previews = [], []
    for last in server.events(asked.json["id"]):
        if last["round"] and last["state"] == "running":
            rounds.append(last)
            previews.append(server.get(f"/api/jobs/{last['id']}/view"))
    assert rounds, "no preliminary result was shown"
    assert "reproduces" in rounds[0]["summary"]
    assert all(preview.status == 200 for preview in previews)
    assert last["state"] == "done"
    assert last["calls"] == last["expected"] > 0
    expected = Explainer()(text)
    saved = server.get(f"/api/explanations/{last['key']}").body.decode()
    assert Explanation.from_dict(json.loads(saved)).to_dict() == expected.to_dict()
    assert last["prediction"] == expected.prediction
    assert last["summary"].startswith(f"{expected.calls} calls")
    final = server.get(f"/api/jobs/{last['id']}/view").body
    assert final == server.get(f"/api/explanations/{last['key']}/view").body
    assert json.loads(final) == json.loads(as_json(explanation_data(expected)))


def test_the_file_is_byte_for_byte_what_an_explanation_saves(server, tmp_path):
    server.ready()
    job = server.explained("A warm and funny film.", granularity="word", seed=7, budget=60)
    expected = Explainer(granularity="word", random_state=7, budget=60)("A warm and funny film.")
    expected.save(tmp_path / "saved.json")
    saved = server.get(f"/api/explanations/{job['key']}").body
    assert saved == (tmp_path / "saved.json").read_bytes()


def test_a_known_answer_is_given_at_once(server):
    server.ready()
    first = server.explained("A fine film.", budget=40)
    again = server.post("/api/jobs", {"model": "embedded", "text": "A fine film.", "budget": 40})
    assert again.status == 200
    assert again.json["cached"]
    for name in ("state", "key", "calls", "summary", "prediction"):
        assert again.json[name] == first[name]


def test_other_weights_and_other_settings_are_other_questions(server):
    server.ready("tiny")
    keys = {
        server.explained("A good film.", budget=40)["key"],
        server.explained("A good film.", budget=40, model="tiny")["key"],
        server.explained("A good film.", budget=41)["key"],
        server.explained("A good film.", budget=40, seed=1)["key"],
        server.explained("A good film!", budget=40)["key"],
    }
    assert len(keys) == 5


def test_a_running_job_can_be_cancelled_and_the_next_one_is_answered(server):
    server.ready()
    job = server.ask(LONG + " Once more.", granularity="token", seed=11)
    for event in server.events(job["id"]):
        if event["state"] == "running":
            cancelled = server.request("DELETE", f"/api/jobs/{job['id']}").json
            assert cancelled["state"] == "cancelled"
    assert event["state"] == "cancelled"
    assert event["finished"] is not None
    assert server.explained("Next, please: a fine film.", budget=40)["state"] == "done"


def test_the_list_of_jobs_is_newest_first_and_paged(server):
    server.ready()
    numbers = [server.explained("One of three films.", budget=40)["id"] for _ in range(3)]
    long = server.ask("word " * 100, budget=1)["id"]
    listed = server.get("/api/jobs?limit=4").json["jobs"]
    assert [job["id"] for job in listed] == [long, *reversed(numbers)]
    assert listed[0]["text"].endswith("…")
    assert len(listed[0]["text"]) == 200
    before = server.get(f"/api/jobs?limit=2&before={numbers[2]}").json["jobs"]
    assert [job["id"] for job in before] == [numbers[1], numbers[0]]


def test_the_server_process_imports_neither_torch_nor_numpy(server):
    server.ready()
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "/fastapi/" in maps or "pydantic" in maps  # what is loaded can be seen here
    assert "/torch/" not in maps
    assert "/numpy/" not in maps


def test_help_needs_neither_torch_nor_the_packages_of_the_server():
    code = (
        "import sys; sys.argv = ['slalom', 'serve', '--help']\n"
        "from slalom_xai.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    assert not {'torch', 'fastapi', 'uvicorn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "slalom serve --open" in done.stdout


def result(key):
    return Result(key, "m", "f", SETTINGS, "9 calls", 9, 0.5, "good", 0.9, None, "{}", "{}")


def test_jobs_with_and_without_a_second_text_are_never_asked_in_one_list(store):
    jobs = Jobs(store)
    for pair in (None, "pair", None):
        jobs.add(M, "text", pair, SETTINGS, most=9)
    assert [task.id for task in jobs.claim(M, "w", 9)] == [1, 3]
    assert [task.text_pair for task in jobs.claim(M, "w", 9)] == ["pair"]


def test_a_job_whose_worker_died_is_taken_alone_and_given_up_after_three_times(store):
    jobs = Jobs(store)
    for _ in range(2):
        jobs.add(M, "text", None, SETTINGS, most=9)
    assert len(jobs.claim(M, "w", 9)) == 2
    assert jobs.hand_back("w", most=3) == 2
    for _ in range(2):
        assert [task.id for task in jobs.claim(M, "w", 9)] == [1]
        jobs.hand_back("w", most=3)
    assert jobs.find(1)["state"] == "failed"
    assert "ended 3 times" in jobs.find(1)["error"]
    assert jobs.find(2)["state"] == "queued"


def test_a_worker_that_is_told_to_stop_costs_no_attempt(store):
    jobs = Jobs(store)
    jobs.add(M, "text", None, SETTINGS, most=9)
    for _ in range(5):
        assert len(jobs.claim(M, "w", 9)) == 1
        assert jobs.hand_back("w", most=3, fault=False) == 1
    assert jobs.find(1)["state"] == "queued"


def test_the_result_of_a_job_that_was_cancelled_is_kept_and_the_job_stays_cancelled(store):
    jobs = Jobs(store)
    job = jobs.add(M, "text", None, SETTINGS, most=9)
    jobs.claim(M, "w", 9)
    assert jobs.still_wanted([job], "w") == {job}
    jobs.cancel(job)
    assert jobs.still_wanted([job], "w") == set()
    jobs.finish(job, result("k" * 32))
    assert jobs.find(job)["state"] == "cancelled"
    assert store.connection.execute("SELECT count(*) FROM explanations").fetchone()[0] == 1


def test_a_queue_has_an_end(store):
    jobs = Jobs(store)
    for _ in range(2):
        jobs.add(M, "text", None, SETTINGS, most=2)
    with pytest.raises(QueueFull):
        jobs.add(M, "text", None, SETTINGS, most=2)
    jobs.add(Bound("other", "there"), "text", None, SETTINGS, most=2)
    assert jobs.find(2)["ahead"] == 1


def test_jobs_of_a_worker_that_gives_no_sign_wait_again(store):
    jobs = Jobs(store)
    jobs.add(M, "text", None, SETTINGS, most=2)
    jobs.claim(M, "w", 1)
    assert jobs.hand_back_lost(before=0.0, most=3) == 0
    assert jobs.hand_back_lost(before=2e12, most=3) == 1
    assert jobs.find(1)["state"] == "queued"
