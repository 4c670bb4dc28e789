"""Runs with a cache on disk: the same results as without, also after kills and for noisy models."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from fakes import Averaging
from paid import TEXT, Noisy, Paid

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.models.load import text_model
from slalom_xai.queries import AnswerCache
from slalom_xai.queries.cache import FILE_NAME

HELPERS = Path(__file__).parents[1] / "helpers"
OTHER = "one dull and tired plot that nobody needs"


def program(name, *arguments):
    """Runs a program of the tests in a process of its own."""
    return subprocess.run(
        [sys.executable, str(HELPERS / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"PATH": "", "PYTHONPATH": ":".join([str(HELPERS), *sys.path]), "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.long
def test_twenty_kills_lose_no_stored_answer_and_change_no_byte(tmp_path):
    done = program("killed_runs.py", tmp_path, 20)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["asked again"] == []
    assert told["finished"] >= 2
    assert told["different"] == []


def test_several_processes_and_threads_write_to_a_new_cache_at_once(tmp_path):
    done = program("writing_together.py", tmp_path / "new", 4, 100)
    assert done.returncode == 0, done.stderr
    kept = AnswerCache(tmp_path / "new").opened_for("model")
    expected = {
        f"{writer} {number}": [writer, number] for writer in range(4) for number in range(100)
    }
    assert kept.find(list(expected)) == expected
    assert [path.name for path in (tmp_path / "new").glob(".*")] == []


@pytest.mark.parametrize("wrap", [lambda model: model, Paid], ids=["local", "paid"])
@pytest.mark.parametrize("texts", [TEXT, [TEXT, OTHER, TEXT]], ids=["one text", "several"])
def test_a_cache_does_not_hide_noise_and_repeats_the_run(tmp_path, wrap, texts):
    def explained(seed, folder):
        cache = False if folder is None else AnswerCache(folder).opened_for("noisy")
        model = Noisy(seed)
        explainer = Explainer(wrap(model), budget=300, method="linear", cache=cache)
        found = explainer(texts)
        return model, explainer, found if isinstance(found, list) else [found]

    if isinstance(texts, str):
        plain, _, without = explained(1, None)
        assert any("noisy" in note for note in without[0].notes)
    first, asking, with_cache = explained(1, tmp_path)
    if isinstance(texts, str):
        assert asking.cache.hits == 0
        assert with_cache == without
        assert first.asked == plain.asked
    assert any("several times" in note for note in with_cache[0].notes)
    second, found, again = explained(2, tmp_path)
    assert again == with_cache
    assert second.asked == []
    assert found.cache.misses == 0


@pytest.mark.parametrize("make", [Averaging, lambda: Paid(Averaging())], ids=["local", "paid"])
def test_a_steady_model_gives_the_same_with_a_cache_and_asks_nothing_twice(tmp_path, make):
    without = Explainer(Averaging(), budget=100, method="linear")(TEXT)
    rows = without.calls + 1  # one more to see whether the model repeats itself
    cache = AnswerCache(tmp_path)
    for hits, misses in ((0, rows), (rows, 0)):
        kept = cache.opened_for("averaging")
        assert Explainer(make(), budget=100, method="linear", cache=kept)(TEXT) == without
        assert (kept.hits, kept.misses) == (hits, misses)
    assert cache.info().answers == rows


def test_methods_share_answers(tmp_path):
    cache = AnswerCache(tmp_path).opened_for("averaging")
    measured = Explainer(Averaging(), budget=200, cache=cache)(TEXT)
    assert measured.source("removal") == "measured"
    before = cache.hits
    Explainer(Averaging(), method="occlusion", cache=cache)(TEXT)
    assert cache.hits - before >= 1 + len(
        measured.units
    )  # the whole text, and it without each word


def test_a_model_that_keeps_its_answers_has_a_cache_unless_told_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("SLALOM_CACHE", str(tmp_path))
    assert Explainer(Averaging()).cache is None
    assert Explainer(Paid(Averaging()), cache=False).cache is None
    assert not list(tmp_path.iterdir())
    kept = Explainer(Paid(Averaging())).cache
    assert kept.path == tmp_path / FILE_NAME


def test_a_local_classifier_is_told_from_others_by_its_weights(tmp_path):
    text = "A warm, funny film."
    model = text_model(None)
    without = Explainer(model, budget=60, method="linear")(text)
    first = Explainer(model, budget=60, method="linear", cache=tmp_path)
    assert first(text) == without
    assert first.cache.hits == 0
    again = Explainer(budget=60, method="linear", cache=str(tmp_path))
    assert again(text) == without
    assert again.cache.misses == 0
    with torch.no_grad():
        next(model._model.parameters()).add_(0.01)
    changed = Explainer(model, budget=60, method="linear", cache=tmp_path)
    changed(text)
    assert changed.cache.hits == 0


def test_a_function_needs_a_name_and_is_then_asked_once_to_learn_its_classes(tmp_path):
    asked = []

    def function(texts):
        asked.extend(texts)
        return [[0.5 - 0.001 * len(text), 0.5 + 0.001 * len(text)] for text in texts]

    for cache in (True, tmp_path, AnswerCache(tmp_path)):
        with pytest.raises(InputError, match="name the model and its version yourself"):
            Explainer(function, cache=cache)
    named = AnswerCache(tmp_path).opened_for("lengths 1")
    first = Explainer(function, method="linear", budget=60, cache=named)(TEXT)
    asked.clear()
    assert Explainer(function, method="linear", budget=60, cache=named)(TEXT) == first
    assert asked == [TEXT]


def test_answers_of_another_shape_under_the_same_name_are_refused(tmp_path):
    named = AnswerCache(tmp_path).opened_for("a name")
    Explainer(Averaging(), method="linear", budget=60, cache=named)(TEXT)
    three = Explainer(lambda texts: [[0.2, 0.3, 0.5] for _ in texts], method="linear", cache=named)
    with pytest.raises(InputError, match="holds answers of another shape"):
        three(TEXT)


def test_what_is_no_cache_is_refused():
    with pytest.raises(InputError, match="cache is a int: give True, False, a folder"):
        Explainer(Averaging(), cache=3)


def test_a_run_whose_cache_is_locked_is_complete_and_says_so(tmp_path):
    without = Explainer(Averaging(), budget=60, method="linear")(TEXT)
    named = AnswerCache(tmp_path, wait=0).opened_for("averaging")
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = Explainer(Averaging(), budget=60, method="linear", cache=named)(TEXT)
    (note,) = set(found.notes) - set(without.notes)
    assert note.startswith(f"The cache {tmp_path / FILE_NAME} could not be written")
    assert (found.values == without.values).all()


def test_the_command_line_uses_shows_and_clears_a_cache(tmp_path, slalom):
    explain = ("explain", TEXT, "--method", "linear", "--budget", "60", "--json")
    plain = slalom(*explain)
    assert "Cache" not in plain.stderr
    first = slalom(*explain, "--cache-folder", tmp_path)
    second = slalom(*explain, "--cache-folder", tmp_path)
    assert plain.stdout == first.stdout == second.stdout
    rows = json.loads(plain.stdout)["calls_fit"] + json.loads(plain.stdout)["calls_check"] + 1
    assert f"Cache: 0 of {rows} answers were there ({tmp_path / FILE_NAME})" in first.stderr
    assert f"Cache: {rows} of {rows} answers were there" in second.stderr
    assert f"{rows} answers" in slalom("cache", "--folder", tmp_path).stdout
    assert json.loads(slalom("cache", "--folder", tmp_path, "--json").stdout)["answers"] == rows
    cleared = slalom("cache", "--folder", tmp_path, "--clear")
    assert cleared.stdout.startswith(f"Removed {rows} answers.")
    assert json.loads(slalom("cache", "--folder", tmp_path, "--json").stdout)["answers"] == 0


def test_the_command_line_refuses_what_cannot_be_in_one_line(tmp_path, slalom):
    both = slalom("explain", TEXT, "--no-cache", "--cache-folder", tmp_path)
    assert both.returncode == 1
    assert "--no-cache wants no cache" in both.stderr
    (tmp_path / FILE_NAME).write_text("no database " * 100)
    for command in (("explain", TEXT, "--cache-folder", tmp_path), ("cache", "--folder", tmp_path)):
        refused = slalom(*command)
        assert refused.returncode == 1
        assert len(refused.stderr.splitlines()) == 1
        assert "file is not a database; delete it" in refused.stderr
