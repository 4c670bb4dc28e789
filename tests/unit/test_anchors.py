"""Anchors on models that flip on one or two words."""

import math

import numpy as np
import pytest
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.errors import InputError
from slalom_xai.methods import Anchors
from slalom_xai.methods.anchors import coin_bounds
from slalom_xai.models.outputs import Outputs

WORDS = [f"w{place}" for place in range(20)]
TEXT = " ".join(WORDS)


def chosen(explanation):
    return [
        unit.text
        for unit, score in zip(explanation.units, explanation.values, strict=True)
        if score
    ]


@pytest.mark.parametrize("seed", range(5))
def test_one_word_decides(seed):
    found = Explainer(
        Game(lambda left: 2.0 if "w7" in left else -1.0),
        method="anchors",
        budget=400,
        random_state=seed,
    )(TEXT)
    assert chosen(found) == ["w7"]
    assert found.values[7] == 1
    assert found.notes[0].startswith("Anchor: 'w7'; precision 1.00 (at least 0.9")
    assert found.notes[0].endswith("coverage 0.5.")
    assert found.calls <= 400


@pytest.mark.parametrize("seed", range(5))
def test_two_words_decide_together(seed):
    def both(left):
        return 1.0 if "w3" in left and "w12" in left else -1.0

    found = Explainer(Game(both), method="anchors", budget=800, random_state=seed)(TEXT)
    assert chosen(found) == ["w3", "w12"]
    assert found.notes[0].startswith("Anchor: 'w3', 'w12'; precision 1.00")
    assert "coverage 0.25" in found.notes[0]


def test_the_other_class_scores_below_zero():
    found = Explainer(
        Game(lambda left: -2.0 if "w7" in left else 1.0), method="anchors", budget=400, target="yes"
    )(TEXT)
    assert found.values[7] == -1
    assert found.for_target("no").values[7] == 1


def test_of_several_classes_the_predicted_one_has_scores():
    game = Game(lambda left: [0.0, 3.0 if "w2" in left else -1.0, 1.0], labels=("a", "b", "c"))
    found = Explainer(game, method="anchors", budget=400)(TEXT)
    assert found.target == "b"
    assert chosen(found) == ["w2"]
    assert not np.any(found.for_target("a").values)


def test_a_class_that_never_changes_needs_no_word():
    found = Explainer(Game(lambda left: 1.0 + len(left)), method="anchors", budget=300)(TEXT)
    assert chosen(found) == []
    assert found.notes[0].startswith("Anchor: nothing; precision 1.00")


def test_no_anchor_within_the_budget_is_told():
    found = Explainer(
        Game(lambda left: 1.0 if len(left) > 18 else -1.0), method="anchors", budget=120
    )(TEXT)
    assert "No anchor of precision 0.95 was found" in found.notes[1]
    assert found.calls <= 120


@pytest.mark.parametrize("text", ["good film", "not a good film"])
def test_short_texts(text):
    found = Explainer(Game(lambda left: 1.0 if "good" in left else -1.0), method="anchors")(text)
    assert chosen(found) == ["good"]


def test_all_words_of_a_short_text():
    found = Explainer(Game(lambda left: 1.0 if len(left) == 3 else -1.0), method="anchors")(
        "very good film"
    )
    assert chosen(found) == ["very", "good", "film"]
    assert found.notes[0].startswith(
        "Anchor: 'very', 'good', 'film'; precision 1.00 (at least 1.00), coverage 0.12"
    )
    assert len(found.notes) == 1


def test_what_it_cannot_do_is_said():
    with pytest.raises(InputError, match="precision is 1"):
        Anchors(precision=1)
    game = Game(lambda left: float(len(left)))
    game.outputs = Outputs("regression", ("x", "y"))
    with pytest.raises(InputError, match="a regression has none"):
        Explainer(game, method="anchors")(TEXT)


def test_bounds_of_a_coin():
    assert coin_bounds(0, 0, 3.0) == (0, 1)
    low, high = coin_bounds(50, 50, 3.0)
    assert low == pytest.approx(math.exp(-3 / 50), abs=1e-6)
    assert high == 1
    low, high = coin_bounds(30, 60, 3.0)
    for edge in (low, high):
        assert 0.5 * math.log(0.5 / edge) + 0.5 * math.log(0.5 / (1 - edge)) == pytest.approx(
            3 / 60, abs=1e-6
        )
