"""Naive Bayes weights by hand, and the floors."""

import numpy as np
import pytest
from word_games import Game

from slalom_xai import Explainer, methods
from slalom_xai.errors import InputError
from slalom_xai.methods import NaiveBayes, estimator
from slalom_xai.models.outputs import Outputs

TEXTS = ["Good good film", "a bad film", "good end", "bad bad end"]
LABELS = ["yes", "no", "yes", 0]
flat = Game(lambda left: float(len(left)))


def test_two_classes_by_hand():
    found = Explainer(flat, method=NaiveBayes(TEXTS, LABELS))("A GOOD bad film , unseen")
    # in "yes": good 3, film 1, end 1; in "no": a 1, bad 3, film 1, end 1
    expected = np.log([1 / 2, 4 / 1, 1 / 4, 2 / 2, 1 / 1, 1 / 1])
    assert np.allclose(found.values, expected)
    assert found.calls_fit == 0
    assert found.notes == ()


def test_smoothing_is_the_papers_alpha():
    found = Explainer(flat, method=NaiveBayes(TEXTS, LABELS, smoothing=40))("good film")
    assert np.allclose(found.values, [np.log(43 / 40), 0])


def test_three_classes_are_centred_log_probabilities():
    game = Game(lambda left: [len(left), 0, 1], labels=("a", "b", "c"))
    found = Explainer(game, method=NaiveBayes(["x x y", "y", "x z"], ["a", "b", "c"]))("x y")
    # four words in all classes but z are three: x, y, z
    likelihood = np.log([[3 / 6, 2 / 6], [1 / 4, 2 / 4], [2 / 5, 1 / 5]])
    expected = likelihood - likelihood.mean(axis=0)
    for row, label in zip(expected, "abc", strict=True):
        assert np.allclose(found.for_target(label).values, row)


def test_units_of_several_words_sum_and_pieces_share():
    corpus = NaiveBayes(TEXTS, LABELS)
    phrases = Explainer(flat, method=corpus, granularity="phrase")("good good film , bad end")
    assert phrases.values.sum() == pytest.approx(2 * np.log(4) - np.log(4))
    kinds = Explainer(flat, method=corpus, granularity="type")("good good film")
    assert np.allclose(kinds.values, [2 * np.log(4), 0])
    corpus = NaiveBayes(["wonderfulness", "x"], [1, 0])
    tokens = Explainer(method=corpus, granularity="token", target=1)("wonderfulness film")
    pieces = [
        score
        for unit, score in zip(tokens.units, tokens.values, strict=True)
        if unit.text != "film"
    ]
    assert len(pieces) > 1
    assert sum(pieces) == pytest.approx(np.log(2))


def test_a_corpus_that_leans_is_told():
    found = Explainer(flat, method=NaiveBayes(["good " * 10, "bad"], ["yes", "no"]))("good film")
    assert found.notes == (
        "The corpus holds 1 words of 'no' and 10 words of 'yes': "
        "the scores lean towards the larger class.",
    )


def test_by_name_it_says_how_to_give_a_corpus():
    assert "naive-bayes" in methods()
    with pytest.raises(InputError, match=r"use method=NaiveBayes\(texts, labels\)"):
        estimator("naive-bayes")


def test_what_it_cannot_use_is_named():
    with pytest.raises(InputError, match="2 texts were given with 1 labels"):
        NaiveBayes(["a", "b"], [1])
    with pytest.raises(InputError, match="smoothing is 0"):
        NaiveBayes(["a"], [1], smoothing=0)
    with pytest.raises(InputError, match="unknown target 'maybe'"):
        Explainer(flat, method=NaiveBayes(["a"], ["maybe"]))("good film")
    game = Game(lambda left: float(len(left)))
    game.outputs = Outputs("multilabel", ("x", "y"))
    with pytest.raises(InputError, match="compares classes, but the model is multilabel"):
        Explainer(game, method=NaiveBayes(["a"], [0]))("good film")


def test_floors():
    text = " ".join(f"w{place}" for place in range(300))
    drawn = Explainer(flat, method="random", budget=100)(text)
    assert abs(drawn.values.mean()) < 0.3
    assert drawn.values.std() == pytest.approx(1, abs=0.2)
    assert drawn == Explainer(flat, method="random", budget=100)(text)
    assert not np.array_equal(
        drawn.values, Explainer(flat, method="random", budget=100, random_state=1)(text).values
    )
    zero = Explainer(flat, method="zero", budget=100)(text)
    assert not np.any(zero.values)
    assert zero.calls_fit == drawn.calls_fit == 0
