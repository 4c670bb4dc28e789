"""``slalom explain --api`` against a server on a port."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading

import pytest
import uvicorn
from api_servers import PROMPT, ApiServer, Fault, planted_log_odds
from servers import until

from slalom_xai import Explanation

pytestmark = pytest.mark.usefixtures("own_cache")

TEXT = "a slow start and then a warm film"
KEY = "sk-planted-0123456789"


@contextlib.contextmanager
def on_a_port(server: ApiServer):
    """The address of a server in a thread of this process."""
    running = uvicorn.Server(uvicorn.Config(server.app, port=0, log_level="error"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        until(lambda: running.started, "the server to start")
        port = running.servers[0].sockets[0].getsockname()[1]
        yield f"http://localhost:{port}/v1"
    finally:
        running.should_exit = True
        thread.join()


@pytest.fixture
def api(tmp_path):
    """Options for a model, and where its prompt is."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT)
    labels = ("--label", "bad=0", "--label", "good=1")
    return ("--api-model", "planted", *labels, "--prompt", prompt, "--budget", 60)


def test_a_model_behind_an_api_is_explained(slalom, api, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED_KEY", KEY)
    server = ApiServer(faults=itertools.cycle([None, None, None, Fault(500)]))
    out = tmp_path / "explanation.json"
    options = ("--key-variable", "PLANTED_KEY", "--price", "2,8", "--yes", "--out", out)
    with on_a_port(server) as address:
        done = slalom("explain", TEXT, "--api", address, *api, *options)
    assert done.returncode == 0, done.stderr
    assert "up to 61 calls, about" in done.stderr
    assert "a cost of about" in done.stderr
    (spent,) = [line for line in done.stderr.splitlines() if "requests tried again" in line]
    assert f"{server.billed} calls" in spent
    loaded = Explanation.load(out)
    assert loaded.prediction == pytest.approx(planted_log_odds(TEXT))
    assert loaded.model.startswith("planted at localhost:")
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    files = [file for file in tmp_path.rglob("*") if file.is_file()]  # the cache is among them
    written = [file.read_bytes().decode("latin-1") for file in files]
    assert not [text for text in [*written, done.stdout, done.stderr] if KEY in text]


def test_programs_get_json_alone_on_standard_output(slalom, api):
    with on_a_port(ApiServer()) as address:
        done = slalom("explain", TEXT, "--api", address, *api, "--yes", "--json")
    assert json.loads(done.stdout)["model"].startswith("planted at localhost:")


def test_nothing_is_sent_unless_somebody_agrees(slalom, api):
    server = ApiServer()
    with on_a_port(server) as address:
        done = slalom("explain", TEXT, "--api", address, *api)
    assert done.returncode == 1
    assert "give --yes to begin" in done.stderr
    assert server.requests == []


def test_a_cap_ends_the_run_with_one_line(slalom, api):
    server = ApiServer()
    with on_a_port(server) as address:
        done = slalom("explain", TEXT, "--api", address, *api, "--yes", "--max-calls", 20)
    assert done.returncode == 1
    assert "error: --max-calls 20 allows no further call after 20 calls" in done.stderr
    assert server.billed == 20


def test_without_a_budget_a_cap_sets_one(slalom, api):
    server = ApiServer()
    with on_a_port(server) as address:
        done = slalom("explain", TEXT, "--api", address, *api[:-2], "--yes", "--max-calls", 80)
    assert done.returncode == 0, done.stderr
    assert 40 < server.billed <= 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--yes",), "--yes is given without --api"),
        (("--api", "http://localhost:1"), "--api is given without --api-model"),
        (("--api", "http://localhost:1", "--model", "x"), "--model and --api are both given"),
        (
            ("--api", "http://localhost:1", "--api-model", "m", "--label", "good"),
            "--label is 'good': give each class once",
        ),
        (
            ("--api", "http://localhost:1", "--api-model", "m", "--label", "good=1"),
            "--api needs two labels or more",
        ),
    ],
)
def test_wrong_options_are_one_line(slalom, options, message):
    done = slalom("explain", TEXT, *options)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
