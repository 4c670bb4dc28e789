"""A process beside the heads of a SLALOM: what it predicts, its Shapley values and its errors."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from made import made
from pair_games import drawn, planted
from word_games import Game

from slalom_xai import Explainer
from slalom_xai.estimators.slalom import Slalom
from slalom_xai.estimators.slalom.correcting import LEARNING
from slalom_xai.surrogates.conditioning import Changes, Conditioned, conditioned
from slalom_xai.surrogates.process import Process
from slalom_xai.surrogates.process_fit import fit_kernel
from slalom_xai.surrogates.process_shapley import process_shapley

WORDS = [f"w{number}" for number in range(24)]
TEXT = " ".join(WORDS)
PAIRED = {(1, 2): -4.0, (7, 15): 3.0, (10, 11): 2.5, (4, 20): -3.0}
SINGLE = np.random.default_rng(3).normal(0, 1, 24)


def play(words):
    """Words that matter by themselves, and pairs that only do together."""
    places = {int(word[1:]) for word in words}
    joint = sum(worth for pair, worth in PAIRED.items() if places.issuperset(pair))
    return float(sum(SINGLE[place] for place in places) + joint)


@functools.cache
def explained(process):
    return Explainer(Game(play), method=Slalom(process=process), budget=400)(TEXT)


def seen(units=6, rows=40, columns=2) -> Conditioned:
    truth = planted(units, 4, columns)
    table = drawn(rows, units)
    table = table[table.sum(dim=1) < units]
    changes = Changes.of(table, truth.predict(table) - truth.full)
    return conditioned(*fit_kernel(changes, LEARNING), changes, truth.full)


def test_what_is_predicted_is_a_share_of_the_heads_and_the_process():
    function = made(corrected=True, two_scores=True).function
    rows = drawn(9, function.units, seed=5)
    correction = function.correction
    by_heads = made(two_scores=True).function.predict(rows)
    missing = (1 - rows).mean(dim=1, keepdim=True)
    from_heads = correction.share * missing * (by_heads - correction.process.full)
    expected = correction.process.predict(rows) + from_heads
    assert torch.allclose(function.predict(rows), expected)


def test_scores_are_those_of_what_predicts():
    explanation = made(corrected=True)
    units = len(explanation)
    only, whole = np.eye(units), np.ones((1, units))
    removed = explanation.predict(whole)[0] - explanation.predict(1 - only)
    assert explanation.scores("removal") == pytest.approx(removed)
    assert explanation.scores("alone") == pytest.approx(explanation.predict(only))
    total = explanation.predict(whole)[0] - explanation.base_value
    assert explanation.scores("shapley").sum() == pytest.approx(total)


def exact_shapley(process: Process) -> torch.Tensor:
    """By all sets of units."""
    units = process.units
    values = torch.zeros(units, process.full.shape[0], dtype=torch.float64)
    for unit in range(units):
        others = [other for other in range(units) if other != unit]
        for size in range(units):
            weight = 1 / (units * math.comb(units - 1, size))
            for kept in itertools.combinations(others, size):
                row = torch.zeros(2, units, dtype=torch.float64)
                row[:, list(kept)] = 1
                row[0, unit] = 1
                with_it, without = process.predict(row)
                values[unit] += weight * (with_it - without)
    return values


def test_shapley_values_of_a_process_are_near_the_exact_ones_and_add_up():
    known = seen()
    found, exact = process_shapley(known).values, exact_shapley(known.process)
    gained = known.process.full - known.process.empty()
    assert torch.allclose(found.sum(dim=0), gained)
    assert float((found - exact).abs().max()) < 0.2 * float(exact.abs().max())


def test_errors_of_what_was_seen_are_small_and_grow_away_from_it():
    known = seen(units=12, rows=60)
    fresh = drawn(200, 12, seed=8)
    fresh = fresh[fresh.sum(dim=1) < 12]
    own, other = known.standard_errors(known.rows), known.standard_errors(fresh)
    assert float(own.mean()) < float(other.mean())
    missed = (known.process.predict(fresh) - planted(12, 4, 2).predict(fresh)).abs()
    assert float((missed <= 1.645 * other + 1e-9).double().mean()) > 0.75


def test_a_process_takes_up_what_heads_cannot_tell():
    plain, learnt = explained(False), explained(True)
    assert plain.surrogate != "slalom" or plain.function.correction is None
    assert learnt.function.correction is not None
    assert learnt.calls <= plain.calls == 400
    rng = np.random.default_rng(0)
    rows = rng.random((300, 24)) < rng.random((300, 1))
    rows = rows[rows.any(axis=1)]
    true = np.array([play(np.array(WORDS)[row]) for row in rows])
    errors = [((found.predict(rows) - true) ** 2).mean() for found in (plain, learnt)]
    assert errors[1] < 0.6 * errors[0]
    # What was measured before all rows were seen is no better than what is true.
    assert learnt.fidelity.wide.r2 < 1 - errors[1] / true.var() + 0.05


def test_intervals_of_learnt_scores_hold_the_truth():
    found = explained(True)
    whole = play(WORDS)
    removed = [whole - play(WORDS[:at] + WORDS[at + 1 :]) for at in range(24)]
    missed = np.abs(found.scores("removal") - removed)
    assert (missed <= 2.5 * found.standard_errors["removal"] + 1e-9).mean() > 0.8


def test_a_model_that_is_a_slalom_needs_no_process():
    values = np.random.default_rng(1).normal(0, 2, 24)
    weights = np.exp(np.random.default_rng(2).normal(0, 1, 24))

    def average(words):
        places = [int(word[1:]) for word in words]
        return float(weights[places] @ values[places] / weights[places].sum())

    found = Explainer(Game(average, start=""), budget=400)(TEXT)
    assert found.function.correction is None
