"""``slalom corpus --engine ray``: the bytes of a local run, whoever is killed meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from killed_corpus import files
from servers import until
from tiny import CORPUS

from research.benchmarks.sessions import AS_URGENT, end_session, kill_process, workers_of
from slalom_xai.data.corpus import ExplainOptions, explain_corpus
from slalom_xai.data.corpus.staging import PartSize

pytestmark = pytest.mark.ray

PARTS, TEXTS = 24, 3


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Short texts, of which one cannot be explained."""
    path = tmp_path_factory.mktemp("table") / "texts.jsonl"
    beginnings = [" ".join(text.split()[:6]) for text in CORPUS]
    texts = [f"{beginnings[n % len(CORPUS)]} {n}" for n in range(PARTS * TEXTS)]
    texts[7] = ""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, table, model):
    """The files of a run in one process."""
    out = tmp_path_factory.mktemp("local") / "out"
    options = ExplainOptions(model=model, budget=60)
    explain_corpus(table, out, options, size=PartSize(texts=TEXTS), show_progress=False)
    return files(out)


@contextmanager
def running(table, model, out, *more):
    """The command with two actors, in a session of which nothing is left behind."""
    command = [sys.executable, "-m", "slalom_xai", "corpus", table, "--model", model]
    command += ["--budget", 60, "--part-texts", TEXTS, "--out", out, "--engine", "ray", "--json"]
    process = subprocess.Popen(
        list(map(str, [*command, "--workers", 2, *more])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=AS_URGENT,
    )
    try:
        yield process
    finally:
        process.kill()
        end_session(process.pid)
        process.communicate()


def explained(out):
    return len(list(out.glob("parts/*.parquet")))


def at_work(process, out):
    """Waits until some parts are explained, and others are not."""
    until(lambda: explained(out) >= 2 or process.poll() is not None, "some parts")
    assert process.poll() is None, process.stderr.read()


def finished(process):
    """What a run says that ends by itself."""
    said, problems = process.communicate()
    assert process.returncode == 1, problems  # one text failed
    summary = json.loads(said)
    assert (summary["explained"], summary["failed"]) == (PARTS * TEXTS - 1, 1)


def test_two_actors_of_which_one_is_killed_give_the_bytes_of_one_process(
    table, model, undisturbed, tmp_path
):
    with running(table, model, tmp_path / "out") as process:
        at_work(process, tmp_path / "out")
        killed = workers_of(process.pid)[0]
        assert kill_process(killed)
        assert explained(tmp_path / "out") < PARTS
        finished(process)
    assert files(tmp_path / "out") == undisturbed


def test_a_run_whose_driver_is_killed_goes_on(table, model, undisturbed, tmp_path):
    with running(table, model, tmp_path / "out") as process:
        at_work(process, tmp_path / "out")
        process.kill()
        process.wait()
        assert explained(tmp_path / "out") < PARTS
        # What it leaves behind is still there when the next one begins.
        with running(table, model, tmp_path / "out") as another:
            finished(another)
    assert files(tmp_path / "out") == undisturbed
    assert not list((tmp_path / "out" / "staged").iterdir())


def test_a_cluster_that_is_not_there_is_one_line(table, model, tmp_path):
    with running(table, model, tmp_path / "out", "--ray-address", "127.0.0.1:1") as process:
        said, problems = process.communicate()
    assert process.returncode == 1
    assert said == ""
    assert problems.startswith("error: the Ray cluster 127.0.0.1:1 cannot be reached")
    assert problems.count("\n") == 1
