"""What is measured, what is fitted instead, and what is said about it."""

import json

import numpy as np
import pytest
from marks import long_except
from tiny import tiny
from word_games import Game

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import InputError
from slalom_xai.estimators import Slalom
from slalom_xai.surrogates.scores import SCORES

WORDS = [f"w{number}" for number in range(14)]
TEXT = " ".join(WORDS)
VALUES = np.random.default_rng(1).normal(0, 2, 14)
MEASURED = ("value", "removal", "alone", "slope")


def play(words):
    """No SLALOM: an average under a limit, and one word that needs another."""
    places = [int(word[1:]) for word in words]
    joint = 1.5 * (3 in places and 8 in places)
    return float(np.tanh(VALUES[places].mean()) * 3 + joint)


def sources(explanation):
    return {name: explanation.source(name) for name in SCORES}


def test_every_measured_score_is_the_answer_it_is_said_to_be():
    found = Explainer(Game(play))(TEXT)
    full = play(WORDS)
    for place, word in enumerate(WORDS):
        others = [other for other in WORDS if other != word]
        more = [*WORDS[: place + 1], *WORDS[place:]]
        assert found.scores("value")[place] == pytest.approx(play([word] * 14))
        assert found.scores("alone")[place] == pytest.approx(play([word]))
        assert found.scores("removal")[place] == pytest.approx(full - play(others))
        assert found.scores("slope")[place] == pytest.approx(play(more) - full)
    assert {name for name, source in sources(found).items() if source == "measured"} == {*MEASURED}


def test_what_is_predicted_meets_texts_of_copies_and_one_more_copy():
    found = Explainer(Game(play))(TEXT)
    each, all_once = np.eye(14), np.ones((14, 14))
    assert found.predict(14 * each) == pytest.approx(found.values)
    doubled = found.predict(all_once + each) - found.prediction
    assert doubled == pytest.approx(found.scores("slope"))
    many = found.predict(all_once + 500 * each)
    assert np.abs(many - found.values).max() < 1.5 * np.ptp(found.values)  # nothing runs off


def test_seeds_do_not_move_what_is_measured():
    first, second = (Explainer(Game(play), random_state=seed)(TEXT) for seed in (0, 1))
    for name in MEASURED:
        assert np.array_equal(first.scores(name), second.scores(name))
        assert not first.standard_errors[name].any()


def test_a_noisy_model_gives_measured_scores_its_noise_as_their_error():
    rng = np.random.default_rng(0)
    found = Explainer(Game(lambda words: play(words) + rng.normal(0, 0.2)), budget=1500)(TEXT)
    assert found.standard_errors["value"] == pytest.approx(0.2, rel=0.5)
    assert (found.standard_errors["removal"] > found.standard_errors["value"]).all()


def test_noise_that_no_calls_are_left_to_measure_leaves_errors_open():
    rng = np.random.default_rng(0)
    found = Explainer(Game(lambda words: play(words) + rng.normal(0, 0.2)), budget=20)("w1 w4 w9")
    assert sources(found)["value"] == "measured"
    for name in ("value", "importance"):
        assert np.isnan(found.standard_errors[name]).all()
    assert any("raise the budget" in note for note in found.notes)


def test_a_budget_too_small_for_measuring_says_which_scores_are_fitted():
    some = Explainer(Game(play), budget=120)(TEXT)
    assert sources(some)["value"] == "measured"
    assert sources(some)["removal"] == sources(some)["slope"] == "fitted"
    assert any(note.startswith("Alone, removal and slope are fitted") for note in some.notes)
    none = Explainer(Game(play), budget=50)(TEXT)
    assert set(sources(none).values()) == {"fitted"}
    assert any(note.startswith("Value is fitted, not measured: 50 calls") for note in none.notes)
    with pytest.raises(
        InputError, match="heads is 2, but then one value per unit must be measured"
    ):
        Explainer(Game(play), budget=80, method=Slalom(heads=2))(TEXT)


def test_a_model_that_refuses_repeats_is_explained_and_the_reason_is_told():
    def once_only(words):
        if len(set(words)) < len(words):
            raise ValueError("a word stands twice")
        return play(words)

    found = Explainer(Game(once_only))(TEXT)
    assert sources(found)["value"] == sources(found)["slope"] == "fitted"
    assert sources(found)["removal"] == sources(found)["alone"] == "measured"
    told = [note for note in found.notes if "refused repeated units" in note]
    assert len(told) == 2
    assert all("a word stands twice" in note for note in told)
    assert np.isfinite(found.values).all()


def test_an_answer_that_is_no_number_to_a_text_of_copies_is_told():
    def not_alone(words):
        return float("nan") if len(set(words)) == 1 < len(words) else play(words)

    found = Explainer(Game(not_alone))(TEXT)
    assert sources(found)["value"] == "fitted"
    assert any("Value is fitted, not measured" in note for note in found.notes)


def test_copies_end_where_the_model_does():
    model, words = tiny("bert")
    limit = model.config.max_position_embeddings
    text = " ".join(["film"] * (limit // 2) + ["unbelievably", "good", "film"])
    found = Explainer(model, words, granularity="word", budget=2000)(text)
    assert max(len(unit.token_ids) for unit in found.units) > 2  # so that n copies do not fit
    assert any("copies of the unit, not" in note for note in found.notes)
    assert sources(found)["value"] == "measured"


def test_files_keep_the_scores_by_name_and_where_they_come_from(tmp_path):
    found = Explainer(Game(play))(TEXT)
    path = found.save(tmp_path / "found.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["sources"] == sources(found)
    for name in SCORES:
        assert data["scores"][name] == pytest.approx(found.scores(name))
    loaded = Explanation.load(path)
    assert loaded == found
    assert sources(loaded) == sources(found)
    assert found.to_frame().attrs["source"] == sources(found)


def test_files_of_the_first_version_load_with_scores_marked_fitted():
    found = Explainer(Game(play), method="slalom-fidel", budget=600)(TEXT)
    data = found.to_dict()
    data["version"] = 1
    del data["measured"]
    one = dict(data["function"])
    del one["two_scores"], one["repeats"]
    data["function"] = {**one, "nearest": {**one, "nearest": None}}
    for column in data["fidelity"]:
        del column["two_scores"]
    loaded = Explanation.from_dict(data)
    assert set(sources(loaded).values()) == {"fitted"}
    for name in ("value", "importance", "removal", "shapley"):
        assert loaded.scores(name) == pytest.approx(found.scores(name))


@pytest.mark.parametrize("units", long_except((2, 3, 5, 8), range(2, 13)))
def test_no_budget_is_exceeded(units):
    """Measured rows count, whether the fit has them or not."""
    text = " ".join(WORDS[:units])
    for budget in (2**units - 1, 60, 150, 300):
        assert Explainer(Game(play), budget=budget)(text).calls <= budget


@pytest.mark.parametrize("damage", [[1.0], 3, "x", {}, {"values": [[1]]}, {"values": None}])
def test_a_damaged_file_of_the_first_version_is_one_clear_line(damage):
    data = Explainer(Game(play), method="slalom-fidel", budget=600)(TEXT).to_dict()
    data["version"] = 1
    data["function"]["nearest"] = damage
    with pytest.raises(InputError, match="the saved explanation is damaged"):
        Explanation.from_dict(data)
