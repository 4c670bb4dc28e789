"""The main method on known models: what it finds, when it stops, what it says of itself."""

import json
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.errors import InputError, ModelError
from slalom_xai.methods import Slalom
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity, agreement, compare_changes

WORDS = [f"word{number}" for number in range(30)]
TEXT = " ".join(WORDS)
VALUES = {word: float(np.sin(3 * place)) for place, word in enumerate(WORDS)}
LENGTHS = np.random.default_rng(0).normal(0, 0.3, 31)


def average(words):
    """An average of values, towards 0 where little is left."""
    return 5 * sum(VALUES[word] for word in words) / (len(words) + 3)


def with_lengths(words):
    """The same, and every length has an offset of its own, as where positions are numbered."""
    return average(words) + (LENGTHS[len(words)] if 0 < len(words) < 30 else 0.0)


def masks(rows=300, seed=9):
    keep = np.random.default_rng(seed).random((rows, 30)) < np.random.default_rng(seed + 1).random(
        (rows, 1)
    )
    return keep[keep.any(axis=1)]


def truth(play, keep):
    return np.array(
        [play([word for word, kept in zip(WORDS, row, strict=True) if kept]) for row in keep]
    )


def test_fitted_scores_are_what_is_predicted_for_their_rows():
    measured = Explainer(Game(with_lengths), budget=2000, target=1)(TEXT)
    found = replace(measured, column_measured=())
    everything = np.ones((1, 30))
    without = found.predict(np.ones((30, 30)) - np.eye(30))
    assert found.predict(everything)[0] - without == pytest.approx(found.scores("removal"))
    assert found.predict(np.eye(30)) == pytest.approx(found.scores("alone"))
    assert found.scores("shapley").sum() == pytest.approx(
        found.predict(everything)[0] - found.base_value
    )


def test_the_whole_text_is_predicted_closely():
    found = Explainer(Game(with_lengths), budget=600, target=1)(TEXT)
    off = found.predict(np.ones((1, 30)))[0] - found.prediction
    assert abs(off) < 0.12 * truth(with_lengths, masks()).std()


def test_what_is_linear_gets_its_own_scores():
    play = Game(lambda words: sum(VALUES[word] for word in words))
    found = Explainer(play, budget=1500, target=1)(TEXT)
    assert found.range is None  # nothing bounds a sum
    assert found.source("removal") == "measured"
    fitted = replace(found, column_measured=())
    for scores in (found.scores("removal"), fitted.scores("removal"), found.scores("shapley")):
        assert scores == pytest.approx(list(VALUES.values()), abs=1e-2)
    assert found.fidelity.any.r2 > 0.999
    assert found.trust.startswith("These scores reproduce 100% of what removing words does")


def test_without_a_budget_calls_grow_only_while_they_pay():
    easy, hard = Game(average), Game(lambda words: average(words) + np.sin(40 * average(words)))
    settled, pressed = Explainer(easy)(TEXT), Explainer(hard)(TEXT)
    assert settled.calls < pressed.calls <= 1000
    for game, found in ((easy, settled), (hard, pressed)):
        asked = len(set(game.asked))
        assert found.calls == asked
        assert (
            len(game.asked) == asked + 1
        )  # the whole text a second time, to see whether the model repeats itself


def test_a_tolerance_ends_the_rounds_early():
    hard = Game(lambda words: average(words) + 0.3 * np.sin(40 * average(words)))
    assert Explainer(hard, method=Slalom(tolerance=10))(TEXT).calls <= 500
    assert Explainer(hard, method=Slalom(tolerance=0))(TEXT).calls > 500


@pytest.mark.parametrize(
    "options",
    [
        {"pairs": -1},
        {"pairs": 1.5},
        {"pairs": True},
        {"tolerance": -1},
        {"tolerance": float("nan")},
    ],
)
def test_bad_settings_are_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Slalom(**options)


def test_a_noisy_model_is_noticed_and_intervals_widen():
    rng = np.random.default_rng(0)
    steady = Explainer(Game(average), budget=600)(TEXT)
    noisy = Explainer(Game(lambda words: average(words) + rng.normal(0, 0.3)), budget=600)(TEXT)
    assert not any("noisy" in note for note in steady.notes)
    assert any("noisy" in note for note in noisy.notes)
    assert np.median(noisy.standard_errors["removal"]) > 3 * np.median(
        steady.standard_errors["removal"]
    )


def test_a_model_that_fails_when_asked_again_is_one_line():
    answers = iter([1.0])

    def play(words):
        return next(answers, None) or 1 / 0

    with pytest.raises(ModelError, match="game failed on"):
        Explainer(Game(play), budget=600)(TEXT)


@pytest.mark.parametrize(
    "play",
    [
        lambda words: 20.0 if average(words) > 0 else -20.0,
        lambda words: 20 * np.tanh(3 * average(words)),
        lambda words: 5.0 if "word7" in words else -5.0,
    ],
    ids=["jumps between saturated answers", "saturates", "flips on one word"],
)
def test_hard_models_get_finite_scores_and_an_honest_sentence(play):
    found = Explainer(Game(play), budget=1000, target=1)(TEXT)
    for name in ("value", "alone", "linearized", "slope", "removal", "shapley"):
        assert np.isfinite(found.scores(name)).all()
    stated = found.fidelity.any
    doubtful = stated.r2 < 0.5 or stated.at_least < 0.35
    assert found.trust.startswith("Do not trust this") == doubtful
    keep = masks()
    predicted = found.predict(keep) - found.predict(np.ones((1, 30)))
    true = truth(play, keep) - found.prediction
    assert np.mean((predicted - true) ** 2) / np.var(true) == pytest.approx(1 - stated.r2, abs=0.25)


def test_one_word_that_decides_is_found():
    play = Game(lambda words: 5.0 if "word7" in words else -5.0)
    found = Explainer(play, budget=1000, target=1)(TEXT)
    assert found.has_effect.tolist() == [place == 7 for place in range(30)]
    for name in ("removal", "shapley"):
        assert found.scores(name)[7] == pytest.approx(10, abs=0.01)
    assert found.predict(masks()) == pytest.approx(np.where(masks()[:, 7], 5, -5), abs=0.01)


def test_a_constant_model_has_nothing_to_explain():
    found = Explainer(Game(lambda words: 1.5), target=1)(TEXT)
    assert found.trust.startswith("There is nothing to explain")
    assert not found.has_effect.any()
    assert found.values == pytest.approx(1.5)
    assert found.predict(masks()) == pytest.approx(1.5)
    assert found.scores("shapley") == pytest.approx(0)


def test_two_words_that_are_heard_together_are_found():
    def play(words):
        said = sum(VALUES[word] for word in words)
        return said - 8.0 * ("word3" in words and "word4" in words)

    found = Explainer(Game(play), budget=1500, target=1)(TEXT)
    strongest = found.interactions[0]
    assert strongest.units == (3, 4)
    assert strongest.texts == ("word3", "word4")
    assert strongest.value < found.prediction
    plain = Explainer(Game(play), method=Slalom(pairs=0), budget=1500, target=1)(TEXT)
    assert plain.interactions == ()
    assert found.fidelity.any.r2 > plain.fidelity.any.r2


def test_an_interval_holds_the_share_it_was_drawn_for():
    generator = torch.Generator().manual_seed(0)
    inside = []
    for _ in range(200):
        true = torch.randn(100, generator=generator).double()
        found = agreement(true + 0.5 * torch.randn(100, generator=generator).double(), true, 1.0)
        inside.append(
            found.mse_low <= 0.25 <= found.mse_high and found.r2_low <= 0.75 <= found.r2_high
        )
    assert 0.75 < np.mean(inside) <= 1.0


@pytest.mark.parametrize(
    ("share", "linear", "says"),
    [
        (0.31, 0.1, "Do not trust this explanation: its scores reproduce 31% of what removing"),
        (0.95, 0.94, "These scores reproduce 95%"),
        (0.9, 0.5, "does to this prediction (55% when only a few go). One score per word"),
        (0.9, 0.5, "One score per word reproduces 50%."),
        (0.4, 0.5, "Allow more calls (a larger budget), or explain sentences in their place."),
    ],
)
def test_the_sentence_warns_where_it_should(share, linear, says):
    few, every, one_few, one = (Agreement(r2, 0.1, 50) for r2 in (0.55, share, 0.4, linear))
    fidelity = Fidelity(few, every, FewAndAny(one_few, one), FewAndAny(one_few, one_few))
    assert says in fidelity.sentence("words")


def test_a_saturated_output_is_no_reason_for_a_warning():
    few, every = Agreement(0.1, 1e-4, 50), Agreement(0.9, 0.1, 50)
    said = Fidelity(few, every).sentence("words", points=0.004)
    assert "No few words decide it: removing up to 10 moves its probability by less than" in said
    assert "Do not" not in said
    unsaturated = Fidelity(few, every).sentence("words", points=0.2)
    assert "Do not rely on them for single words" in unsaturated


def test_agreement_on_outputs_near_zero_is_a_number_that_a_file_can_hold():
    true = torch.tensor([0.0, 1e-160, 2e-160, 3e-160], dtype=torch.float64)
    found = agreement(torch.ones(4, dtype=torch.float64), true, level=3e-160)
    assert -math.inf < found.r2 < 0
    json.dumps([found.r2, found.mse], allow_nan=False)


def test_several_predictions_are_compared_as_each_alone():
    generator = torch.Generator().manual_seed(0)
    true, *predicted = torch.randn(4, 50, generator=generator, dtype=torch.float64)
    found = compare_changes(torch.stack(predicted), true, 1.0)
    for one, prediction in zip(found, predicted, strict=True):
        alone = agreement(prediction, true, 1.0)
        assert astuple(one) == pytest.approx(astuple(alone), rel=1e-9)
