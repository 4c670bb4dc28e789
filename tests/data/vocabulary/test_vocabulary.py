"""Vocabularies: planted scores are found, errors cover, files last, and bad input is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from planted import plant
from scipy.optimize import least_squares
from word_games import Game, additive

from research.benchmarks.vocabulary import planted as planted_coverage
from slalom_xai import Explainer
from slalom_xai.data.vocabulary import Vocabulary, build_vocabulary
from slalom_xai.data.vocabulary.evidence import draw_sequences, sequence_counts
from slalom_xai.data.vocabulary.fitting import (
    Prior,
    SparseSlalom,
    fit_sparse,
    sink_prior,
    starting_point,
)
from slalom_xai.errors import BudgetError, InputError

ITEMS = 30


@pytest.fixture(scope="module")
def scores():
    generator = torch.Generator().manual_seed(1)
    values = 2 * torch.randn(ITEMS, generator=generator)
    importances = torch.randn(ITEMS, generator=generator)
    return values, importances - importances.mean()


@pytest.fixture(scope="module")
def explainer(scores, tmp_path_factory):
    folder = plant(*scores, tmp_path_factory.mktemp("planted"))
    return Explainer(str(folder), show_progress=False)


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    lengths = rng.integers(6, 15, 40)
    return [" ".join(f"t{word}" for word in rng.integers(0, ITEMS, size)) for size in lengths]


@pytest.fixture(scope="module")
def vocabulary(explainer, texts):
    return build_vocabulary(explainer, texts)


def test_planted_values_and_importances_are_found(vocabulary, scores):
    order = [ids[0] - 1 for ids in vocabulary.token_ids]
    assert sorted(order) == list(range(ITEMS))
    np.testing.assert_allclose(vocabulary.values, scores[0][order], atol=1e-4)
    np.testing.assert_allclose(vocabulary.importances, scores[1][order], atol=1e-3)
    assert vocabulary.importances.sum() == pytest.approx(0, abs=1e-9)
    for quality in vocabulary.quality.values():
        assert quality.r2 > 0.999 > quality.values_alone


def test_an_effect_is_what_texts_lose_on_average_without_the_word(vocabulary, explainer, texts):
    def output(words):
        return explainer.batches.columns(
            [explainer.model.read(words).rows_keeping(np.ones((1, len(words.split())), dtype=bool))]
        )[0][0, 0].item()

    name = vocabulary.names[0]
    item = vocabulary.look_up(name)
    having = [text for text in texts if name in text.split()]
    lost = [
        output(text) - output(" ".join(word for word in text.split() if word != name))
        for text in having
    ]
    assert item.contexts <= len(having)
    assert min(lost) - 1e-5 <= item.effect <= max(lost) + 1e-5
    if item.contexts == len(having):
        assert item.effect == pytest.approx(np.mean(lost), abs=1e-5)
        assert item.spread == pytest.approx(np.std(lost, ddof=1), abs=1e-5)


def test_calls_stay_in_the_budget_and_are_planned_before(explainer, texts):
    plans = []
    built = build_vocabulary(explainer, texts, budget=200, on_plan=plans.append)
    assert built.calls <= plans[0].calls == 200
    assert built.calls_check > 0
    with pytest.raises(BudgetError, match="30 items need at least 120 calls"):
        build_vocabulary(explainer, texts, budget=100)


def test_the_same_seed_gives_the_same_vocabulary(explainer, texts, vocabulary):
    assert build_vocabulary(explainer, texts).to_frame().equals(vocabulary.to_frame())


def test_a_list_of_words_needs_no_texts(explainer, scores):
    words = [f"t{number}" for number in range(12)]
    built = build_vocabulary(explainer, words=words, lengths=[4, 9])
    assert built.names == tuple(words)
    expected = scores[1][:12] - scores[1][:12].mean()
    np.testing.assert_allclose(built.importances, expected, atol=1e-3)
    assert np.isnan(built.effects).all()
    assert set(built.quality) == {"sequences"}


def test_listed_words_are_fitted_in_texts_with_other_words(explainer, texts, scores):
    built = build_vocabulary(explainer, texts, words=["t3", "t1", "t20"])
    assert built.names == ("t3", "t1", "t20")
    assert built.texts.tolist() == [sum(w in t.split() for t in texts) for w in built.names]
    np.testing.assert_allclose(built.values, scores[0][[3, 1, 20]], atol=1e-4)
    assert {"sequences", "deletions"} == set(built.quality)


def test_the_most_common_items_are_kept_and_the_others_counted(explainer, texts, vocabulary):
    built = build_vocabulary(explainer, texts, most_items=10)
    assert built.names == vocabulary.names[:10]
    assert built.left_out == ITEMS - 10


def test_a_word_of_too_many_tokens_is_left_out_of_texts_and_refused_in_a_list():
    """As web addresses are: one of them should not cost the whole run."""
    words, address = Explainer(granularity="word", show_progress=False), "x1-" * 40 + "x"
    plans = []
    built = build_vocabulary(
        words, ["a warm film", f"a dull film {address}"], on_plan=plans.append, lengths=[4]
    )
    assert set(built.names) == {"a", "warm", "film", "dull"}
    assert plans[0].too_long == 1
    with pytest.raises(InputError, match="tokens, and an item of this model may have"):
        build_vocabulary(words, words=["film", address])
    with pytest.raises(InputError, match="all items of the texts have more than"):
        build_vocabulary(words, [address, f"{address}y2"], lengths=[4])


def test_saved_and_loaded_it_is_the_same(vocabulary, tmp_path):
    loaded = Vocabulary.load(vocabulary.save(tmp_path / "v.json"))
    assert loaded.to_frame().equals(vocabulary.to_frame())
    assert loaded.quality == vocabulary.quality
    assert (loaded.calls, loaded.fingerprint) == (vocabulary.calls, vocabulary.fingerprint)
    assert loaded.look_up("T3") == loaded.look_up("t3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version 99"),
        ({"format": "other"}, "no vocabulary"),
        ({"values": [1.0]}, "damaged"),
        ({"sink": None}, "damaged"),
    ],
)
def test_other_and_damaged_files_are_refused(vocabulary, tmp_path, change, message):
    path = vocabulary.save(tmp_path / "v.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        Vocabulary.load(path)


def test_an_unknown_word_is_named_with_its_neighbours(vocabulary):
    with pytest.raises(InputError, match=r"'t300' is not among the 30 items.*did you mean 't"):
        vocabulary.look_up("t300")


def test_a_figure_names_what_was_asked_for(vocabulary):
    figure = vocabulary.plot(labels=5, words=["t7"])
    named = {text.get_text() for text in figure.axes[0].texts}
    assert "t7" in named
    assert vocabulary.names[vocabulary.loudest(1)[0]] in named


def test_what_cannot_be_used_is_refused(explainer, texts):
    with pytest.raises(InputError, match="reads strings and shows no tokens"):
        build_vocabulary(Explainer(Game(additive({"a": 1.0, "b": 2.0}))), ["a b"])
    with pytest.raises(InputError, match="list of words is empty"):
        build_vocabulary(explainer, words=[])
    with pytest.raises(InputError, match="no texts and no words"):
        build_vocabulary(explainer)
    with pytest.raises(InputError, match="none of 2 texts can be read"):
        build_vocabulary(explainer, ["", " "])
    sentences = Explainer(explainer.model, granularity="sentence", show_progress=False)
    with pytest.raises(InputError, match="granularity"):
        build_vocabulary(sentences, texts)


def test_many_classes_need_a_target(tmp_path):
    values = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    folder = plant(values, torch.zeros(8), tmp_path)
    words = [f"t{number}" for number in range(8)]
    with pytest.raises(InputError, match="3 outputs"):
        build_vocabulary(Explainer(str(folder), show_progress=False), words=words)
    built = build_vocabulary(Explainer(str(folder), target="c2", show_progress=False), words=words)
    centred = values - values.mean(dim=1, keepdim=True)
    np.testing.assert_allclose(built.values, centred[:, 2], atol=1e-4)


def test_the_sparse_form_is_the_formula():
    rng = np.random.default_rng(3)
    table = draw_sequences(9, 25, rng)
    values, importances = rng.normal(size=(2, 10))
    sparse = SparseSlalom(values, importances, 0.7, -0.4)
    counts = np.array([np.bincount(row[row >= 0], minlength=10) for row in table])
    weights = counts * np.exp(importances)
    sink = np.exp(-0.4)
    by_hand = (weights @ values + sink * 0.7) / (weights.sum(axis=1) + sink)
    rows = sequence_counts(table, 10)
    np.testing.assert_allclose(sparse.predict(rows), by_hand)
    np.testing.assert_allclose(sparse.normalise().predict(rows), by_hand)


def test_the_sparse_fit_is_that_of_dense_least_squares():
    """A matrix of rows times items, which the package never makes, and a solver of scipy."""
    rng = np.random.default_rng(5)
    items, deviation = 12, 0.8
    table = draw_sequences(items, 90, rng)
    counts = np.array([np.bincount(row[row >= 0], minlength=items) for row in table])
    values, answers = rng.normal(size=items), rng.normal(size=90)
    weights = rng.uniform(0.5, 2, size=90)
    centre, pull = sink_prior(values)

    def residuals(given):
        slots = counts * np.exp(given[:items])
        sink = np.exp(given[items])
        told = (slots @ values + sink * given[-1]) / (slots.sum(axis=1) + sink)
        misses = np.sqrt(weights) * (told - answers)
        return np.concatenate(
            [misses, given[:items] / deviation, [pull**0.5 * (given[-1] - centre)]]
        )

    dense = least_squares(residuals, np.zeros(items + 2), xtol=1e-12, ftol=1e-12).x
    rows = sequence_counts(table, items)
    start = starting_point(values, answers)
    sparse = fit_sparse(start, rows, answers, weights, Prior(deviation), steps=200)
    np.testing.assert_allclose(sparse.importances, dense[:items], atol=0.01)
    found = np.array([*sparse.importances, sparse.sink_importance, sparse.sink_value])
    assert (residuals(found) ** 2).sum() == pytest.approx((residuals(dense) ** 2).sum(), rel=1e-4)


def test_every_item_is_in_about_as_many_sequences():
    table = draw_sequences(11, 100, np.random.default_rng(0))
    counts = np.bincount(table[table >= 0], minlength=11)
    assert counts.max() - counts.min() <= 1


def test_intervals_hold_planted_importances():
    shares = [planted_coverage(60, 500, 0.1, seed) for seed in range(3)]
    assert 0.8 <= np.mean(shares) <= 0.99
