"""The main method on models whose answers are known: what it says, what it refuses, old files."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from word_games import Game, additive

import slalom_xai
import slalom_xai.methods
from slalom_xai import Explainer, Explanation
from slalom_xai.errors import BudgetError, CannotHideError, InputError, ModelError
from slalom_xai.methods import Slalom
from slalom_xai.reports.html import page
from slalom_xai.slalom.trust import NOTHING_CHANGES

WORDS = [f"w{place}" for place in range(12)]
TEXT = " ".join(WORDS)
OLD = Path(__file__).parents[1] / "fixtures" / "old_results"


def rare(left):
    """6 where any of the first four words is there, and 0 without them: few removals change it."""
    return 6.0 if set(WORDS[:4]) & set(left) else 0.0


def explained(play, text=TEXT, **options):
    return Explainer(Game(play), **{"target": "yes", **options})(text)


@pytest.mark.parametrize("seed", range(12))
def test_a_model_that_rarely_changes_is_never_said_to_have_nothing_to_explain(seed):
    found = explained(rare, budget=180, random_state=seed)
    assert found.trust != NOTHING_CHANGES
    assert found.fidelity.changed > 0
    assert found.calls <= 180


def test_a_constant_model_has_nothing_to_explain():
    found = explained(lambda left: 1.5)
    assert found.trust == NOTHING_CHANGES
    assert found.predict(np.eye(12)) == pytest.approx(np.full(12, 1.5), abs=1e-3)
    assert np.abs(found.scores()).max() < 1e-3


def test_an_additive_model_is_reproduced():
    weights = dict(zip(WORDS, np.linspace(-1, 1.4, 12), strict=True))
    found = explained(additive(weights))
    assert found.fidelity.any.r2 > 0.99
    assert found.trust.startswith("These scores reproduce")
    assert found.scores() == pytest.approx(list(weights.values()), abs=0.05)
    assert found.calls <= 1000


@pytest.mark.parametrize("seed", range(3))
def test_calls_that_cannot_teach_more_are_not_made(seed):
    """A quarter of what the model does follows no rule: doubling the calls adds next to nothing."""
    weights = dict(zip(WORDS, np.linspace(-1, 1.4, 12), strict=True))

    def play(left):
        return additive(weights)(left) + zlib.crc32(" ".join(left).encode()) / 2**31

    method = Slalom(tolerance=0.05)
    assert 100 < explained(play, random_state=seed, method=method).calls <= 500
    assert explained(play, random_state=seed, method=Slalom(tolerance=0)).calls > 900


def test_one_word_that_decides_is_named():
    found = explained(lambda left: 4.0 if "w5" in left else -2.0)
    assert int(np.argmax(found.scores())) == 5
    assert found.scores()[5] == pytest.approx(6, abs=0.5)
    assert found.has_effect[5]


def test_not_good_is_heard_together():
    text = "it is not good but one warm friend makes it worth a look"

    def play(left):
        negated = "not" in left and "good" in left
        return ("warm" in left) + 0.5 * ("worth" in left) + ("good" in left) * 2.0 - 5.0 * negated

    found = explained(play, text, budget=1000)
    assert ("not", "good") in [pair.texts for pair in found.interactions]
    [pair] = [pair for pair in found.interactions if pair.texts == ("not", "good")]
    assert pair.value < found.prediction
    assert found.fidelity.any.r2 > 0.9
    alone = explained(play, text, budget=1000, method=Slalom(pairs=0))
    assert alone.interactions == ()
    assert alone.fidelity.any.r2 < found.fidelity.any.r2


@pytest.mark.parametrize("text", ["good", "good film"])
def test_texts_of_one_and_two_words(text):
    found = explained(lambda left: 2.0 if "good" in left else -1.0, text)
    whole = np.ones((1, len(found)))
    assert found.predict(whole)[0] == pytest.approx(2, abs=0.2)
    assert isinstance(found.trust, str)
    assert found.calls <= 4
    assert found.scores()[0] == max(found.scores())


def test_removal_is_measured_where_the_budget_allows():
    weights = dict(zip(WORDS, np.linspace(-1, 1.4, 12), strict=True))
    many, few = (explained(additive(weights), budget=budget) for budget in (200, 40))
    assert many.source("removal") == "measured"
    assert many.scores("removal") == pytest.approx(list(weights.values()))
    assert few.source("removal") == "fitted"
    assert many.source("value") == few.source("value") == "fitted"


def test_filled_texts_are_sent_on_request():
    def share(left):
        return 4 * left.count("w3") / max(len(left), 1) - 1

    with pytest.raises(InputError, match=r"explain with method=Slalom\(filled=True\)"):
        explained(share, budget=100).scores("filled")
    found = explained(share, budget=100, method=Slalom(filled=True))
    assert found.source("filled") == "measured"
    expected = np.where(np.arange(12) == 3, 3.0, -1.0)
    assert found.scores("filled") == pytest.approx(expected)
    assert found.calls <= 100


class TestRefusals:
    def test_hide_for_a_function(self):
        explainer = Explainer(lambda texts: [[0.5, 0.5]] * len(texts), removal="hide")
        with pytest.raises(CannotHideError, match="delete") as caught:
            explainer(TEXT)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("budget", [1, 4, 7])
    def test_a_budget_below_what_is_needed(self, budget):
        with pytest.raises(BudgetError, match=f"{budget}.*8|8.*{budget}"):
            explained(rare, budget=budget)

    def test_the_least_budget_is_enough(self):
        assert explained(rare, budget=8).calls <= 8

    @pytest.mark.parametrize("output", [float("inf"), float("-inf"), float("nan"), 1e300])
    def test_outputs_that_are_not_finite(self, output):
        with pytest.raises(ModelError, match="expected finite numbers"):
            explained(lambda left: output if len(left) < 12 else 1.0, budget=100)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"pairs": -1}, "pairs is -1: give a whole number"),
            ({"pairs": 1.5}, "pairs is 1.5"),
            ({"pairs": True}, "pairs is True"),
            ({"tolerance": -0.1}, "tolerance is -0.1"),
            ({"tolerance": float("nan")}, "tolerance is nan"),
        ],
    )
    def test_options_that_make_no_sense(self, options, message):
        with pytest.raises(InputError, match=message):
            Slalom(**options)


class TestOldFiles:
    """Files that versions 1 and 2 wrote, of one and the same text."""

    @pytest.mark.parametrize("name", ["v1-slalom", "v2-slalom"])
    def test_what_was_printed_predicts_and_the_rest_is_said_to_be_gone(self, name):
        data = json.loads((OLD / f"{name}.json").read_text(encoding="utf-8"))
        found = Explanation.load(OLD / f"{name}.json")
        two = data["function"]["two_scores"]
        assert found.surrogate == "bounded"
        assert found.values == pytest.approx(np.ravel(two["values"]))
        assert found.importances == pytest.approx(two["importances"])
        assert found.range is None
        assert any("corrections can no longer be evaluated" in note for note in found.notes)
        # The old sink stood for the share of what is missing, the new one for each missing unit.
        weights, values = np.exp(two["importances"]), np.ravel(two["values"])
        sink = np.exp(two["sink_importance"])
        for keep in np.eye(len(found)):
            share = 1 - keep.mean()
            above = (keep * weights * values).sum() + share * sink * two["sink_value"][0]
            expected = above / ((keep * weights).sum() + share * sink)
            assert found.predict(keep[None])[0] == pytest.approx(expected)
        assert np.abs(found.scores()).max() > 0.5  # shares to rank and colour by
        assert "reproduce" in found.trust

    def test_shares_that_a_file_lacks_are_those_of_its_formula(self):
        found = Explanation.load(OLD / "v1-slalom.json")
        whole = found.predict(np.ones((1, len(found))))[0]
        assert found.scores().sum() == pytest.approx(whole - found.base_value)

    def test_the_fidelity_is_that_of_what_predicts_now(self):
        data = json.loads((OLD / "v2-slalom.json").read_text(encoding="utf-8"))
        found = Explanation.load(OLD / "v2-slalom.json")
        stored = data["fidelity"][0]
        assert found.fidelity.any.r2 == stored["two_scores"]["wide"]["r2"]
        assert found.fidelity.linear.any.r2 == stored["linear_wide"]["r2"]

    def test_of_one_without_two_scores_the_heads_predict(self):
        found = Explanation.load(OLD / "v2-slalom-few.json")
        assert found.surrogate == "slalom"
        assert any("corrections can no longer be evaluated" in note for note in found.notes)
        assert np.isfinite(found.predict(np.eye(len(found)))).all()

    def test_functions_that_are_still_there_are_as_stored(self):
        data = json.loads((OLD / "v2-gp.json").read_text(encoding="utf-8"))
        found = Explanation.load(OLD / "v2-gp.json")
        assert found.surrogate == "process"
        assert found.values == pytest.approx(data["scores"]["value"])
        assert not any("earlier version" in note for note in found.notes)

    @pytest.mark.parametrize("path", sorted(OLD.iterdir()), ids=lambda path: path.stem)
    def test_they_are_shown_and_saved_again(self, path, tmp_path):
        found = Explanation.load(path)
        assert page(found).startswith("<!doctype html>")
        assert Explanation.load(found.save(tmp_path / "again.json")) == found
        assert json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))["version"] == 3

    @pytest.mark.parametrize(
        "damage",
        [
            lambda two: two.update(values=[[1.0]]),
            lambda two: two.update(values=[]),
            lambda two: two.update(sink_value=[1.0, 2.0]),
            lambda two: two.update(importances="loud"),
            lambda two: two.update(importances=[10**400] * 8),
            lambda two: two.pop("sink_importance"),
        ],
    )
    def test_damaged_ones_are_refused_in_one_line(self, damage):
        data = json.loads((OLD / "v1-slalom.json").read_text(encoding="utf-8"))
        damage(data["function"]["two_scores"])
        with pytest.raises(InputError, match="the saved explanation is damaged") as caught:
            Explanation.from_dict(data)
        assert "\n" not in str(caught.value)


def test_methods_are_listed_whether_or_not_their_module_is_imported():
    assert slalom_xai.methods.Slalom is Slalom
    assert "slalom" in slalom_xai.methods()
