"""What the default method says of itself is true: on exact SLALOMs, hard games and noisy models."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from games import surrogate
from marks import long_except
from word_games import Game

from slalom_xai import Explainer, Explanation
from slalom_xai.designs import even_counts, rows_of_every_size
from slalom_xai.estimators import Slalom
from slalom_xai.slalom.trust import Agreement, FewAndMany, Fidelity
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.influence import covariance
from slalom_xai.surrogates.problem import Extras

WORDS = ["a", "slow", "start", "but", "one", "wonderful", "warm", "film"]
VALUES = np.array([0.5, -4, -1, 2, 0.3, 5, 3, -0.5])
IMPORTANCES = np.array([-1, 1, -0.5, 0.2, -0.8, 1.2, 0.4, -0.5])


def slalom_game(values, importances, sink=None, noise=None):
    """A function of words w0, w1, ... that is a SLALOM; ``noise`` is called for every answer."""
    sink_value, sink_importance = (0.0, -np.inf) if sink is None else sink

    def play(words):
        places = [int(word[1:]) for word in words]
        weights = np.exp(np.append(importances[places], sink_importance))
        answer = float(weights @ np.append(values[places], sink_value) / weights.sum())
        return answer + (noise() if noise else 0.0)

    return Game(play, start="")


def filled(values, importances, sink):
    """What a SLALOM with a sink answers to the text filled with each unit: n copies of it."""
    copies, weight = len(values) * np.exp(importances), np.exp(sink[1])
    return (copies * values + weight * sink[0]) / (copies + weight)


def text_of(units):
    return " ".join(f"w{place}" for place in range(units))


def every_size(units, rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((rows, units)).argsort(axis=1) < rng.integers(1, units, (rows, 1))


def fresh_r2(found, play, units):
    rows = every_size(units)
    true = np.array([play([f"w{place}" for place in np.flatnonzero(row)]) for row in rows])
    return 1 - ((found.predict(rows) - true) ** 2).mean() / true.var()


def test_a_sentence_that_is_a_slalom_with_a_sink_gets_its_own_scores():
    scores = dict(zip(WORDS, zip(VALUES, IMPORTANCES, strict=True), strict=True))

    def model(texts):
        odds = []
        for text in texts:
            value, importance = np.array([scores[word] for word in text.split()]).T
            weights = np.exp(np.append(importance, 0.0))
            odds.append(weights @ np.append(value, 0.3) / weights.sum())
        return np.stack([-np.array(odds) / 2, np.array(odds) / 2], axis=1)

    found = Explainer(model, output="logits")(" ".join(WORDS))
    assert found.values == pytest.approx(filled(VALUES, IMPORTANCES, (0.3, 0.0)))
    assert found.function.values[0, :, 0].numpy() == pytest.approx(VALUES, abs=1e-3)
    assert found.importances == pytest.approx(IMPORTANCES - IMPORTANCES.mean(), abs=1e-3)
    assert found.sink == pytest.approx((0.3, -IMPORTANCES.mean()), abs=1e-3)
    assert found.trust.startswith("The two scores predict 100% of what deletions do and 100%")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("units", [4, 5, 10, 20, 40])
def test_an_exact_slalom_with_a_sink_is_recovered(units, seed):
    rng = np.random.default_rng([units, seed])
    values, importances = rng.normal(0, 3, units), rng.normal(0, 1, units)
    sink = (rng.normal(), np.log(units) / 2)
    found = Explainer(slalom_game(values, importances, sink), random_state=seed)(text_of(units))
    assert found.values == pytest.approx(filled(values, importances, sink))
    assert found.importances == pytest.approx(importances - importances.mean(), abs=0.02)
    assert found.function.values.shape[0] == 1


def test_the_last_word_decides_and_nobody_is_told_that_it_is_understood():
    answers = np.random.default_rng(36).normal(0, 3, 20)

    def play(words):
        return answers[int(words[-1][1:])]

    found = Explainer(Game(play, start=""))(text_of(20))
    assert found.trust.startswith("Do not trust this") or fresh_r2(found, play, 20) >= 0.3
    assert np.abs(found.predict(every_size(20))).max() < 10 * np.abs(answers).max()


def test_a_blow_up_that_no_tested_row_shows_is_named():
    wide = Agreement(0.99, 0.1, 20, r2_low=-3.0, r2_high=1.0, beyond=40.0)
    linear = Agreement(0.6, 4.0, 20)
    said = Fidelity(wide, wide, linear, linear).sentence()
    assert said.startswith("Do not trust this")
    assert "outputs that the model never gave" in said


@pytest.mark.parametrize(
    ("r2", "low", "says"),
    [
        (0.97, 0.95, "Predicts 97% of what deletions do (at least 95%) and 97% of what a few do"),
        (
            0.64,
            0.36,
            "Do not trust this: it predicts 64% of what the tested deletions do and 64% of what a "
            "few do, but perhaps only 36%",
        ),
        (0.64, -1.0, "perhaps only none of what others do"),
        (0.3, 0.1, "Do not trust this: it predicts 30% of what deletions do"),
    ],
)
def test_the_sentence_follows_the_lower_end(r2, low, says):
    wide, linear = Agreement(r2, 0.1, 30, r2_low=low, r2_high=1.0), Agreement(-0.2, 1.0, 30)
    said = Fidelity(wide, wide, linear, linear).sentence()
    assert says in said
    assert "the same calls predicts none and none" in said


@pytest.mark.parametrize(
    ("many", "few", "says", "ends"),
    [
        (0.9, 0.8, "The two scores predict 90% of what deletions do", "40% and 40%."),
        (0.9, 0.2, "The two scores predict 90%", "For a few deletions, read removal."),
        (0.2, 0.1, "Do not read the two scores alone: they predict 20%", "Shapley values instead."),
        (-0.4, -2, "Do not read the two scores alone: they predict none of", "values instead."),
    ],
)
def test_the_sentence_is_about_what_is_printed(many, few, says, ends):
    """Not only about what ``predict`` makes of it with its corrections."""
    whole, linear = Agreement(0.97, 0.1, 30), Agreement(0.4, 1.0, 30)
    two = FewAndMany(Agreement(few, 0.5, 30), Agreement(many, 0.5, 30))
    said = Fidelity(whole, whole, linear, linear, two).sentence()
    assert said.startswith(says)
    assert "with its corrections, the explanation predicts 97% and 97%" in said
    assert said.endswith(ends)


def test_an_exclusive_or_is_not_said_to_be_told_by_its_two_scores():
    def play(words):
        return 3.0 * (("w2" in words) != ("w5" in words)) - 1.5

    found = Explainer(Game(play, start=""))(text_of(9))
    rows = every_size(9)
    true = np.array([play([f"w{place}" for place in np.flatnonzero(row)]) for row in rows])
    weights = rows * np.exp(found.importances)
    printed = weights @ found.values / weights.sum(axis=1)
    assert 1 - np.mean((printed - true) ** 2) / true.var() < 0.3
    assert found.trust.startswith(("Do not trust", "Do not read the two scores"))
    assert found.fidelity.two_scores.wide.at_least < 0.5


@pytest.mark.parametrize("sink", [True, False])
def test_the_whole_text_is_predicted_as_the_model_answers(sink):
    answers = np.random.default_rng(3).normal(0, 2, 14)

    def play(words):
        return answers[[int(word[1:]) for word in words]].max() + 0.1 * len(words)

    found = Explainer(Game(play, start=""), method=Slalom(sink=sink), budget=300)(text_of(14))
    assert found.predict(np.ones((1, 14)))[0] == pytest.approx(found.prediction)


@pytest.mark.parametrize("removal", long_except(("mask",), ["mask", "delete"]))
def test_a_list_of_longer_texts_is_explained_as_they_are_one_by_one(removal):
    words = json.dumps([f"film {n} was good or bad" for n in range(40)]).split()
    texts = [" ".join(words[start : start + 45]) for start in (0, 50)]
    explainer = Explainer(budget=300, removal=removal)
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
    kept = rows_of_every_size(12).sum(axis=1)
    assert set(kept) == set(range(1, 12))


def noisy(seed, units=12, budget=1500):
    """A noisy SLALOM with a sink and what is found of it."""
    rng = np.random.default_rng(seed)
    truth = surrogate(units, seed=seed)
    values, importances = truth.values[0, :, 0].numpy(), truth.importances[0].numpy()
    sink = (float(truth.sink_values[0, 0]), float(truth.sink_importances[0]))
    game = slalom_game(values, importances, sink, lambda: rng.normal(0, 0.05))
    values = filled(values, importances, sink)
    return game, values, Explainer(game, budget=budget, random_state=seed)(text_of(units))


def test_intervals_hold_the_noise_of_the_whole_texts_own_answer():
    inside = []
    for seed in range(5):
        _, values, found = noisy(seed)
        inside.append(np.abs(found.values - values) <= 1.645 * found.standard_errors["value"])
    assert np.mean(inside) > 0.75


def test_the_whole_text_of_a_noisy_model_is_asked_several_times_within_the_budget():
    game, _, found = noisy(1, budget=900)
    whole = game.asked.count(text_of(12))
    assert whole > 10
    assert found.calls <= 900
    assert len(game.asked) == found.calls + 1  # one more to see that the model is noisy
    assert any("asked several times" in note for note in found.notes)
    assert found.predict(np.ones((1, 12)))[0] == pytest.approx(found.prediction)


@pytest.mark.parametrize("additive", [False, True])
def test_noise_of_the_anchor_moves_scores_as_the_covariance_says(additive):
    """Against a fit to answers in which only the whole text's has moved."""
    game = surrogate(8, classes=2, seed=3)
    keep = torch.rand(400, 8, generator=torch.Generator().manual_seed(1)) < 0.6
    counts = torch.cat([torch.ones(1, 8), keep[keep.any(dim=1)].float()]).double()
    outputs = game.predict(counts)
    extras = Extras(anchored=True, additive=additive, length_penalty=1e-3)

    def fitted(answers):
        return fit_slalom(
            counts, answers, prior=1e-3, extras=extras, max_iterations=300, tolerance=1e-13
        )

    fit = fitted(outputs)
    moved = outputs.clone()
    moved[0, 0] += 1e-3
    other = fitted(moved)
    variance = torch.tensor([1.0, 0.0], dtype=torch.float64)
    noise = (
        covariance(counts, outputs, fit, variance).joint - covariance(counts, outputs, fit).joint
    )
    change = (other.surrogate.slot_values() - fit.surrogate.slot_values()) / 1e-3  # (K, p, C)
    for column in range(2):
        found = noise[column].diagonal()[: change[..., 0].numel()].sqrt()
        assert torch.allclose(
            found, change[..., column].flatten().abs(), atol=0.05 * float(change.abs().max())
        )


def test_results_of_before_load_without_what_lies_beyond():
    found = Explainer(slalom_game(VALUES, IMPORTANCES, (0.3, 0.0)))(text_of(8))
    data = found.to_dict()
    for column in data["fidelity"]:
        for part in (*column.pop("two_scores").values(), *column.values()):
            part.pop("beyond")
    before = Explanation.from_dict(data)
    assert before.fidelity.two_scores is None
    found = replace(found, column_fidelity=(replace(found.fidelity, two_scores=None),))
    assert Explanation.from_dict(data).trust == found.trust


def test_one_class_of_many_is_a_function_of_its_own():
    game = surrogate(6, heads=2, classes=3, seed=5)
    counts = torch.tensor([[1.0, 0, 1, 1, 0, 1], [0, 1, 0, 0, 0, 0]]).double()
    for column in range(3):
        assert torch.allclose(
            game.of_column(column).predict(counts)[:, 0], game.predict(counts)[:, column]
        )


def test_a_noisy_model_may_have_the_least_budget():
    rng = np.random.default_rng(2)
    game = slalom_game(VALUES, IMPORTANCES, (0.3, 0.0), lambda: rng.normal(0, 0.1))
    least = 2 * 8 + 1 + 20
    found = Explainer(game, budget=least)(text_of(8))
    assert found.calls <= least
    assert any("noisy" in note and "do not include" in note for note in found.notes)
