"""The cache on disk: what is put comes back, it stays small, and nothing is lost if it fails."""

import json
import math
import resource
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai.errors import InputError
from slalom_xai.queries import AnswerCache
from slalom_xai.queries.cache import FILE_NAME

plain = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
json_values = st.recursive(
    plain, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=8
)
any_text = st.text(st.characters(codec=None))  # half characters as well


def file_of(folder):
    return Path(folder) / FILE_NAME


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder for many examples, because a new file takes longer than what is done with it."""
    return tmp_path_factory.mktemp("cache")


@settings(max_examples=50)
@given(answers=st.dictionaries(any_text, json_values), name=st.uuids())
def test_what_is_put_comes_back_exactly_and_for_its_model_only(shared, answers, name):
    AnswerCache(shared).opened_for(str(name)).keep_all(answers)
    again = AnswerCache(shared)  # another connection, as another process has
    found = again.opened_for(str(name))
    assert found.find([*answers, "another"]) == answers
    assert (found.hits, found.misses) == (len(answers), int("another" not in answers))
    assert again.opened_for(f"other than {name}").find(list(answers)) == {}


@given(st.floats(width=64), st.floats(width=32))
def test_numbers_keep_every_digit(double, single):
    for number in (double, single):
        back = json.loads(json.dumps(number))
        assert back == number or (math.isnan(back) and math.isnan(number))


def test_an_answer_that_is_put_again_is_replaced(tmp_path):
    kept = AnswerCache(tmp_path).opened_for("model")
    kept.keep("key", 1)
    kept.keep("key", [2])
    assert kept.find(["key"]) == {"key": [2]}


@settings(max_examples=5)
@given(st.lists(st.integers(1, 3000), min_size=300, max_size=300), st.integers(0, 99))
def test_the_bound_is_kept_and_what_was_used_last_stays(sizes, favourite):
    most = 100_000
    with tempfile.TemporaryDirectory() as folder:
        cache = AnswerCache(folder, most_bytes=most)
        old = cache.opened_for("model")
        for number in range(100):
            old.keep(f"old {number}", "x" * 100)
        used = cache.opened_for("model")  # a later run
        assert used.find([f"old {favourite}"])
        for number, size in enumerate(sizes):
            used.keep(str(number), "y" * size)
            assert cache.info().bytes <= 1.15 * most
        assert used.find(["299"]) == {"299": "y" * sizes[-1]}
        left = used.find([f"old {number}" for number in range(100)])
        assert not left or f"old {favourite}" in left
        cache.close()
        assert file_of(folder).stat().st_size <= 1.15 * most


def test_a_smaller_bound_makes_the_file_smaller(tmp_path):
    large = AnswerCache(tmp_path)
    kept = large.opened_for("model")
    kept.keep_all({str(number): "x" * 1000 for number in range(1000)})
    large.close()
    assert file_of(tmp_path).stat().st_size > 1_000_000
    small = AnswerCache(tmp_path, most_bytes=200_000)
    small.opened_for("model").keep_all({str(number): "y" * 1000 for number in range(20)})
    small.close()
    assert file_of(tmp_path).stat().st_size <= 220_000


def test_only_the_owner_reads_it_and_it_holds_no_texts(tmp_path):
    folder = tmp_path / "new"
    cache = AnswerCache(folder)
    cache.opened_for("a fingerprint").keep("a private text", [0.5])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"private" not in path.read_bytes()
        assert b"fingerprint" not in path.read_bytes()
    assert len(list(folder.iterdir())) == 3  # with the log and its index, and no draft


def test_an_answer_of_two_numbers_takes_less_than_200_bytes(tmp_path):
    cache = AnswerCache(tmp_path)
    answers = {f"text {number}": [number / 7, -number / 3] for number in range(5000)}
    cache.opened_for("model").keep_all(answers)
    assert cache.info().bytes / len(answers) < 200


def test_clearing_removes_all_answers(tmp_path):
    cache = AnswerCache(tmp_path)
    kept = cache.opened_for("model")
    kept.keep_all({str(number): number for number in range(2000)})
    before = cache.info()
    assert before.answers == 2000
    assert cache.clear() == 2000
    assert cache.info().answers == 0
    assert cache.info().bytes < before.bytes
    assert kept.find(["1"]) == {}


def test_the_usual_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path / "named"))
    assert AnswerCache().info().path == tmp_path / "named" / FILE_NAME
    monkeypatch.delenv("SLALOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert AnswerCache().info().path == tmp_path / "slalom-xai" / FILE_NAME
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert AnswerCache().folder.is_relative_to(Path.home())


def another_version(folder):
    AnswerCache(folder).close()
    with closing(sqlite3.connect(file_of(folder))) as connection:
        connection.execute("PRAGMA user_version = 7")
        connection.commit()


def another_program(folder):
    with closing(sqlite3.connect(file_of(folder))) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
        connection.commit()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (another_version, r"has version 7, but this package reads version 1: delete it, or give"),
        (another_program, r"is no cache of answers: delete it, or give another folder"),
        (lambda folder: file_of(folder).write_text("no database " * 100), r"not a database"),
        (lambda folder: file_of(folder).touch(), r"is no cache of answers"),
        (lambda folder: file_of(folder).mkdir(), r"unable to open database file"),
    ],
)
def test_a_file_that_is_no_cache_of_this_version_is_refused_and_left_alone(
    tmp_path, spoil, message
):
    spoil(tmp_path)
    before = [(path.name, path.is_file() and path.read_bytes()) for path in tmp_path.iterdir()]
    with pytest.raises(InputError, match=message) as error:
        AnswerCache(tmp_path)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)
    after = [(path.name, path.is_file() and path.read_bytes()) for path in tmp_path.iterdir()]
    assert after == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    taken = tmp_path / "file"
    taken.touch()
    for folder in (taken, taken / "inside", Path("/proc/nobody/cache")):
        with pytest.raises(InputError, match=r"cannot make the cache .*give another folder"):
            AnswerCache(folder)


@pytest.mark.parametrize("most", [0, -1, 5.0, "1 GB", None])
def test_a_bound_that_is_none_is_refused(tmp_path, most):
    with pytest.raises(InputError, match="most_bytes is"):
        AnswerCache(tmp_path, most_bytes=most)


def test_a_model_without_a_name_is_refused(tmp_path):
    with pytest.raises(InputError, match="names the model"):
        AnswerCache(tmp_path).opened_for("")


def test_a_file_that_another_process_keeps_to_itself_is_refused(tmp_path):
    AnswerCache(tmp_path).close()
    with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("DELETE FROM answers")
        with pytest.raises(InputError, match="database is locked; delete it, or give another"):
            AnswerCache(tmp_path, wait=0)
    AnswerCache(tmp_path, wait=0)


@contextmanager
def full_disk(folder):
    """No file grows beyond the size of the largest one."""
    largest = max(path.stat().st_size for path in folder.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def locked(folder):
    """Another process writes and does not end."""
    with closing(sqlite3.connect(file_of(folder), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize(("trouble", "reason"), [(full_disk, "disk"), (locked, "locked")])
def test_a_cache_that_cannot_be_written_loses_nothing_and_says_so(tmp_path, trouble, reason):
    cache = AnswerCache(tmp_path, wait=0)
    kept = cache.opened_for("model")
    kept.keep("before", 0)
    answers = {str(number): [number, "x" * 500] for number in range(200)}
    with trouble(tmp_path):
        for key, answer in answers.items():
            kept.keep(key, answer)
        assert kept.find([*answers, "before"]) == answers | {"before": 0}
        (told,) = kept.problems()
        assert str(tmp_path) in told
        assert reason in told
        assert "answers are not in it. The result is complete." in told
    assert kept.problems() == ()  # written now
    cache.close()
    assert AnswerCache(tmp_path).opened_for("model").find(list(answers)) == answers


def test_an_answer_that_is_damaged_counts_as_missing_and_is_told(tmp_path):
    cache = AnswerCache(tmp_path)
    kept = cache.opened_for("model")
    kept.keep("key", 1)
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        connection.execute("UPDATE answers SET answer = '{'")
        connection.commit()
    assert kept.find(["key"]) == {}
    assert "could not be read" in kept.problems()[0]
    kept.keep("key", 2)
    assert kept.find(["key"]) == {"key": 2}
