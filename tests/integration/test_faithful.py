"""The main method on known models: what it finds, when it stops, what it says of itself."""

import json
import math
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from games import surrogate
from word_games import Game

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import InputError, ModelError
from slalom_xai.estimators import Slalom
from slalom_xai.slalom.trust import Agreement, Fidelity, agreement, agreements
from slalom_xai.surrogates.fit import fit_slalom
from slalom_xai.surrogates.problem import Extras
from slalom_xai.surrogates.row_weights import length_penalty

WORDS = [f"word{number}" for number in range(30)]
TEXT = " ".join(WORDS)
VALUES = {word: float(np.sin(3 * place)) for place, word in enumerate(WORDS)}
LENGTHS = np.random.default_rng(0).normal(0, 0.3, 31)


def average(words):
    """A SLALOM of equal importances with a sink of value 0."""
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


def test_offsets_by_length_are_told_from_what_words_do():
    """By the heads; where a process is beside them, they need not tell."""
    heads = Slalom(process=False)
    found = Explainer(Game(with_lengths), method=heads, budget=2000)(TEXT)
    plain = Explainer(Game(average), method=heads, budget=2000)(TEXT)
    keep = masks()
    assert np.mean((found.predict(keep) - truth(with_lengths, keep)) ** 2) < 0.1 * np.var(LENGTHS)
    offsets = found.function.length_offsets[1:-1, 0].numpy()
    assert np.corrcoef(offsets, LENGTHS[1:-1])[0, 1] > 0.95
    assert np.corrcoef(found.scores("removal"), plain.scores("removal"))[0, 1] > 0.99
    assert plain.function.length_offsets is None or plain.function.length_offsets.abs().max() < 1e-3


def test_fitted_scores_are_what_is_predicted_for_their_rows():
    measured = Explainer(Game(with_lengths), budget=2000)(TEXT)
    found = replace(measured, column_measured=())
    everything = np.ones((1, 30))
    without = found.predict(np.ones((30, 30)) - np.eye(30))
    assert found.predict(everything)[0] - without == pytest.approx(found.scores("removal"))
    assert found.predict(np.eye(30)) == pytest.approx(found.scores("alone"))
    assert found.scores("shapley").sum() == pytest.approx(
        found.predict(everything)[0] - found.base_value
    )


def test_the_whole_text_is_predicted_exactly():
    found = Explainer(Game(with_lengths), budget=600)(TEXT)
    assert found.predict(np.ones((1, 30)))[0] == pytest.approx(found.prediction)


def test_what_is_linear_gets_a_linear_explanation_that_says_so():
    found = Explainer(Game(lambda words: sum(VALUES[word] for word in words)), budget=1500)(TEXT)
    assert found.surrogate == "linear"
    assert found.importances is None
    assert any("linear explanation predicts" in note for note in found.notes)
    assert found.scores("removal") == pytest.approx(list(VALUES.values()), abs=1e-2)
    assert found.fidelity.linear_wide is None  # it is not compared with itself
    assert found.trust.startswith("Predicts 100% of what deletions do")


def test_without_a_budget_calls_grow_only_while_they_pay():
    easy, hard = Game(average), Game(lambda words: average(words) + np.sin(40 * average(words)))
    settled, pressed = Explainer(easy)(TEXT), Explainer(hard)(TEXT)
    assert settled.calls < pressed.calls <= 900
    for game, found in ((easy, settled), (hard, pressed)):
        asked = len(set(game.asked))
        assert found.calls == asked
        assert (
            len(game.asked) == asked + 1
        )  # the whole text a second time, to see whether the model repeats itself


def test_a_tolerance_ends_the_rounds_early():
    hard = Game(lambda words: average(words) + 0.3 * np.sin(40 * average(words)))
    # One round, and a few calls about pairs of words.
    assert 300 <= Explainer(hard, method=Slalom(tolerance=10))(TEXT).calls <= 330
    assert Explainer(hard, method=Slalom(tolerance=0))(TEXT).calls > 330


@pytest.mark.parametrize(
    "options",
    [{"heads": 0}, {"heads": 1.5}, {"heads": True}, {"tolerance": -1}, {"tolerance": float("nan")}],
)
def test_bad_settings_are_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Slalom(**options)


def test_two_heads_are_fitted_on_request_and_read_from_measured_values():
    found = Explainer(Game(with_lengths), method=Slalom(heads=2), budget=1200)(TEXT)
    assert found.function.values.shape[0] == 2
    assert found.values.shape == found.importances.shape == (30,)
    assert found.importances.sum() == pytest.approx(0)
    assert found.source("value") == "measured"
    assert found.values == pytest.approx(found.function.two_scores.values[:, 0].numpy())
    assert Explanation.from_dict(found.to_dict()) == found


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


def test_as_many_heads_as_asked_for_even_for_a_short_text():
    text = " ".join(WORDS[:6])
    assert Explainer(Game(average), method=Slalom(heads=2))(text).function.values.shape[0] == 2
    with pytest.raises(InputError, match="several heads need a sink"):
        Slalom(heads=2, sink=False)


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
    found = Explainer(Game(play), budget=1000)(TEXT)
    for name in ("value", "alone", "linearized", "slope", "removal", "shapley"):
        assert np.isfinite(found.scores(name)).all()
    wide = found.fidelity.wide
    assert found.trust.startswith("Do not trust this") == (wide.at_least < 0.5)
    keep = masks()
    missed = np.mean((found.predict(keep) - truth(play, keep)) ** 2) / np.var(truth(play, keep))
    assert missed == pytest.approx(1 - wide.r2, abs=0.25)


def test_one_word_that_decides_is_found():
    found = Explainer(Game(lambda words: 5.0 if "word7" in words else -5.0), budget=1000)(TEXT)
    assert int(np.argmax(np.abs(found.scores("removal")))) == 7


def test_length_penalty_is_infinite_where_lengths_do_nothing():
    counts = torch.tensor(masks(800)).double()
    fit = fit_slalom(
        counts,
        torch.randn(len(counts), 1, generator=torch.Generator().manual_seed(0)).double(),
        extras=Extras(anchored=False),
    )
    few = length_penalty(fit, counts)
    shifted = fit_slalom(
        counts,
        torch.tensor(LENGTHS)[counts.sum(dim=1).long()][:, None] * 10,
        extras=Extras(anchored=False),
    )
    assert length_penalty(shifted, counts) < 2e-2 * few


def test_an_anchored_fit_passes_through_the_first_row():
    game = surrogate(12, heads=2, seed=4)
    counts = torch.cat(
        [
            torch.ones(1, 12),
            (torch.rand(300, 12, generator=torch.Generator().manual_seed(1)) < 0.6).float(),
        ]
    ).double()
    counts = counts[counts.sum(dim=1) > 0]
    outputs = game.predict(counts)
    for additive in (False, True):
        fit = fit_slalom(
            counts, outputs, extras=Extras(anchored=True, additive=additive, length_penalty=1e-3)
        )
        assert torch.allclose(fit.surrogate.predict(counts[:1]), outputs[:1])
        assert torch.allclose(fit.surrogate.predict(counts) - outputs, fit.residuals, atol=1e-9)


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
    ("wide", "linear", "says"),
    [
        (0.31, 0.1, "Do not trust this: it predicts 31%"),
        (0.95, 0.94, "close to linear here"),
        (0.9, 0.5, "Predicts 90% of what deletions do and 50% of what a few do; a linear"),
    ],
)
def test_the_sentence_warns_where_it_should(wide, linear, says):
    parts = [Agreement(r2, 0.1, 50) for r2 in (0.5, wide, 0.4, linear)]
    assert says in Fidelity(*parts).sentence()


def test_agreement_on_outputs_near_zero_is_a_number_that_a_file_can_hold():
    true = torch.tensor([0.0, 1e-160, 2e-160, 3e-160], dtype=torch.float64)
    found = agreement(torch.ones(4, dtype=torch.float64), true, level=3e-160)
    assert -math.inf < found.r2 < 0
    json.dumps([found.r2, found.mse], allow_nan=False)


def test_several_predictions_are_compared_as_each_alone():
    generator = torch.Generator().manual_seed(0)
    true, *predicted = torch.randn(4, 50, generator=generator, dtype=torch.float64)
    beyond = [0.0, 0.5, 2.0]
    found = agreements(torch.stack(predicted), true, 1.0, beyond)
    for one, prediction, of_others in zip(found, predicted, beyond, strict=True):
        alone = agreement(prediction, true, 1.0, of_others)
        assert astuple(one) == pytest.approx(astuple(alone), rel=1e-9)
