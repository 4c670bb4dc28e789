"""Attention as explanation: seven explainers, counterfactual attention, and the histogram task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from research.theory.slides.counterfactual import (
    LARGEST_DIVERGENCE,
    divergence,
    same_context,
    two_places,
)
from research.theory.slides.debate import (
    apart,
    bag_of_words_sign,
    debate_text,
    divergences,
)
from research.theory.slides.embedded_attention import FILMS, LastLayer, embedded_model
from research.theory.slides.explainers import (
    EXPLAINERS,
    SIGNED,
    head_attention,
    removal_effects,
    seven_scores,
)
from research.theory.slides.histogram import (
    WORD_LENGTH,
    HistogramModel,
    counts,
    draw_words,
    equal_letters,
    spell,
)
from research.theory.slides.reviews import (
    STRENGTH,
    Reviews,
    tokenizer,
    trained_classifier,
    write_reviews,
)
from research.theory.slides.reviews import accuracy as classified
from slalom_xai.errors import InputError
from slalom_xai.metrics.statistics import auroc

TEXT = "the soup was superb and the bread was fresh but our waiter was rude so the bill was awful"


@pytest.fixture(scope="module")
def reviews() -> Reviews:
    return write_reviews(800, 0)


@pytest.fixture(scope="module")
def model(reviews):
    return trained_classifier(reviews, 0, heads=2, steps=150)


@pytest.fixture(scope="module")
def single(reviews):
    return trained_classifier(reviews, 0, heads=1, steps=150)


def ids_of(text: str = TEXT) -> torch.Tensor:
    return torch.tensor(tokenizer()(text)["input_ids"])


def test_reviews_have_the_class_of_their_words():
    found = write_reviews(50, 3)
    whole = [
        sum(STRENGTH.get(word, 0.0) for word in text.split())
        for text in found.texts
        if len(text.split()) < 39
    ]
    labels = [
        label
        for text, label in zip(found.texts, found.labels.tolist(), strict=True)
        if len(text.split()) < 39
    ]
    assert [float(total > 0) for total in whole] == labels
    assert write_reviews(50, 3).texts == found.texts


def test_training_learns_the_class(model, single):
    new = write_reviews(300, 9)
    assert classified(model, new) > 0.85
    assert classified(single, new) > 0.85


def test_attention_ignores_the_sign_that_others_follow(model):
    before = seven_scores(model, ids_of(), np.random.default_rng(0))
    assert tuple(before) == EXPLAINERS
    with torch.no_grad():
        model.head.neg_()
        after = seven_scores(model, ids_of(), np.random.default_rng(0))
        model.head.neg_()
    for name in EXPLAINERS:
        assert len(before[name]) == len(TEXT.split())
        assert after[name] == pytest.approx(
            -before[name] if name in SIGNED else before[name], abs=1e-5
        )


def test_attention_reductions_are_mean_and_largest(model):
    weights = head_attention(model, ids_of())
    assert weights.sum(axis=1) == pytest.approx(np.ones(2), abs=1e-6)
    scores = seven_scores(model, ids_of(), np.random.default_rng(0))
    assert scores["attention, mean"] == pytest.approx((weights[0] + weights[1])[1:20] / 2)
    assert scores["attention, max"] == pytest.approx(np.maximum(weights[0], weights[1])[1:20])


def test_lime_tells_pleasant_from_unpleasant_and_attention_does_not(model):
    found: dict[str, list[float]] = {name: [] for name in EXPLAINERS}
    texts = write_reviews(25, 5)
    for row, mask, text in zip(texts.ids, texts.mask, texts.texts, strict=True):
        strengths = np.array([STRENGTH.get(word, 0.0) for word in text.split()])
        some = strengths != 0
        for name, scores in seven_scores(
            model, row[mask.bool()], np.random.default_rng(0), samples=1_000
        ).items():
            found[name].append(auroc(scores[some], strengths[some] > 0))
    means = {name: float(np.nanmean(values)) for name, values in found.items()}
    assert means["LIME"] > 0.9
    assert means["gradient × input"] > 0.9
    for name in ("attention, mean", "attention, max", "gradient, L2"):
        assert abs(means[name] - 0.5) < 0.3


def test_removal_effects_by_hand(model):
    ids = ids_of("the soup was superb")
    effects = removal_effects(model, ids)
    changed = ids.clone()
    changed[4] = model.unknown
    with torch.no_grad():
        assert effects[3] == pytest.approx(float(model(ids[None]) - model(changed[None])), abs=1e-5)


@given(seed=st.integers(0, 10_000), places=st.integers(1, 30))
@settings(max_examples=60)
def test_two_places_give_the_same_average(seed, places):
    rng = np.random.default_rng(seed)
    weights, values = rng.dirichlet(np.ones(places)), rng.normal(size=places)
    other = two_places(weights, values)
    assert other @ values == pytest.approx(weights @ values, abs=1e-9)
    assert other.sum() == pytest.approx(1)
    assert other.min() >= 0
    assert (other > 0).sum() <= 2


@given(seed=st.integers(0, 10_000), width=st.integers(1, 6), more=st.integers(1, 12))
@settings(max_examples=40)
def test_same_context_gives_the_same_average_of_vectors(seed, width, more):
    rng = np.random.default_rng(seed)
    places = width + 1 + more
    weights, values = rng.dirichlet(np.ones(places)), rng.normal(size=(places, width))
    other = same_context(weights, values)
    assert other @ values == pytest.approx(weights @ values, abs=1e-8)
    assert other.sum() == pytest.approx(1, abs=1e-9)
    assert other.min() >= 0
    assert (other > 0).sum() <= width + 1
    assert divergence(weights, other) > 0


def test_no_other_context_for_short_texts():
    with pytest.raises(InputError, match="3 places and 3 equations"):
        same_context(np.full(3, 1 / 3), np.eye(3)[:, :2])


def test_divergence_has_its_known_values():
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert divergence(one, one) == 0
    assert divergence(one, other) == pytest.approx(LARGEST_DIVERGENCE)
    mixed = np.array([0.5, 0.5])
    assert divergences(
        torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    ).item() == pytest.approx(divergence(one, mixed), abs=1e-5)


def test_a_trained_classifier_answers_the_same_with_attention_elsewhere(model):
    found = [
        debate_text(model, ids_of(text), np.random.default_rng(0))
        for text in (TEXT, *write_reviews(5, 7).texts)
    ]
    assert max(one.same_answer for one in found) < 1e-6
    assert np.median([one.divergence for one in found]) > 0.2
    assert (
        np.median([one.shuffled for one in found]) > 0.1
    )  # while other weights do change the answer


def test_a_debate_correlates_attention_with_each_importance(model):
    ids = ids_of()
    debated = debate_text(model, ids, np.random.default_rng(0))
    scores = seven_scores(model, ids, np.random.default_rng(0))

    def ranks(values: np.ndarray) -> np.ndarray:
        return np.array([(values < one).sum() + (values == one).sum() / 2 for one in values])

    def correlation(importance: np.ndarray) -> float:
        attention = ranks(scores["attention, mean"])
        return np.corrcoef(attention, ranks(np.abs(importance)))[0, 1]

    assert debated.with_removal == pytest.approx(correlation(removal_effects(model, ids)), abs=1e-9)
    assert debated.with_gradient == pytest.approx(correlation(scores["gradient, L2"]), abs=1e-9)
    assert debated.with_lime == pytest.approx(correlation(scores["LIME"]), abs=1e-9)
    with torch.no_grad():
        assert debated.output == pytest.approx(float(model(ids[None])), abs=1e-5)


def test_a_model_is_not_apart_from_itself(single, reviews):
    assert apart(single, single, reviews) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_one_head_decides_like_a_bag_of_words(single):
    output, linear = bag_of_words_sign(single, ids_of())
    assert (np.sign(output) == np.sign(linear)).all()
    assert not np.allclose(
        output / output.std(), linear / linear.std(), atol=0.05
    )  # the sign is linear, the log odds are not


@pytest.fixture(scope="module")
def layer() -> LastLayer:
    return LastLayer(embedded_model(), FILMS[1])


def test_the_embedded_model_answers_the_same_with_other_attention(layer):
    assert layer.answer(layer.attention) == pytest.approx(layer.log_odds, abs=1e-10)
    other = np.stack(
        [
            same_context(weights, values)
            for weights, values in zip(layer.attention, layer.values, strict=True)
        ]
    )
    assert layer.answer(other) == pytest.approx(layer.log_odds, abs=1e-8)
    assert (
        np.mean([divergence(one, two) for one, two in zip(layer.attention, other, strict=True)])
        > 0.02
    )
    order = np.random.default_rng(0).permutation(other.shape[1])
    assert (
        abs(layer.answer(layer.attention[:, order]) - layer.log_odds) > 0.05
    )  # the weights do matter


def test_a_search_goes_farther_for_nearly_the_same_answer(layer):
    other = layer.far_attention(steps=80)
    assert layer.answer(other) == pytest.approx(layer.log_odds, abs=0.05)
    assert (
        np.mean([divergence(one, two) for one, two in zip(layer.attention, other, strict=True)])
        > 0.3
    )


def test_counts_of_the_slides_word():
    assert counts(spell("DATAIAIAIA")).tolist() == [[1, 5, 1, 5, 3, 5, 3, 5, 3, 5]]


def test_attention_to_letters_starts_from_letters_only():
    words = draw_words(300, torch.Generator().manual_seed(0))
    by_letter, by_place = HistogramModel("letters"), HistogramModel("places")
    assert equal_letters(by_letter, words) > 100
    assert equal_letters(by_place, words) == pytest.approx(1.0, abs=0.05)
    assert by_letter.attention(words).shape == (300, WORD_LENGTH, WORD_LENGTH + 1)
    with pytest.raises(InputError, match="letters, places"):
        HistogramModel("words")
