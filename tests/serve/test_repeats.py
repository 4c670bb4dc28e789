"""To which digit a result repeats: to the last one alone, to three beside other jobs."""

import json
import os
import signal
import threading

import numpy as np
import pytest
from damaged_stores import SETTINGS
from servers import serving, until

from slalom_xai import Explainer, Explanation
from slalom_xai.explanation.saving import file_content
from slalom_xai.models.load import text_model
from slalom_xai.serve.store.file import Results, Store
from slalom_xai.serve.store.jobs import Bound, Jobs
from slalom_xai.serve.work.explaining import JobWorker
from slalom_xai.serve.work.spec import WorkerSpec

ENDS = ("wonderful", "dull", "truly moving, and warm", "awful", "a joke", "fine", "over", "long")
TEXTS = [
    f"The film number {number} is slow, but its end is {end}." for number, end in enumerate(ENDS)
]
ALIKE = 5e-4  # of the largest score of a text: what docs/serve.md promises
MODEL = Bound("embedded", "", "f")


@pytest.fixture(scope="module")
def model():
    return text_model(None)


@pytest.fixture(scope="module")
def alone():
    """Each text explained by itself."""
    return [Explainer()(text) for text in TEXTS]


def files(path, model, *, killed):
    """What a worker keeps of all texts; those of a worker that was killed are begun one by one."""
    store = Store(path)
    jobs, results = Jobs(store), Results(store)
    for text in TEXTS:
        jobs.add(MODEL, text, None, SETTINGS, most=99)
    if killed:
        assert len(jobs.claim(MODEL, "killed", 99)) == len(TEXTS)
        jobs.hand_back("killed", most=3)
    spec = WorkerSpec("embedded", None, str(path), owner="w")
    worker = JobWorker(spec, model, MODEL, jobs, results, threading.Event(), lambda *_: None)
    turns = 0
    while worker.work():
        turns += 1
    assert turns == (len(TEXTS) if killed else 1)
    return [results.file(jobs.find(number + 1)["key"]) for number in range(len(TEXTS))]


def check_alike(one, other):
    """The numbers that a reader sees, to three digits; everything that is counted, exactly."""
    for name in ("units", "target", "calls", "method", "surrogate", "notes"):
        assert getattr(one, name) == getattr(other, name)
    for name in one.score_names:
        scores = one.scores(name)
        np.testing.assert_allclose(
            other.scores(name), scores, rtol=0, atol=ALIKE * np.abs(scores).max(), err_msg=name
        )
    assert other.full == pytest.approx(one.full, rel=ALIKE)
    assert other.fidelity.any.r2 == pytest.approx(one.fidelity.any.r2, abs=ALIKE)
    rows = np.random.default_rng(0).random((40, len(one.units))) < 0.6
    rows[:, 0] = True
    expected = one.predict(rows)
    np.testing.assert_allclose(
        other.predict(rows), expected, rtol=0, atol=ALIKE * np.abs(expected).max()
    )


def test_a_job_that_is_begun_again_alone_is_repeated_to_the_last_byte(tmp_path, model, alone):
    kept = files(tmp_path / "store.sqlite", model, killed=True)
    assert kept == [file_content(explanation) for explanation in alone]


def test_jobs_that_are_explained_together_repeat_to_three_digits(tmp_path, model, alone):
    """The model computes in other batches, and rounds otherwise."""
    kept = files(tmp_path / "store.sqlite", model, killed=False)
    assert kept != [file_content(explanation) for explanation in alone]
    for content, explanation in zip(kept, alone, strict=True):
        check_alike(explanation, Explanation.from_dict(json.loads(content)))
    assert kept == files(tmp_path / "again.sqlite", model, killed=False)  # the same batches


@pytest.mark.long
def test_results_repeat_whenever_workers_are_killed(tmp_path, alone):
    with serving(tmp_path) as server:
        server.ready()
        numbers = [server.ask(text)["id"] for text in TEXTS]
        for number in numbers[:2]:
            until(lambda number=number: server.job(number)["state"] != "queued", "a job", server)
            for worker in server.workers:
                os.kill(worker, signal.SIGKILL)
        for number, explanation in zip(numbers, alone, strict=True):
            job = server.ended(number)
            assert job["state"] == "done", job
            content = server.get(f"/api/explanations/{job['key']}").json
            check_alike(explanation, Explanation.from_dict(content))
