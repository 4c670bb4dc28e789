"""What the default method says of itself is true: on exact SLALOMs, hard games and noisy models."""

import json

import numpy as np
import pytest
import torch
from games import surrogate
from marks import long_except
from word_games import Game, shapley_values

from slalom_xai import Explainer
from slalom_xai.slalom.rows import even_counts
from slalom_xai.slalom.trust import Agreement, FewAndAny, Fidelity

WORDS = ["a", "slow", "start", "but", "one", "wonderful", "warm", "film"]
VALUES = np.array([0.5, -4, -1, 2, 0.3, 5, 3, -0.5])
IMPORTANCES = np.array([-1, 1, -0.5, 0.2, -0.8, 1.2, 0.4, -0.5])


def form_game(values, importances, sink, bound=None, noise=None):
    """A function of words w0, w1, ... that is the formula itself.

    Args:
        values: before the bound.
        importances: of the words.
        sink: value and importance of each word that is missing.
        bound: outputs lie between minus and plus this; None for no bound.
        noise: is called for every output.
    """

    def play(words):
        places = [int(word[1:]) for word in words]
        weights = np.append(np.exp(importances[places]), 0.0)
        weights[-1] = (len(values) - len(places)) * np.exp(sink[1])
        inner = float(weights @ np.append(values[places], sink[0]) / weights.sum())
        output = inner if bound is None else bound * np.tanh(inner / bound)
        return output + (noise() if noise else 0.0)

    return Game(play)


def text_of(units):
    return " ".join(f"w{place}" for place in range(units))


def every_size(units, rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((rows, units)).argsort(axis=1) < rng.integers(1, units, (rows, 1))


def fresh_r2(found, play, units):
    rows = every_size(units)
    true = np.array([play([f"w{place}" for place in np.flatnonzero(row)]) for row in rows])
    return 1 - ((found.predict(rows) - true) ** 2).mean() / true.var()


def test_a_slalom_with_a_sink_that_is_always_there_is_predicted_exactly():
    """Beside units, such a sink is one more that nobody can remove."""
    scores = dict(zip(WORDS, zip(VALUES, IMPORTANCES, strict=True), strict=True))

    def model(texts):
        odds = []
        for text in texts:
            value, importance = np.array([scores[word] for word in text.split()]).T
            weights = np.exp(np.append(importance, 0.0))
            odds.append(weights @ np.append(value, 0.3) / weights.sum())
        return np.stack([-np.array(odds) / 2, np.array(odds) / 2], axis=1)

    found = Explainer(model, output="logits", target=1)(" ".join(WORDS))
    assert found.fidelity.any.r2 > 0.999
    assert np.corrcoef(found.importances, IMPORTANCES)[0, 1] > 0.95
    strong = np.abs(VALUES) > 1
    assert (np.sign(found.values - found.prediction) == np.sign(VALUES - found.prediction))[
        strong
    ].all()
    assert found.trust.startswith("These scores reproduce 100% of what removing words does")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("units", [4, 5, 10, 20, 40])
def test_the_formula_itself_is_recovered(units, seed):
    rng = np.random.default_rng([units, seed])
    values, importances = rng.normal(0, 3, units), rng.normal(0, 1, units)
    sink = (rng.normal(), -1.0)
    game = form_game(values, importances, sink)
    found = Explainer(game, random_state=seed, target=1)(text_of(units))
    heard = np.exp(importances) > 0.2  # what is hardly heard is hardly known
    off = found.importances - (importances - importances.mean())
    assert np.sqrt(np.mean((found.values - values)[heard] ** 2)) < 0.1 * 3  # of their spread
    assert np.sqrt(np.mean(off**2)) < 0.2
    assert found.sink == pytest.approx((sink[0], sink[1] - importances.mean()), abs=0.1)
    assert fresh_r2(found, game.play, units) > 0.999


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("units", [10, 20, 40])
def test_a_bounded_formula_is_predicted(units, seed):
    """A function has no vocabulary that would say where its range ends."""
    rng = np.random.default_rng([units, seed])
    values, importances = rng.normal(0, 3, units), rng.normal(0, 1, units)
    game = form_game(values, importances, (rng.normal(), -1.0), bound=4.0)
    found = Explainer(game, random_state=seed, target=1)(text_of(units))
    assert fresh_r2(found, game.play, units) > 0.99
    assert found.trust.startswith("These scores reproduce")


def test_the_last_word_decides_and_nobody_is_told_that_it_is_understood():
    answers = np.random.default_rng(36).normal(0, 3, 20)

    def play(words):
        return answers[int(words[-1][1:])]

    found = Explainer(Game(play, start=""), target=1)(text_of(20))
    assert found.trust.startswith("Do not trust this") or fresh_r2(found, play, 20) >= 0.3
    assert np.abs(found.predict(every_size(20))).max() < 10 * np.abs(answers).max()


@pytest.mark.parametrize(
    ("r2", "low", "says"),
    [
        (0.97, 0.95, "These scores reproduce 97% of what removing words does to this prediction"),
        (0.64, 0.2, "Do not trust this explanation: its scores reproduce 64% of what removing"),
        (0.64, 0.2, "and perhaps only 20%."),
        (0.64, -1.0, "and perhaps only none."),
        (0.3, 0.1, "Do not trust this explanation: its scores reproduce 30% of what removing"),
    ],
)
def test_the_sentence_follows_the_lower_end(r2, low, says):
    every, linear = Agreement(r2, 0.1, 30, r2_low=low, r2_high=1.0), Agreement(-0.2, 1.0, 30)
    said = Fidelity(every, every, FewAndAny(linear, linear)).sentence("words")
    assert says in said
    assert "One score per word reproduces none." in said


def test_an_exclusive_or_is_not_said_to_be_told_by_its_scores():
    def play(words):
        return 3.0 * (("w0" in words) != ("w8" in words)) - 1.5  # too far apart for a pair

    found = Explainer(Game(play, start=""), target=1)(text_of(9))
    assert fresh_r2(found, play, 9) < 0.3
    assert found.trust.startswith("Do not trust")
    assert found.fidelity.any.at_least < 0.5


@pytest.mark.parametrize("removal", long_except(("mask",), ["mask", "delete"]))
def test_a_list_of_longer_texts_is_explained_as_they_are_one_by_one(removal):
    words = json.dumps([f"film {n} was good or bad" for n in range(40)]).split()
    texts = [" ".join(words[start : start + 45]) for start in (0, 50)]
    explainer = Explainer(budget=300, removal=removal, granularity="token")
    for together, alone in zip(explainer(texts), map(explainer, texts), strict=True):
        assert len(alone) > 60
        assert together.surrogate == alone.surrogate
        scale = np.abs(alone.values).max()
        assert together.values == pytest.approx(alone.values, abs=1e-3 * scale)


def test_few_held_out_rows_have_every_size():
    rng = np.random.default_rng(0)
    for rows in (5, 15, 40):
        sizes = np.sort(even_counts(1, 40, rng)(rows))
        assert np.diff(sizes).max() <= 2 * 40 / rows + 1
        assert sizes.min() <= 40 / rows + 1
        assert sizes.max() >= 40 - 40 / rows


def noisy(seed, units=12, budget=1500):
    """A noisy formula, its scores, and what is found of it."""
    rng = np.random.default_rng(seed)
    values, importances = rng.normal(0, 2, units), rng.normal(0, 0.7, units)
    form = values, importances, (rng.normal(), -1.0)
    game = form_game(*form, noise=lambda: rng.normal(0, 0.05))
    found = Explainer(game, budget=budget, random_state=seed, target=1)(text_of(units))
    scores = {"value": values, "importance": importances - importances.mean()}
    return game, form_game(*form), scores, found


def held(found, name, true):
    """Which true scores lie within 90% intervals."""
    return np.abs(found.scores(name) - true) <= 1.645 * found.standard_errors[name]


def test_intervals_hold_the_scores_of_a_noisy_formula():
    """Where it is said to have no bounds, as it has none."""
    inside, free = [], 0
    for seed in range(8):
        _, _, scores, found = noisy(seed)
        if found.range is None:
            free += 1
            inside += [held(found, name, true) for name, true in scores.items()]
    assert free > 3
    assert np.mean(inside) > 0.8


def test_intervals_hold_what_a_noisy_model_does():
    """Whatever formula was chosen: removals and Shapley values are the model's own."""
    inside = {"removal": [], "shapley": []}
    for seed in range(4):
        _, steady, _, found = noisy(seed, units=9, budget=500)
        words = text_of(9).split()
        without = [steady.play([*words[:place], *words[place + 1 :]]) for place in range(9)]
        inside["removal"].append(held(found, "removal", steady.play(words) - np.array(without)))
        shares = shapley_values(steady.play, words)
        inside["shapley"].append(held(found, "shapley", shares))
    assert np.mean(inside["removal"]) > 0.75
    assert np.mean(inside["shapley"]) > 0.75


def test_the_whole_text_of_a_noisy_model_is_asked_several_times_within_the_budget():
    game, _, _, found = noisy(1, budget=900)
    whole = game.asked.count(f"^ {text_of(12)}")
    assert whole > 10
    assert found.calls <= 900
    assert len(game.asked) == found.calls + 1  # one more to see that the model is noisy
    assert any("asked several times" in note for note in found.notes)
    assert (
        found.standard_errors["removal"].min() >= 0.04
    )  # a measured score has the noise of a call
    assert found.predict(np.ones((1, 12)))[0] == pytest.approx(found.prediction, abs=0.05)


def test_one_class_of_many_is_a_function_of_its_own():
    game = surrogate(6, heads=2, classes=3, seed=5)
    counts = torch.tensor([[1.0, 0, 1, 1, 0, 1], [0, 1, 0, 0, 0, 0]]).double()
    for column in range(3):
        assert torch.allclose(
            game.of_column(column).predict(counts)[:, 0], game.predict(counts)[:, column]
        )


def test_a_noisy_model_may_have_the_least_budget():
    rng = np.random.default_rng(2)
    game = form_game(VALUES, IMPORTANCES, (0.3, 0.0), noise=lambda: rng.normal(0, 0.1))
    found = Explainer(game, budget=8)(text_of(8))
    assert found.calls <= 8
    assert any("noisy" in note and "do not include" in note for note in found.notes)
