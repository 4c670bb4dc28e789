"""A few cases of each kind, and that the fuzz can fail."""

from dataclasses import replace

import numpy as np
import pytest
from made import made
from marks import long_except

from fuzz.cases import Outcome, crash, guarded
from fuzz.promises import broken
from fuzz.trusting import too_many
from fuzz.words import unclear
from fuzz.workers import Plan, one, results
from slalom_xai.errors import InputError, ModelError
from slalom_xai.models.text import Unit

SOUND = made(additive=True)


@pytest.mark.long  # make fuzz has more of them
@pytest.mark.parametrize("block", range(6))
def test_hostile_texts_break_nothing(block):
    for seed in range(10 * block, 10 * block + 10):
        assert not one("text", seed).problems, f"make fuzz CASE=text:{seed}"


@pytest.mark.parametrize("block", long_except((0, 1), range(4)))
def test_damaged_result_files_are_refused_or_work(block):
    for seed in range(25 * block, 25 * block + 25):
        assert not one("file", seed).problems, f"make fuzz CASE=file:{seed}"


@pytest.mark.parametrize("seed", long_except(range(6), range(12)))
def test_damaged_model_folders_are_refused_or_work(seed):
    assert not one("folder", seed).problems


@pytest.mark.parametrize("seed", long_except(range(3), range(6)))
def test_planted_slaloms_are_found_or_said_not_to_be(seed):
    assert not one("plant", seed).problems


@pytest.mark.parametrize("seed", long_except(range(2), range(5)))
def test_a_list_is_explained_as_its_texts_are_alone(seed):
    assert not one("list", seed).problems


@pytest.mark.parametrize("block", long_except((0, 1), range(8)))
def test_servers_that_mean_harm_do_none(block):
    for seed in range(15 * block, 15 * block + 15):
        assert not one("api", seed).problems, f"make fuzz CASE=api:{seed}"


@pytest.mark.parametrize("block", long_except((0, 1), range(6)))
def test_damaged_stores_are_refused_or_told_in_json(block):
    for seed in range(10 * block, 10 * block + 10):
        assert not one("store", seed).problems, f"make fuzz CASE=store:{seed}"


@pytest.mark.parametrize("block", long_except((0, 1), range(6)))
def test_the_door_is_open_to_our_own_page_and_user_alone(block):
    for seed in range(20 * block, 20 * block + 20):
        assert not one("door", seed).problems, f"make fuzz CASE=door:{seed}"


def test_claims_hold_on_fresh_rows():
    outcomes = [one("trust", seed) for seed in range(8)]
    assert not any(outcome.problems for outcome in outcomes)
    claims = sum(outcome.counts["claims of 90%"] for outcome in outcomes)
    assert not too_many(claims, sum(outcome.counts["claims that fail"] for outcome in outcomes))


def test_a_case_is_a_function_of_its_seed():
    assert one("text", 7).told == one("text", 7).told
    assert one("file", 7).told == one("file", 7).told


def test_a_sound_explanation_breaks_no_promise():
    assert list(broken(replace(SOUND, notes=("a note",)))) == []


OVERLAPPING = (replace(SOUND.units[0], end=4, text=SOUND.text[:4]), *SOUND.units[1:])
BROKEN = {
    "predict(all) is not the prediction": {"full": (SOUND.full[0] + 0.1,)},
    "units overlap": {"units": OVERLAPPING},
    "a unit lies outside its text": {"units": (Unit("x", 900, 901), *SOUND.units[1:])},
    "not what stands at its place": {
        "units": (replace(SOUND.units[0], text="B"), *SOUND.units[1:])
    },
    "not in reading order": {"units": (SOUND.units[1], SOUND.units[0], *SOUND.units[2:])},
    "standard errors are negative": {"column_errors": ({"value": np.full(len(SOUND), -1.0)},)},
}


@pytest.mark.parametrize("problem", list(BROKEN))
def test_each_broken_promise_is_noticed(problem):
    spoiled = replace(SOUND, **BROKEN[problem])
    assert any(problem in found for found in broken(spoiled))


@pytest.mark.parametrize(
    "message", ["two\nlines", "it is None", "x" * 5000, "damaged (TypeError: x)"]
)
def test_unclear_messages_are_noticed(message):
    assert unclear(InputError(message))


def test_clear_messages_and_what_a_model_raised_are_not():
    assert unclear(InputError("budget 3 is too small: raise it")) is None
    assert unclear(ModelError("it failed (ValueError: no eos): try the text alone")) is None
    assert unclear(InputError("unknown label 'None'"), "None") is None


def test_a_crash_is_told_with_its_place():
    def fail(seed: int, outcome: Outcome) -> None:
        raise StopIteration

    outcome = guarded(fail, 0)
    assert outcome.problems == ["StopIteration in test_smoke.py fail: "]
    assert "Traceback" in outcome.trace
    assert crash(KeyError("x")) == "KeyError in nowhere: 'x'"


@pytest.mark.long
def test_the_runner_runs_each_case_once_and_ends():
    plan = Plan(seconds=300, processes=2, seed=0, cases={"file": 3, "trust": 1})
    done = [(found.kind, found.seed) for found in results(plan) if found is not None]
    assert sorted(done) == [("file", 0), ("file", 1), ("file", 2), ("trust", 0)]


def test_a_claim_may_fail_by_chance_and_not_often():
    assert not too_many(100, 3)
    assert too_many(300, 4)
    assert not too_many(1000, 10)
