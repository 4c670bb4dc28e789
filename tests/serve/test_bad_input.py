"""Bad input: one clear line for a person, the right status for a program."""

import resource
import socket
import sqlite3
import subprocess
import sys

import pytest
from servers import command, serving, until

from slalom_xai.errors import InputError
from slalom_xai.serve.store.file import Store

HTML = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"model": "other"}, 404, "there is no model 'other': choose one of embedded, tiny"),
        ({"method": "magic"}, 400, "unknown method 'magic'"),
        ({"target": "happy"}, 400, "unknown class 'happy': choose one of negative, positive"),
        ({"granularity": "syllable"}, 422, "granularity: Input should be 'token'"),
        ({"removal": "burn"}, 422, "removal: Input should be 'auto', 'hide', 'delete'"),
        ({"text": ""}, 422, "text: String should have at least 1 character"),
        ({"text": " \n"}, 400, "the text is empty: give a text with at least one word"),
        ({"text": "a" * 100_001}, 413, "the text has 100,001 characters, and this server takes"),
        ({"budget": 0}, 422, "budget: Input should be greater than or equal to 1"),
        ({"budget": 20_001}, 400, "this server allows 20,000: give a smaller one"),
        ({"budget": "100"}, 422, "budget: Input should be a valid integer"),
        ({"seed": -1}, 422, "seed:"),
        ({"text": "\ud800"}, 422, "text:"),
        ({"colour": "red"}, 422, "colour: Extra inputs are not permitted"),
    ],
)
def test_a_job_that_cannot_be_asked_is_refused(server, body, status, said):
    server.ready()
    reply = server.post("/api/jobs", {"model": "embedded", "text": "A fine film.", **body})
    assert reply.status == status, reply.body
    assert said in reply.error
    assert "\n" not in reply.error
    assert len(reply.error) < 400


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"text": "word " * 600}, "512"),
        ({"text": "A fine film.", "budget": 2}, "budget"),
        ({"text": "A fine film.", "text_pair": "Another."}, "pair"),
        ({"text": "A fine film.", "model": "tiny", "method": "attention-rollout", "budget": 9}, ""),
    ],
)
def test_what_only_the_model_can_tell_ends_the_job_with_a_line(server, settings, said):
    server.ready(settings.get("model", "embedded"))
    job = server.ended(server.ask(**settings)["id"])
    if job["state"] == "done":
        assert said == ""
        return
    assert job["state"] == "failed"
    assert said in job["error"]
    assert "\n" not in job["error"]
    assert "/" not in job["error"]


def test_a_job_that_fails_takes_no_other_with_it(server):
    server.ready()
    texts = ["A fine film, surely.", "word " * 600, "Another fine film, surely.", "word " * 600]
    numbers = [server.ask(text, budget=41)["id"] for text in texts]
    states = [server.ended(number)["state"] for number in numbers]
    assert states == ["done", "failed", "done", "failed"]


def test_a_model_that_cannot_be_loaded_says_so_without_its_folder(server):
    model = server.ready(HTML)
    assert model["state"] == "failed"
    assert str(server.log_file.parents[1]) not in model["message"]
    refused = server.post("/api/jobs", {"model": HTML, "text": "A fine film."})
    assert refused.status == 409
    assert refused.error.startswith(f"the model {HTML} cannot be used: ")
    assert "not-there" in server.log  # whoever started the server sees it


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/jobs/999999", 404),
        ("/api/jobs/0", 422),
        ("/api/jobs/x", 422),
        (f"/api/explanations/{'0' * 32}", 404),
        (f"/api/explanations/{'0' * 32}/view", 404),
        (f"/api/explanations/{'0' * 32}/snippet", 404),
        (f"/api/explanations/{'0' * 32}/figure.svg", 404),
        (f"/api/explanations/{'0' * 32}/figure.exe", 422),
        (f"/api/report.html?keys={'0' * 32}", 404),
        ("/api/report.html?keys=x", 422),
        ("/api/report.html?keys=" + ",".join(["0" * 32] * 9), 400),
        ("/api/data/rows/99", 404),
        ("/api/data/rows?sort=price", 422),
        ("/api/data/rows?sort=wrong", 400),
        ("/api/data/rows?after=xyz", 400),
        ("/api/data/rows?model=other", 404),
        ("/nothing/here", 404),
        ("/api/jobs/", 404),
    ],
)
def test_addresses_that_name_nothing(server, path, status):
    reply = server.get(path)
    assert reply.status == status, reply.body
    assert reply.error
    assert "\n" not in reply.error


def test_the_wrong_method_is_told_so(server):
    assert server.request("PUT", "/api/jobs", {}).status == 405
    assert server.request("DELETE", "/api/jobs/999999").status == 404


def failed(*options, **settings):
    """What a start that fails says."""
    done = subprocess.run(
        command(*options), capture_output=True, text=True, check=False, timeout=300, **settings
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_port_in_use(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = failed("--port", port, "--store", tmp_path / "store.sqlite")
    assert f"port {port} is in use: give another with --port, or --port 0" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7"),
        (["--base-path", "/a b"], "--base-path is '/a b'"),
        (["--token", "short"], "the token has 5 characters: give 8 to 200 letters"),
        (["--allow-host", "https://a.example"], "--allow-host is 'https://a.example': give a name"),
        (["--allow-host", "a.example:80"], "--allow-host is 'a.example:80': give a name"),
        (["--model", "=x"], "--model is '=x': give NAME=FOLDER"),
        (["--model", "a=x", "--model", "a=y"], "--model names 'a' twice"),
        (["--labels", "a,,b"], "--labels is 'a,,b': give every class a name of its own"),
        (["--labels", "a,a"], "--labels is 'a,a': give every class a name of its own"),
        (["--labels", "a,b", "--labels", "c,d"], "--labels names the classes of 'embedded' twice"),
        (
            ["--model", "x=y", "--model", "z=y", "--labels", "a,b"],
            "--labels is 'a,b', and there are 2 models: say whose names they are, as x=negative",
        ),
        (["--data", "not-there.csv"], "No such file"),
        (["--data", "table.xlsx"], "give a file that ends in .csv, .tsv"),
        (["--data", "no-text.csv"], "has no column 'text', only"),
        (["--data", "no-text.csv", "--text-field", "review", "--label-field", "x"], "column 'x'"),
        (["--data", "empty.csv"], "is empty"),
        (["--data", "broken.parquet"], "is damaged or not a Parquet file"),
    ],
)
def test_a_start_that_cannot_be(tmp_path, options, said):
    (tmp_path / "no-text.csv").write_text("review,stars\nfine,5\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nonsense")
    (tmp_path / "table.xlsx").write_bytes(b"PK")
    assert said in failed("--port", 0, "--store", tmp_path / "s.sqlite", *options, cwd=tmp_path)


def test_without_its_packages_the_command_says_what_to_install():
    """A Python without the extra: the package and what it needs, but not fastapi and uvicorn."""
    code = (
        "import sys\n"
        "sys.modules.update(fastapi=None, uvicorn=None)\n"
        "sys.argv = ['slalom', 'serve']\n"
        "from slalom_xai.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    assert "pip install fastapi uvicorn" in done.stderr


def test_a_store_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE explanations (key TEXT)")
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="has version 7, but this package reads up to version 2"):
        Store(path)
    assert path.read_bytes() == before
    assert "has version 7" in failed("--port", 0, "--store", path)


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="is another program's database"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but a text that is long enough " * 9])
def test_a_store_that_is_no_database(tmp_path, content):
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot use the store"):
        Store(path)
    assert path.read_bytes() == content


def test_a_store_in_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the store"):
        Store(tmp_path / "file" / "store.sqlite")


def test_only_its_owner_can_read_the_store(server):
    files = list(server.store.parent.glob("*.sqlite*"))
    assert server.store in files
    for path in files:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.long
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can take room away")
def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    """Files that may not grow stand for a full disk: of the server first, then of its worker."""
    whole = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with serving(tmp_path) as server:
        server.ready()
        size = server.store.with_name("store.sqlite-wal").stat().st_size
        full = (size, resource.RLIM_INFINITY)  # the log, which is shorter, may still be written
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, full)
        refused = server.post("/api/jobs", {"model": "embedded", "text": "A fine film."})
        assert refused.status == 507
        assert refused.error.startswith("the disk of the server is full: make room there")
        assert server.get("/api/jobs").json == {"jobs": []}
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, whole)
        (worker,) = server.workers
        resource.prlimit(worker, resource.RLIMIT_FSIZE, full)
        job = server.ask("A fine film.", budget=40)
        until(lambda: "cannot be used" in server.log, "the worker to meet the full disk", server)
        assert server.job(job["id"])["state"] == "queued"
        resource.prlimit(worker, resource.RLIMIT_FSIZE, whole)
        assert server.ended(job["id"])["state"] == "done"
        assert server.workers == [worker]
