"""A job is answered by the model that it was asked of, whatever other models are called."""

import shutil
import sqlite3
import time

import pytest
import torch
from servers import serving, until
from tiny import _bert

from slalom_xai.serve.store.file import CHANGES, VERSION, Results, Store, as_json
from slalom_xai.serve.store.jobs import Bound, Jobs
from slalom_xai.serve.supervisor import Supervisor
from slalom_xai.serve.work.spec import Limits, WorkerSpec, bound_to

SETTINGS = as_json(
    {
        "method": "slalom",
        "granularity": "word",
        "target": None,
        "removal": "delete",
        "budget": 40,
        "seed": 0,
    }
)
HERE, THERE = Bound("m", "here", "one"), Bound("m", "there", "two")
TEXTS = [f"good film {number}" for number in range(6)]


def saved(folder, seed, labels):
    """A tiny model with weights and labels of its own."""
    torch.manual_seed(seed)
    model, words = _bert()
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: index for index, label in enumerate(labels)}
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two models, each with labels that no other has."""
    root = tmp_path_factory.mktemp("models")
    return saved(root / "one", 3, ["bad", "good"]), saved(root / "two", 4, ["minus", "plus"])


@pytest.fixture
def jobs(tmp_path):
    return Jobs(Store(tmp_path / "store.sqlite"))


def add(jobs, model, text="text"):
    return jobs.add(model, text, None, SETTINGS, most=9)


def test_a_name_alone_claims_nothing(jobs):
    first = add(jobs, HERE)
    second = add(jobs, THERE)
    assert jobs.claim(Bound("m", "elsewhere", "one"), "w", 9) == []
    assert jobs.claim(Bound("m", "here", "other weights"), "w", 9) == []
    assert [task.id for task in jobs.claim(THERE, "w", 9)] == [second]
    assert [task.id for task in jobs.claim(HERE, "w", 9)] == [first]


def test_a_queue_is_that_of_one_model(jobs):
    for _ in range(2):
        add(jobs, HERE)
    job = add(jobs, THERE)
    assert jobs.find(job)["ahead"] == 0
    assert jobs.open_counts(HERE) == {"queued": 2}
    jobs.claim(HERE, "w", 1)
    assert jobs.open_counts(HERE) == {"queued": 1, "running": 1}
    assert jobs.open_counts(THERE) == {"queued": 1}
    assert jobs.counts() == {("m", "queued"): 2, ("m", "running"): 1}


def test_a_job_that_was_asked_before_its_model_was_loaded_is_bound_when_it_is(jobs):
    loading = Bound("m", "here")
    first, second = add(jobs, loading), add(jobs, loading)
    jobs.sign_on({"w": loading})
    assert [task.id for task in jobs.claim(HERE, "w", 1)] == [first]
    assert jobs.find(first)["fingerprint"] == "one"
    assert jobs.find(second)["fingerprint"] is None
    jobs.has_loaded("w", HERE)
    assert jobs.find(second)["fingerprint"] == "one"
    jobs.hand_back("w", most=3)
    assert jobs.claim(Bound("m", "here", "later weights"), "x", 9) == []


def test_a_job_fails_with_a_reason_only_where_nobody_has_its_model(jobs):
    here, there, other = add(jobs, HERE), add(jobs, THERE), add(jobs, Bound("other", "x"))
    jobs.sign_on({"w": Bound("m", "here")})
    assert jobs.fail_unmatched(["m"], since=0.0) == 1  # what is loaded may be the right one
    assert jobs.find(there)["state"] == "failed"
    assert jobs.find(there)["error"].startswith("the model of this name is another one than when")
    jobs.has_loaded("w", HERE)
    assert jobs.fail_unmatched(["m"], since=0.0) == 0
    assert jobs.fail_unmatched(["m"], since=time.time() + 9) == 1  # no sign for so long
    assert jobs.find(here)["state"] == "failed"
    assert jobs.find(other)["state"] == "queued"  # it waits for a server with this model


def test_jobs_of_a_store_from_before_wait_for_nobody_and_its_results_stay(tmp_path):
    path = tmp_path / "store.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(CHANGES[0])
    connection.execute(
        "INSERT INTO jobs (model, settings, text, created) VALUES ('m', ?, 'text', 0)", (SETTINGS,)
    )
    connection.execute(
        "INSERT INTO explanations VALUES ('k', 0, 'm', ?, '9 calls', 9, 0.5, NULL, '', '')",
        (SETTINGS,),
    )
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    store = Store(path)
    jobs = Jobs(store)
    assert store.connection.execute("PRAGMA user_version").fetchone()[0] == VERSION
    assert jobs.claim(HERE, "w", 9) == []
    jobs.sign_on({"w": HERE})
    assert jobs.fail_unmatched(["m"], since=0.0) == 1
    known = Results(store).known("k")
    assert (known.model, known.fingerprint, known.predicted) == ("m", "", None)


def test_two_servers_with_one_store_and_one_name_answer_their_own_jobs(tmp_path, folders):
    """Both are asked before their models are loaded, and after."""
    with (
        serving(tmp_path, "--model", f"mine={folders[0]}") as one,
        serving(tmp_path, "--model", f"mine={folders[1]}") as two,
    ):
        labels = {one.port: ["bad", "good"], two.port: ["minus", "plus"]}
        early = [(server, server.ask(TEXTS[0], model="mine", budget=40)) for server in (one, two)]
        one.ready("mine")
        two.ready("mine")
        later = [
            (server, server.ask(text, model="mine", budget=40))
            for text in TEXTS
            for server in (one, two)
        ]
        keys = []
        for server, job in early + later:
            done = server.ended(job["id"])
            assert done["state"] == "done", done
            assert done["predicted"] in labels[server.port]
            assert done["fingerprint"] == server.model("mine")["fingerprint"]
            kept = server.get(f"/api/explanations/{done['key']}").json
            assert kept["outputs"]["labels"] == labels[server.port]
            keys.append(done["key"])
        for server, folder, own, others in (
            (one, folders[0], *keys[:2]),
            (two, folders[1], *keys[1::-1]),
        ):
            code = server.get(f"/api/explanations/{own}/snippet").json["python"]
            assert f"model={str(folder)!r}," in code
            code = server.get(f"/api/explanations/{others}/snippet").json["python"]
            assert str(folder) not in code.partition("#")[0]
            assert "which this server no longer has" in code
        body = {"model": "mine", "text": TEXTS[0], "fingerprint": two.model("mine")["fingerprint"]}
        assert two.post("/api/predict", body).status == 200
        refused = one.post("/api/predict", body)
        assert refused.status == 409
        assert "is another one than the one that was explained" in refused.error


@pytest.mark.slow
def test_jobs_for_other_weights_fail_with_a_reason_after_a_restart(tmp_path, folders):
    """The same folder holds other weights, and then the same name another folder."""
    folder, path = tmp_path / "model", tmp_path / "store.sqlite"
    shutil.copytree(folders[0], folder)
    jobs = Jobs(Store(path))
    limits = Limits(lease=0.6)

    def spec(source):
        place = str(source)
        return WorkerSpec("mine", place, str(path), bound_to(place, None, None), limits=limits)

    def run(source, condition):
        server = Supervisor([spec(source)], 1, jobs, limits)
        server.start()
        try:
            until(lambda: server.models["mine"].state == "ready", "the model to be loaded")
            known = server.models["mine"].known
            until(lambda: condition(known), "the jobs to end")
        finally:
            server.stop()
        return known

    before = run(folder, lambda _: True)
    old = add(jobs, before)
    shutil.copytree(folders[1], folder, dirs_exist_ok=True)
    elsewhere = add(jobs, Bound("mine", bound_to(str(folders[0]), None, None)))
    run(folder, lambda known: jobs.find(old)["state"] == "failed")
    assert "other weights" in jobs.find(old)["error"]
    assert jobs.find(elsewhere)["state"] == "failed"
    own = add(jobs, Bound("mine", bound_to(str(folders[1]), None, None)))
    run(folders[1], lambda known: jobs.find(own)["state"] == "done")
    assert jobs.find(own)["predicted"] in ("minus", "plus")


def test_a_model_is_bound_to_the_folder_behind_a_link_its_precision_and_its_labels(
    tmp_path, folders
):
    link = tmp_path / "latest"
    link.symlink_to(folders[0])
    first = bound_to(str(link), None, None)
    assert first == bound_to(str(folders[0]), None, None)
    link.unlink()
    link.symlink_to(folders[1])
    others = [bound_to(str(link), None, None), bound_to(str(folders[0]), "bfloat16", None)]
    others += [bound_to(str(folders[0]), None, ("a", "b")), bound_to(None, None, None)]
    assert len({first, *others}) == 5
