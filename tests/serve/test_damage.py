"""A damaged store is refused at the start; what breaks later is told in one line of JSON."""

import sqlite3
import subprocess
from threading import Event

import pytest
from damaged_stores import PAGE, filled, with_damaged_page
from servers import command
from starlette.testclient import TestClient

from slalom_xai.errors import InputError
from slalom_xai.serve.data import Dataset
from slalom_xai.serve.guard import Access
from slalom_xai.serve.server import application
from slalom_xai.serve.service import Service
from slalom_xai.serve.store.file import Store
from slalom_xai.system.sqlite import Damaged, has_no_room, is_damaged


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def client(path, dataset=None):
    """The application with a store that nobody has looked at, and without workers."""
    access = Access(frozenset({"testserver"}))
    service = Service([], Store(path, look=False), access, dataset=dataset)
    return TestClient(application(service), raise_server_exceptions=False)


def told(reply):
    """The one line of JSON that an error is told in."""
    assert reply.headers["content-type"] == "application/json"
    (line,) = reply.json().values()
    assert "\n" not in line
    return line


def refused(path):
    """Why a store is refused; None where it is not."""
    try:
        Store(path)
    except InputError as error:
        return str(error)
    return None


def test_every_damaged_page_is_found_at_the_start(path):
    filled(path)
    sound = path.read_bytes()
    assert len(sound) > 20 * PAGE
    lines = []
    for page in range(1, len(sound) // PAGE, 3):
        path.write_bytes(sound)
        with_damaged_page(path, page)
        lines.append(refused(path))
    for line in lines:
        assert line is not None
        assert len(line.splitlines()) == 1
        assert "is damaged (" in line
        assert "name another file with --store" in line


def test_the_command_says_so_in_one_line(path):
    filled(path)
    with_damaged_page(path, 3)
    done = subprocess.run(
        command("--port", 0, "--store", path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert f"the store {path} is damaged (" in done.stderr


def test_a_sound_store_is_opened_as_ever(path):
    keys = filled(path)
    assert client(path).get(f"/api/explanations/{keys[3]}").status_code == 200


def test_pages_that_are_damaged_later_are_told_in_json(path):
    keys = filled(path)
    sound = path.read_bytes()
    lines = set()
    for page in range(1, len(sound) // PAGE, 5):
        path.write_bytes(sound)
        with_damaged_page(path, page)
        asked = client(path)
        addresses = ["/api/jobs", "/api/jobs/7", "/metrics", "/api/models"]
        addresses += [f"/api/explanations/{key}" for key in keys[::8]]
        for address in addresses:
            reply = asked.get(address)
            if reply.status_code == 500:
                lines.add(told(reply))
            else:
                assert reply.status_code in (200, 404)
    assert len(lines) == 1
    assert lines.pop().startswith("the store of this server is damaged: stop the server, and name")


@pytest.mark.parametrize(
    ("change", "address"),
    [
        ("UPDATE explanations SET view = x'00'", "/api/explanations/{key}/view"),
        ("UPDATE explanations SET file = 'text'", "/api/explanations/{key}"),
        ("UPDATE explanations SET settings = '{'", "/api/explanations/{key}/snippet"),
        ("UPDATE jobs SET settings = '[]'", "/api/jobs"),
        ("UPDATE jobs SET settings = '{}'", "/api/jobs/1"),
        ("UPDATE jobs SET text = CAST(x'ff' AS TEXT)", "/api/jobs/1"),
        ("UPDATE jobs SET preview = x'00', key = NULL", "/api/jobs/1/view"),
    ],
)
def test_contents_that_are_damaged_are_told_in_json(path, change, address):
    keys = filled(path, 2)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    reply = client(path).get(address.format(key=keys[0]))
    assert reply.status_code == 500
    assert told(reply).startswith("the store of this server is damaged: ")


def test_whatever_nobody_expected_is_told_in_json(path):
    filled(path, 2)
    asked = client(path)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE jobs RENAME TO others")
    connection.close()
    reply = asked.get("/api/jobs")
    assert reply.status_code == 500
    assert told(reply) == "an error in slalom-xai itself; the server's log has more"


def test_a_data_set_with_damaged_pages_says_which_file_to_remove(path, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "".join(f"film {n} {'x' * 900},good\n" for n in range(300)))
    dataset = Dataset(table, tmp_path)
    dataset.prepare()
    dataset.load(Event())
    dataset.close()
    (file,) = tmp_path.glob("data-*.sqlite")
    for page in range(file.stat().st_size // PAGE // 2, file.stat().st_size // PAGE):
        with_damaged_page(file, page)
    dataset.prepare()
    with pytest.raises(Damaged, match=f"remove {file.name}"):
        dataset.load(Event())
    reply = client(path, dataset).get("/api/data/rows?search=film")
    assert reply.status_code == 500
    assert told(reply).startswith("the rows of the data set are damaged: stop the server")
    dataset.close()


def test_an_error_without_a_code_is_no_full_disk():
    error = sqlite3.OperationalError("Could not decode to UTF-8 column 'text' with text 'x'")
    assert not has_no_room(error)
    assert is_damaged(error)
    assert not is_damaged(sqlite3.OperationalError("database is locked"))
