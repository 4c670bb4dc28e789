"""How many threads torch has while a text is explained, and afterwards."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from slalom_xai.models import prompt
from slalom_xai.models.load import text_model
from slalom_xai.models.locks import is_stateless
from slalom_xai.models.padded import has_small_steps
from slalom_xai.queries import Batches
from slalom_xai.queries.batches import side_by_side
from slalom_xai.system import process as threads
from slalom_xai.system.process import at_most, for_batches, work_alone

MANY = 6
SIX = threads.Machine(threads=MANY, cores=MANY)
TEXT = "a slow start but one good warm bad film"


@pytest.fixture
def many(monkeypatch):
    """Torch with as many threads as on a machine of six cores; nothing else says how many."""
    usual = torch.get_num_threads()
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    torch.set_num_threads(MANY)
    yield
    torch.set_num_threads(usual)


def in_new_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("many")
def test_small_work_gets_few_threads_and_gives_them_back():
    with at_most(1, SIX):
        assert torch.get_num_threads() == 1
        assert in_new_thread(torch.get_num_threads) == MANY  # other people's threads keep all cores
        with at_most(None, SIX):
            assert torch.get_num_threads() == MANY
            with at_most(2, SIX):
                assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == MANY


@pytest.mark.usefixtures("many")
def test_new_threads_keep_the_few_that_they_began_with():
    begun, go_on = threading.Event(), threading.Event()
    counts = []

    def work():
        counts.append(torch.get_num_threads())
        begun.set()
        go_on.wait(timeout=60)
        with at_most(1, SIX):
            counts.append(torch.get_num_threads())
        counts.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    with threads.new_threads_at_most(1, SIX):
        thread.start()
        begun.wait(timeout=60)
        assert torch.get_num_threads() == MANY
    go_on.set()
    thread.join()
    assert counts == [1, 1, 1]
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == MANY


@pytest.mark.usefixtures("many")
def test_an_error_gives_the_threads_back():
    with pytest.raises(KeyError), at_most(1, SIX):
        raise KeyError
    assert torch.get_num_threads() == MANY


# In a process of its own, where nobody chose a number of threads, as the tests' own does.
_EXPLAINS = f"""
import numpy as np, torch
from slalom_xai import Explainer
from slalom_xai.errors import ModelError
from slalom_xai.methods import Slalom

usual = torch.get_num_threads()
seen, fitted = set(), set()

def function(texts):
    seen.add(torch.get_num_threads())
    if "fail" in texts[0]:
        raise RuntimeError("no")
    odds = np.array([sum(map(len, text.split())) / 20 - 1 for text in texts])
    share = 1 / (1 + np.exp(-odds))
    return np.stack([1 - share, share], axis=1)

class Watched(Slalom):
    def explain(self, queries, rng):
        fitted.add(torch.get_num_threads())
        return super().explain(queries, rng)

explainer = Explainer(function, method=Watched(), budget=120)
explainer("{TEXT}")
explainer(["{TEXT}", "{TEXT} again", "and now something else"])
assert seen == {{usual}}, seen
assert fitted == {{1}}, fitted
try:
    explainer("to fail at this")
except ModelError:
    seen.add("failed")
assert seen == {{usual, "failed"}}, seen
assert torch.get_num_threads() == usual
"""


def in_own_process(code):
    """Runs Python where the environment says nothing about threads."""
    environment = {
        name: value for name, value in os.environ.items() if name not in threads.VARIABLES
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_fit_has_one_thread_and_the_users_function_all():
    in_own_process(_EXPLAINS)


@pytest.mark.usefixtures("many")
def test_several_threads_that_explain_at_once_all_get_theirs_back():
    inside = threading.Barrier(3)
    after = []

    def work():
        with at_most(1, SIX):
            inside.wait()
            assert torch.get_num_threads() == 1
        after.append(torch.get_num_threads())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert after == [MANY] * 3
    assert torch.get_num_threads() == in_new_thread(torch.get_num_threads) == MANY


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", threads.VARIABLES)
def test_a_number_in_the_environment_is_left_alone(name, monkeypatch):
    monkeypatch.setenv(name, "6")
    with at_most(1, SIX):
        assert torch.get_num_threads() == MANY


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("count", [2, 5, 12])
def test_a_number_that_the_user_set_is_left_alone(count):
    torch.set_num_threads(count)
    with at_most(1, SIX):
        assert torch.get_num_threads() == count
    assert torch.get_num_threads() == count


def test_a_number_set_before_the_import_is_left_alone():
    code = (
        "import torch; torch.set_num_threads(3)\n"
        "from slalom_xai.system import process as threads\n"
        "machine = threads.Machine(threads.HERE.threads, cores=16)\n"
        "with threads.at_most(1, machine): assert torch.get_num_threads() == 3"
    )
    in_own_process(code)


def test_large_models_and_long_texts_keep_all_cores():
    assert threads.for_fit(9) == threads.THREADS.fit
    assert threads.for_fit(1000) is None
    assert has_small_steps(
        torch.nn.Sequential(torch.nn.Embedding(30_000, 128), torch.nn.Linear(128, 512))
    )
    assert not has_small_steps(
        torch.nn.Sequential(torch.nn.Embedding(100, 768), torch.nn.Linear(768, 3072))
    )
    assert not has_small_steps(len)
    assert text_model(None, device="cpu").light


@pytest.mark.usefixtures("many")
def test_a_small_model_has_a_few_threads_or_as_many_as_the_user_says():
    assert for_batches(SIX) == threads.THREADS.light
    with at_most(1, SIX):
        assert for_batches(SIX) == threads.THREADS.light
    torch.set_num_threads(2)
    assert for_batches(SIX) == 2
    with at_most(1, SIX):
        assert for_batches(SIX) == 2


def never(item):
    return False


def test_things_side_by_side_meet_and_come_back_in_order():
    together = threading.Barrier(3)

    def work(item):
        together.wait(timeout=60)  # breaks, unless three threads are here
        return item, torch.get_num_threads()

    assert list(side_by_side(work, range(6), 3, never)) == [(item, 1) for item in range(6)]


def test_who_works_alone_has_nobody_beside():
    working, beside = set(), {}

    def work(item):
        working.add(item)
        beside[item] = set(working)
        working.remove(item)
        return item

    def alone(item):
        return item % 3 == 0

    assert list(side_by_side(work, range(9), 3, alone)) == list(range(9))
    assert [beside[item] for item in (0, 3, 6)] == [{0}, {3}, {6}]


def test_an_error_side_by_side_reaches_the_caller():
    def work(item):
        if item == 2:
            raise LookupError(item)
        return item

    found = []
    with pytest.raises(LookupError):
        found.extend(side_by_side(work, range(100), 2, never))


def test_a_thread_that_works_alone_leaves_the_others_their_number():
    usual = in_new_thread(torch.get_num_threads)

    def work():
        work_alone()
        return torch.get_num_threads(), in_new_thread(torch.get_num_threads)

    assert in_new_thread(work) == (1, usual)


@pytest.mark.parametrize("equally_long", [False, True])
def test_answers_are_the_same_for_every_number_of_threads(equally_long, many):
    text = " ".join([TEXT] * 12)

    def answers(count):
        torch.set_num_threads(count)
        model = text_model(None, device="cpu")
        question = prompt(model.read(text), "token")
        units = len(question.units)
        rng = np.random.default_rng(0)
        masks = ~np.eye(units, dtype=bool)
        if not equally_long:
            masks = rng.random((units, units)) < rng.random((units, 1))
            masks[:, 0] = True
        batches = Batches(model, tokens=1024)  # several of them
        return batches.columns([question.rows(masks)])[0], model.probe_calls

    one, probes = answers(1)
    for count in (2, 5):
        several, again = answers(count)
        assert torch.equal(one, several)
        assert probes == again


def test_only_models_as_their_library_made_them_take_several_threads():
    def model():
        return text_model(None, device="cpu")._model

    assert is_stateless(model())
    with text_model(None, device="cpu").hold_for_threads() as possible:
        assert possible
    hooked = model()
    hooked.bert.encoder.register_forward_hook(lambda *_: None)
    assert not is_stateless(hooked)
    replaced = model()
    replaced.classifier.forward = replaced.classifier.forward
    assert not is_stateless(replaced)

    class Own(torch.nn.Linear):
        pass

    changed = model()
    changed.classifier = Own(128, 2)
    assert not is_stateless(changed)
    without_padding = model()
    without_padding.config.pad_token_id = None
    assert not is_stateless(without_padding)
    recording = model()
    recording.config.output_hidden_states = True
    assert not is_stateless(recording)
