"""``slalom-few``: explanations from few calls, even from fewer than units."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom_xai import Explainer
from slalom_xai.designs import RowPool, few_rows
from slalom_xai.errors import BudgetError

WORDS = [f"word{number}" for number in range(40)]
TEXT = " ".join(WORDS)


def keyed_on(*loud):
    """A model that counts some words and hears no others."""

    def model(texts):
        return [[0.0, sum(word in text.split() for word in loud)] for text in texts]

    return model


def explain(model, budget, text=TEXT, **options):
    return Explainer(
        model,
        method="slalom-few",
        output="logits",
        budget=budget,
        show_progress=False,
        **options,
    )(text)


def test_fewer_calls_than_units_find_the_words_that_matter():
    explanation = explain(keyed_on("word7", "word22"), 32)
    assert explanation.calls <= 32 < len(explanation.units)
    found = np.argsort(-explanation.scores("shapley"))[:2]
    assert {WORDS[index] for index in found} == {"word7", "word22"}
    assert explanation.importances is not None


def test_predictions_are_right_where_the_rows_suffice():
    explanation = explain(keyed_on("word3"), 64)
    keep = np.random.default_rng(1).random((50, len(WORDS))) < 0.5
    truth = keep[:, 3].astype(float)
    missed = explanation.predict(keep) - truth
    assert float((missed**2).mean()) < 0.05 * truth.var()


def test_the_test_is_by_rows_that_were_not_learnt_from():
    """A model that answers at random cannot be predicted, however well its rows are followed."""

    def chance(texts):
        return [[0.0, np.random.default_rng(crc32(text.encode())).normal()] for text in texts]

    explanation = explain(chance, 48)
    assert explanation.fidelity.wide.r2 < 0.3
    assert explanation.fidelity.wide.rows == explanation.calls - 1
    assert explanation.calls_check == 0


def test_a_budget_that_is_too_small_for_slalom_names_the_method_for_few_calls():
    with pytest.raises(BudgetError, match="slalom-few"):
        Explainer(keyed_on("word3"), output="logits", budget=32)(TEXT)
    with pytest.raises(BudgetError, match="at least 8 calls"):
        explain(keyed_on("word3"), 7)


@pytest.mark.parametrize("text", ["one two", "one two three", "a a a a"])
def test_texts_with_few_rows_are_asked_in_full(text):
    explanation = explain(keyed_on("one"), 32, text)
    assert np.isfinite(explanation.scores("value")).all()


def test_the_same_seed_gives_the_same_explanation_and_files_keep_it(tmp_path):
    first, second = (explain(keyed_on("word1", "word9"), 24) for _ in range(2))
    assert np.array_equal(first.scores("value"), second.scores("value"))
    first.save(tmp_path / "few.json")
    loaded = type(first).load(tmp_path / "few.json")
    keep = np.eye(len(WORDS), dtype=bool)
    assert np.allclose(loaded.predict(keep), first.predict(keep))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(0, 100), st.integers(0, 5))
def test_rows_differ_and_are_as_many_as_there_can_be(units, wanted, seed):
    pool = RowPool(np.arange(units))
    whole = pool.take_whole()
    rows = few_rows(pool, wanted, np.random.default_rng(seed))
    assert len(rows) <= wanted
    if units <= 12:
        assert len(rows) == min(wanted, 2**units - 2)
    assert len(np.unique(np.concatenate([whole, rows]), axis=0)) == len(rows) + 1
