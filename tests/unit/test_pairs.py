"""Sparse pairwise regression: planted games are found, and scores are those of the function."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from pair_games import MAINS, TOGETHER, WORDS, drawn, game, planted

from slalom_xai import Explainer
from slalom_xai.methods.additive import AdditiveSurrogate, fit_additive
from slalom_xai.methods.pairs import fit_pairs


@pytest.mark.parametrize("columns", [1, 3])
def test_a_planted_game_is_found_exactly(columns):
    truth = planted(16, 10, columns)
    found = fit_pairs(drawn(600, 16), truth.predict(drawn(600, 16)), truth.full)
    assert torch.allclose(found.mains, truth.mains, atol=1e-5)
    fresh = drawn(200, 16, seed=1)
    assert torch.allclose(found.predict(fresh), truth.predict(fresh), atol=1e-5)
    both = zip(found.pairs.tolist(), found.joints.tolist(), strict=True)
    joints = {tuple(pair): joint for pair, joint in both}
    for pair, joint in zip(truth.pairs.tolist(), truth.joints.tolist(), strict=True):
        assert joints.pop(tuple(pair)) == pytest.approx(joint, abs=1e-5)
    assert all(np.allclose(joint, 0, atol=1e-5) for joint in joints.values())


def test_promising_pairs_are_found_among_very_many():
    truth = planted(60, 12)  # of 1,770 pairs, more than take part
    found = fit_pairs(drawn(900, 60), truth.predict(drawn(900, 60)), truth.full)
    fresh = drawn(200, 60, seed=1)
    linear = fit_additive(drawn(900, 60), truth.predict(drawn(900, 60)), truth.full).surrogate
    missed, left = (
        float((some.predict(fresh) - truth.predict(fresh)).pow(2).mean())
        for some in (found, linear)
    )
    assert missed < 0.1 * left


def test_a_linear_game_stays_linear():
    truth = AdditiveSurrogate(
        torch.arange(8.0, dtype=torch.float64)[:, None], torch.ones(1).double()
    )
    rows = drawn(200, 8)
    noise = 0.5 * torch.randn(200, 1, generator=torch.Generator().manual_seed(3)).double()
    found = fit_pairs(
        rows, truth.predict(rows) + noise * (rows.sum(dim=1) < 8)[:, None], truth.full
    )
    fresh = drawn(100, 8, seed=1)
    assert float((found.predict(fresh) - truth.predict(fresh)).pow(2).mean()) < 0.05


def test_unit_scores_are_shapley_values():
    function = planted(5, 6, columns=2)
    expected = torch.zeros(5, 2, dtype=torch.float64)
    for order in itertools.permutations(range(5)):
        counts = torch.zeros(1, 5, dtype=torch.float64)
        before = function.predict(counts)[0]
        for unit in order:
            counts[0, unit] = 1
            after = function.predict(counts)[0]
            expected[unit] += (after - before) / math.factorial(5)
            before = after
    assert torch.allclose(function.unit_scores, expected)
    assert torch.allclose(function.empty(), function.predict(torch.zeros(1, 5))[0])


def test_one_more_copy_adds_nothing_of_pairs():
    function = planted(4, 6)
    whole = torch.ones(1, 4, dtype=torch.float64)
    more = whole.clone()
    more[0, :2] = 2
    change = function.predict(more) - function.predict(whole)
    assert torch.allclose(change[0], function.mains[:2].sum(dim=0))


@pytest.mark.slow
def test_the_method_finds_a_planted_game():
    found = Explainer(game, output="logits", method="pairs", budget=700)(" ".join(WORDS))
    assert found.surrogate == "pairs"
    assert found.fidelity.wide.r2 > 0.9999
    places = {word: place for place, word in enumerate(WORDS)}
    shapley = np.zeros(len(WORDS))
    removal = np.zeros(len(WORDS))
    for word, worth in MAINS.items():
        shapley[places[word]] += worth
        removal[places[word]] += worth
    for pair, worth in TOGETHER.items():
        shapley[[places[word] for word in pair]] += worth / 2
        removal[[places[word] for word in pair]] += worth
    assert found.values == pytest.approx(shapley, abs=1e-3)
    assert found.scores("shapley") == pytest.approx(shapley, abs=1e-3)
    assert found.scores("removal") == pytest.approx(removal, abs=1e-3)
    assert found.score_names == ("value", "removal", "alone")
    assert "act together" in found.notes[0]


def test_where_no_pair_helps_the_method_says_so():
    def linear(texts):
        return [[0.0, sum(len(word) for word in text.split())] for text in texts]

    found = Explainer(linear, output="logits", method="pairs", budget=300)("a bb ccc dddd eeeee f")
    assert found.surrogate == "linear"
    assert "No pair" in found.notes[0]
    assert found.values == pytest.approx([1, 2, 3, 4, 5, 1], abs=1e-3)
