"""``slalom explain --api`` and ``slalom cite --api`` against a server on a port."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading

import pytest
import uvicorn
from api_servers import (
    PROMPT,
    ApiServer,
    Fault,
    ScoringServer,
    planted_answer,
    planted_log_odds,
    sentences,
)
from servers import until

from slalom_xai import Explanation
from slalom_xai.data.corpus import Corpus

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


CONTEXT = "The plot is thin. The actors are warm. I laughed a lot. The end is weak. Nobody slept."
ASKED = ("--question", "How was it?", "--api-model", "planted", "--key-variable", "PLANTED_KEY")


@pytest.fixture
def context(tmp_path):
    file = tmp_path / "context.txt"
    file.write_text(CONTEXT)
    return file


def test_an_answer_of_a_server_is_cited(slalom, context, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED_KEY", KEY)
    server = ScoringServer(faults=itertools.cycle([None, None, None, Fault(500)]))
    out = tmp_path / "cite.json"
    options = ("--price", "2,8", "--budget", 30, "--yes", "--out", out)
    with on_a_port(server) as address:
        done = slalom("cite", "--api", address, *ASKED, "--context", context, *options)
    assert done.returncode == 0, done.stderr
    # The budget, the whole text again (is the model steady?), no context, the own answer.
    assert "Asking planted at localhost" in done.stderr
    assert "up to 33 calls, about" in done.stderr
    assert f"{server.billed} calls" in done.stderr
    assert "Answer: It was good." in done.stdout
    loaded = Explanation.load(out)
    assert loaded.reply == "It was good."
    assert loaded.prediction == pytest.approx(planted_answer(CONTEXT))
    assert [unit.text for unit in loaded.units] == sentences(CONTEXT)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]  # the cache is among them
    written = [file.read_bytes().decode("latin-1") for file in files]
    assert not [text for text in [*written, done.stdout, done.stderr] if KEY in text]


def test_sources_at_a_server_are_cited_within_a_cap(slalom, context, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("The music helps.\n\nIt is long.")
    server = ScoringServer()
    given = ("--sources", context, "--sources", other, "--answer", "It was good.")
    with on_a_port(server) as address:
        done = slalom(
            "cite", "--api", address, *ASKED, *given, "--max-calls", 20, "--yes", "--json"
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [unit["text"] for unit in found["units"]] == [CONTEXT, other.read_text()]
    assert server.billed <= 20
    assert all(body["echo"] for body in server.requests)


def test_a_cap_on_answers_ends_the_run_with_one_line(slalom, context):
    server = ScoringServer()
    options = ("--context", context, "--budget", 30, "--max-calls", 12, "--yes")
    with on_a_port(server) as address:
        done = slalom("cite", "--api", address, *ASKED, *options)
    assert done.returncode == 1
    assert "error: --max-calls 12 allows no further call after 12 calls" in done.stderr
    assert server.billed == 12


def test_no_answer_is_asked_for_unless_somebody_agrees(slalom, context):
    server = ScoringServer()
    with on_a_port(server) as address:
        done = slalom("cite", "--api", address, *ASKED, "--context", context)
    assert done.returncode == 1
    assert "give --yes to begin" in done.stderr
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "there is no language model: give --model FOLDER, or --api URL"),
        (("--model", "x", "--max-calls", 5), "--max-calls is given without --api"),
        (("--model", "x", "--api", "http://localhost:1"), "--model and --api are both given"),
        (("--api", "http://localhost:1"), "--api is given without --api-model"),
        (("--api", "http://localhost:1", "--device", "cpu"), "--device is given with --api"),
    ],
)
def test_wrong_options_of_cite_are_one_line(slalom, context, options, message):
    done = slalom("cite", "--question", "Why?", "--context", context, *options)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


class TestCorpus:
    """``slalom corpus --api``: one purse for all texts and all runs."""

    TEXTS = ("a slow start and then a warm film", "the plot is thin but the actors are warm", "")

    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "texts.csv"
        path.write_text("text\n" + "".join(f'"{text}"\n' for text in self.TEXTS))
        return path

    def test_a_cap_holds_over_runs_and_nothing_is_paid_twice(self, slalom, api, table, tmp_path):
        server = ApiServer()
        out = tmp_path / "out"
        with on_a_port(server) as address:
            given = ("corpus", table, "--out", out, "--api", address, *api, "--yes")
            capped = slalom(*given, "--max-calls", 70)
            assert capped.returncode == 1
            assert "error: --max-calls 70 allows no further call after 70 calls" in capped.stderr
            assert server.billed == 70
            again = slalom(*given, "--max-calls", 70)
            assert "allows no further call after 70 calls" in again.stderr
            assert server.billed == 70
            done = slalom(*given, "--max-calls", 200)
        assert done.returncode == 1, done.stderr  # one text is empty
        assert "Spent so far: 70 calls" in done.stderr
        assert f"in all runs: {server.billed} calls" in done.stderr
        asked = [body["messages"][0]["content"] for body in server.requests]
        repeats = len(asked) - len(set(asked))
        assert repeats <= 1  # one text is asked twice, to see whether the model repeats itself
        first, second, empty = Corpus.open(out).records()
        assert first["prediction"] == pytest.approx(planted_log_odds(self.TEXTS[0]))
        assert second["prediction"] == pytest.approx(planted_log_odds(self.TEXTS[1]))
        assert empty["status"] == "failed"

    def test_nothing_is_sent_unless_somebody_agrees(self, slalom, api, table, tmp_path):
        server = ApiServer()
        with on_a_port(server) as address:
            done = slalom("corpus", table, "--out", tmp_path / "out", "--api", address, *api)
        assert done.returncode == 1
        assert "about 3 texts: up to 183 calls" in done.stderr
        assert "give --yes to begin" in done.stderr
        assert server.requests == []

    @pytest.mark.parametrize(
        "more", [("--workers", 2), ("--shard", "1/2"), ("--engine", "ray"), ("--model", "x")]
    )
    def test_one_process_asks(self, slalom, api, table, tmp_path, more):
        given = ("--out", tmp_path / "out", "--api", "http://localhost:1", *api, "--yes", *more)
        done = slalom("corpus", table, *given)
        assert done.returncode == 1
        assert "leave" in done.stderr
        assert done.stderr.count("\n") == 1
