"""Methods that remove units, on games whose answers are known."""

import sys

import numpy as np
import pytest
import torch
from marks import long_except
from word_games import Game, additive, shapley_values

from slalom_xai import Explainer
from slalom_xai.errors import BudgetError, InputError
from slalom_xai.methods.deletion import fit_gam
from slalom_xai.methods.evidence import AnsweredRows
from slalom_xai.methods.shap_methods import UnitMasker, neighbours
from slalom_xai.slalom.rows import count_distinct_rows

WORDS = [f"w{place}" for place in range(30)]
WEIGHTS = {
    word: float(weight)
    for word, weight in zip(WORDS, np.random.default_rng(1).normal(size=30), strict=True)
}
METHODS = ("lime", "kernel-shap", "permutation-shap", "partition-shap", "occlusion", "gam")
COMPILED = ("permutation-shap", "partition-shap")  # by numba, which takes seconds
EACH = [
    pytest.param(method, marks=pytest.mark.slow if method in COMPILED else ()) for method in METHODS
]
SHAPLEY = ("kernel-shap", "permutation-shap", "partition-shap")


def text_of(units):
    return " ".join(WORDS[:units])


def true_weights(units):
    return np.array([WEIGHTS[word] for word in WORDS[:units]])


@pytest.mark.parametrize("units", [2, 3, 5, 12, 30])
@pytest.mark.parametrize("method", EACH)
def test_an_additive_game_gives_its_weights(method, units):
    explainer = Explainer(Game(additive(WEIGHTS)), method=method, budget=1500, target="yes")
    found = explainer(text_of(units))
    if (
        method == "lime" and units < 5
    ):  # its kernel hardly sees short texts with everything removed, and so differences alone
        assert np.allclose(np.diff(found.values), np.diff(true_weights(units)), atol=0.05)
        return
    assert np.allclose(
        found.values, true_weights(units), atol={"lime": 0.12, "gam": 1e-3}.get(method, 1e-9)
    )
    if units >= 12 and found.fidelity is not None:
        assert found.fidelity.wide.r2 > 0.95


@pytest.mark.parametrize("method", EACH)
def test_all_classes_are_explained_at_once(method):
    weights = np.random.default_rng(2).normal(size=(8, 3))
    places = {word: place for place, word in enumerate(WORDS[:8])}
    game = Game(
        lambda left: weights[[places[word] for word in left]].sum(axis=0).tolist(),
        labels=("a", "b", "c"),
    )
    found = Explainer(game, method=method, budget=400)(text_of(8))
    calls = len(game.asked)
    centred = weights - weights.mean(axis=1, keepdims=True)
    for index, label in enumerate("abc"):
        assert np.allclose(
            found.for_target(label).values,
            centred[:, index],
            atol=0.1 if method == "lime" else 1e-3,
        )
    assert len(game.asked) == calls


def tangled(left):
    """Three words at a time matter, and order does not."""
    held = [float(f"w{place}" in left) for place in range(5)]
    return (
        held[0] * held[1] * held[2] * 3
        - 2 * held[1] * held[3]
        + held[4]
        + held[2] * held[3] * held[4]
        - 0.3
    )


@pytest.mark.parametrize(
    ("method", "tolerance"), [("kernel-shap", 1e-9), ("permutation-shap", 0.08)]
)
def test_shapley_values_by_definition(method, tolerance):
    found = Explainer(Game(tangled), method=method, budget=200)(text_of(5))
    expected = shapley_values(tangled, WORDS[:5])
    assert np.allclose(found.values, expected, atol=tolerance)
    assert found.values.sum() == pytest.approx(tangled(WORDS[:5]) - tangled([]))
    assert found.fidelity is None  # every row was asked
    assert found.calls == 32


def test_one_order_there_and_back_is_exact_for_pairs():
    def pairs(left):
        return (
            2.0 * ("w0" in left and "w5" in left)
            - 1.5 * ("w1" in left and "w2" in left)
            + ("w3" in left)
        )

    found = Explainer(Game(pairs), method="permutation-shap", budget=80)(text_of(20))
    expected = np.zeros(20)
    expected[:6] = 1, -0.75, -0.75, 1, 0, 1
    assert np.allclose(found.values, expected)


def test_owen_values_share_what_two_neighbours_do_together():
    found = Explainer(
        Game(
            lambda left: (
                4.0 * ("w0" in left and "w1" in left) + 2.0 * ("w2" in left and "w7" in left)
            )
        ),
        method="partition-shap",
    )(text_of(8))
    assert np.allclose(found.values, [2, 2, 1, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("method", SHAPLEY)
@pytest.mark.parametrize("units", [2, 5, 12])
def test_without_an_empty_text_single_units_stand_for_it(method, units):
    found = Explainer(Game(additive(WEIGHTS), start=""), method=method, budget=600)(text_of(units))
    weights = true_weights(units)
    assert found.base_value == pytest.approx(0.5 + weights.mean())
    assert found.values.sum() == pytest.approx(weights.sum() - weights.mean())
    assert (
        "The model does not accept an empty text: "
        "the mean of its answers to single units is used instead."
    ) in found.notes
    if units == 5 and method == "kernel-shap":
        assert np.allclose(
            found.values, shapley_values(additive(WEIGHTS), WORDS[:5], empty=0.5 + weights.mean())
        )


def test_lime_without_an_empty_text_keeps_a_unit():
    found = Explainer(Game(additive(WEIGHTS), start=""), method="lime", budget=600)(text_of(12))
    assert np.allclose(found.values, true_weights(12), atol=0.15)
    assert any("always keeps at least one unit" in note for note in found.notes)


def test_lime_is_limes_own_on_the_same_texts():
    from lime.lime_text import LimeTextExplainer

    game = Game(additive(WEIGHTS))
    ours = Explainer(game, method="lime", budget=3000)(text_of(10))

    def log_odds(texts):
        odds = np.array([game.play(text.split()) for text in texts])
        return np.stack([-odds, odds], axis=1)

    own = LimeTextExplainer(feature_selection="none", random_state=0).explain_instance(
        text_of(10), log_odds, num_samples=2700, num_features=10
    )
    scores = dict(own.as_list())
    assert np.allclose(ours.values, [scores[word] for word in WORDS[:10]], atol=0.02)


def test_occlusion_asks_each_unit_once():
    game = Game(lambda left: float(len(left) ** 2))
    found = Explainer(game, method="occlusion", budget=100)(text_of(30))
    assert np.allclose(found.values, 30**2 - 29**2)
    assert found.calls_fit == 31  # and the whole text


def test_a_gam_may_miss_the_whole_text():
    counts = torch.tensor(
        [[float(i >> place & 1) for place in range(4)] for i in range(1, 16)], dtype=torch.float64
    )
    outputs = counts @ torch.tensor([[1.0], [2.0], [0.0], [-1.0]], dtype=torch.float64) + 3
    outputs[-1] += 5  # the whole text alone
    through = fit_gam(AnsweredRows(counts[:-1], outputs[:-1]))
    assert torch.allclose(
        through.surrogate.unit_scores[:, 0],
        torch.tensor([1.0, 2.0, 0.0, -1.0], dtype=torch.float64),
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "method", ["lime", "kernel-shap", "permutation-shap", "gam", "partition-shap"]
)
def test_the_seed_decides_and_numpys_own_random_numbers_stay(method):
    def explain(seed):
        return Explainer(Game(tangled), method=method, budget=150, random_state=seed)(text_of(30))

    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    first = explain(0)
    assert np.random.random() == expected
    assert first == explain(0)
    if method not in (
        "partition-shap",
        "permutation-shap",
    ):  # whose answer hardly depends on chance
        assert not np.array_equal(first.values, explain(1).values)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["^", ""])
@pytest.mark.parametrize("units", long_except((1, 3), (1, 2, 3, 4, 5, 8, 30)))
@pytest.mark.parametrize("method", [*METHODS, "anchors", "random", "zero"])
def test_no_budget_is_overrun(method, units, start):
    for text in (text_of(units), " ".join(["so"] * (units - 1) + ["good"])):
        for budget in (3, 7, 15, 31, 60, 115, 140):
            game = Game(
                lambda left: np.tanh(len(left)) + ("good" in left) * 1.5 - 0.7 * ("w1" in left),
                start=start,
            )
            try:
                explainer = Explainer(game, method=method, budget=budget)
                found = explainer(text)
            except BudgetError:
                assert not game.asked  # refused before the first call
                continue
            assert (
                len(game.asked) - explainer.probe_calls
                == len(set(game.asked))
                == found.calls
                <= budget
            )
            assert np.isfinite(found.values).all()
            assert np.abs(found.values).max() < 30
            if (
                budget >= 140
                and method not in (*SHAPLEY, "anchors")
                and units > 5
                and text == text_of(units)
            ):
                assert found.fidelity is not None


@pytest.mark.parametrize("method", EACH)
def test_a_text_that_is_mostly_one_word(method):
    text = " ".join(["so"] * 19 + ["good"])
    least = count_distinct_rows(np.array([0] * 19 + [1]))
    found = Explainer(
        Game(lambda left: 0.1 * left.count("so") + left.count("good")), method=method, budget=least
    )(text)
    assert np.isfinite(found.values).all()
    assert found.calls <= least
    assert found.values[-1] == max(found.values)


def test_too_few_rows_for_kernel_shap_are_told():
    found = [
        Explainer(
            Game(additive(WEIGHTS), start=""), method="kernel-shap", budget=121, random_state=seed
        )(text_of(30))
        for seed in range(20)
    ]
    short = [
        one
        for one in found
        if any("too few different rows to determine every unit" in note for note in one.notes)
    ]
    assert 0 < len(short) < len(found)
    for one in short:
        assert np.abs(one.values).max() < 5
        assert one.values.sum() == pytest.approx(one.prediction - one.base_value)


@pytest.mark.parametrize(("method", "package"), [("lime", "lime"), ("kernel-shap", "shap")])
def test_a_missing_package_is_one_line(method, package, monkeypatch):
    for name in [package, "lime.lime_base"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        InputError,
        match=f"method '{method}' needs the package {package}, .*: pip install {package}$",
    ):
        Explainer(Game(additive(WEIGHTS)), method=method)(text_of(5))


def test_neighbours_are_halves_of_halves():
    assert neighbours(2).tolist() == [[0, 1, 1, 2]]
    assert neighbours(5).tolist() == [[0, 1, 1, 2], [5, 2, 2, 3], [3, 4, 1, 2], [6, 7, 3, 5]]
    masked = UnitMasker()(np.array([True, False]), np.array([1.0, 1.0]))
    assert masked.tolist() == [[1, 0]]


def test_masks_in_place_of_words_are_never_empty():
    asked = []

    def function(texts):
        asked.extend(texts)
        return [
            [1 / (1 + np.exp(text.count("good"))), 1 - 1 / (1 + np.exp(text.count("good")))]
            for text in texts
        ]

    found = Explainer(function, method="kernel-shap", removal="mask", budget=100)("a good film")
    assert "[MASK] [MASK] [MASK]" in asked
    assert np.allclose(found.values, [0, 1, 0], atol=1e-6)
