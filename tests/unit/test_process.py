"""Gaussian processes: the kernel, the conditioning, the search, and what they learn of games."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pair_games import WORDS, drawn, game, planted

from slalom_xai import Explainer
from slalom_xai.estimators.slalom.correcting import LEARNING
from slalom_xai.surrogates import process_fit
from slalom_xai.surrogates.additive import fit_additive
from slalom_xai.surrogates.process import (
    Kernel,
    Noise,
    conditioned,
    packed_rows,
    unpacked_rows,
)
from slalom_xai.surrogates.process_fit import _growth, fit_process


def some_kernel(units=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(2 * units + 4, generator=generator, dtype=torch.float64)
    return Kernel(numbers[:units], numbers[units : 2 * units], *numbers[2 * units :])


def test_the_kernel_is_its_formula():
    kernel, rows = some_kernel(), drawn(6, 5)
    found = kernel.between(rows, rows[:4])
    for i, first in enumerate(rows.numpy()):
        for j, second in enumerate(rows[:4].numpy()):
            product = np.exp(-(kernel.reaches.numpy() * np.abs(first - second)).sum())
            added = (kernel.slopes.numpy() * (1 - first) * (1 - second)).sum()
            lengths = abs(np.log(first.sum() + 1) - np.log(second.sum() + 1))
            length = float(kernel.length_level) * np.exp(-float(kernel.length_reach) * lengths)
            missing = (6 - first.sum()) * (6 - second.sum()) / 36
            grown = missing ** float(kernel.growth)
            alike = float(kernel.level) * product + length
            assert float(found[i, j]) == pytest.approx(grown * alike + added)


def test_conditioning_is_that_of_all_rows_with_a_sure_whole_text():
    """The textbook's formula, with the whole text as one more row without noise."""
    kernel, rows = some_kernel(), drawn(12, 5, seed=2)[1:]
    rows = rows[rows.sum(dim=1) < 5]
    noise = Noise(torch.tensor(0.3).double(), torch.tensor(0.7).double())
    changes = torch.randn(len(rows), 2, generator=torch.Generator().manual_seed(1)).double()
    full = torch.tensor([3.0, -1.0]).double()
    scale = torch.tensor([2.0, 0.5]).double()
    found = conditioned(kernel, noise, rows, changes, full, scale).process
    every = torch.cat([rows, torch.ones(1, 5).double()])
    matrix = kernel.between(every, every)
    matrix = matrix + torch.diag(torch.cat([noise.of(rows), torch.zeros(1).double()]))
    fresh = drawn(20, 5, seed=9)
    weights = torch.linalg.solve(matrix, torch.cat([changes, torch.zeros(1, 2).double()]))
    expected = full + kernel.between(fresh, every) @ weights
    assert torch.allclose(found.predict(fresh), expected)
    assert torch.allclose(found.predict(torch.ones(1, 5))[0], full)


@pytest.mark.parametrize("units", [1, 47, 48, 49, 130])
def test_rows_are_packed_and_unpacked(units):
    rows = drawn(9, units)
    packed = packed_rows(rows)
    assert packed.shape == (9, -(-units // 48))
    assert torch.equal(unpacked_rows(packed, units), rows)


@pytest.mark.parametrize("settings", [process_fit.CEILING, LEARNING], ids=["ceiling", "growing"])
def test_the_likelihoods_slope_is_its_derivative(settings):
    rows = drawn(40, 6)[1:]
    rows = rows[rows.sum(dim=1) < 6]
    changes = planted(6, 5, columns=2).predict(rows)
    scaled = changes / changes.pow(2).mean(dim=0).sqrt()
    likelihood = process_fit._Likelihood(rows, scaled, settings)
    generator = torch.Generator().manual_seed(4)
    at = likelihood.start + 0.3 * torch.randn(18, generator=generator).double()
    _, slope = likelihood(at)
    growth = 15
    for place in range(len(at)):
        if place == growth and not settings.grows:
            assert slope[place] == 0
            continue
        step = torch.zeros_like(at)
        step[place] = 1e-5
        difference = float(likelihood(at + step)[0] - likelihood(at - step)[0]) / 2e-5
        assert float(slope[place]) == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_the_search_finds_a_likelier_kernel_than_its_start():
    rows = drawn(150, 8)[1:]
    changes = planted(8, 6).predict(rows) - planted(8, 6).full
    scaled, ceiling = changes / changes.pow(2).mean().sqrt(), process_fit.CEILING
    likelihood = process_fit._Likelihood(rows, scaled, ceiling)
    found = process_fit._likeliest(likelihood, likelihood.start, ceiling)
    assert float(likelihood(found)[0]) < float(likelihood(likelihood.start)[0]) - 10


def test_it_learns_interactions_that_a_linear_fit_cannot():
    truth = planted(20, 15, columns=2)
    rows, fresh = drawn(400, 20), drawn(300, 20, seed=1)
    process = fit_process(rows, truth.predict(rows), truth.full)
    linear = fit_additive(rows, truth.predict(rows), truth.full).surrogate
    errors = [
        (some.predict(fresh) - truth.predict(fresh)).pow(2).mean() for some in (process, linear)
    ]
    assert float(errors[0]) < 0.2 * float(errors[1])
    assert torch.allclose(process.predict(torch.ones(1, 20))[0], truth.full)
    without = 1 - torch.eye(20).double()
    assert torch.allclose(process.unit_scores, process.full - process.predict(without))


@pytest.mark.slow
def test_many_rows_are_all_conditioned_on():
    truth = planted(12, 6)
    rows = drawn(process_fit.CEILING.most_rows + 300, 12)
    generator = torch.Generator().manual_seed(0)
    found = fit_process(rows, truth.predict(rows), truth.full, generator)
    deleting = int((rows.sum(dim=1) < 12).sum())
    assert deleting > process_fit.CEILING.most_rows
    assert len(found.rows) == deleting + 1  # and the whole text
    fresh = drawn(100, 12, seed=1)
    assert torch.allclose(found.predict(fresh), truth.predict(fresh), atol=0.05)


def test_a_column_that_never_changes_is_predicted_as_it_is():
    rows = drawn(60, 6)
    outputs = torch.cat([planted(6, 3).predict(rows), torch.full((60, 1), 2.0)], dim=1).double()
    process = fit_process(rows, outputs, outputs[0])
    assert torch.equal(process.predict(drawn(30, 6, seed=1))[:, 1], torch.full((30,), 2.0).double())


def test_the_method_beats_a_linear_one_on_a_game_with_interactions():
    found = {}
    for method in ("gp", "linear"):
        explainer = Explainer(game, output="logits", method=method, budget=500)
        found[method] = explainer(" ".join(WORDS))
    process = found["gp"]
    assert process.surrogate == "process"
    assert process.fidelity.wide.mse < 0.5 * found["linear"].fidelity.wide.mse
    whole = np.ones((1, len(WORDS)))
    removed = process.predict(whole)[0] - process.predict(whole - np.eye(len(WORDS)))
    assert process.values == pytest.approx(removed)
    assert process.scores("removal") == pytest.approx(removed)
    # All calls but those of the report are fitted.
    assert process.calls_fit == len(process.function.rows)
    assert process.calls == 500


@pytest.mark.parametrize(("level", "power"), [(-1.0, 0.0), (0.0, 0.5), (0.3, 1.0), (1.0, 3.0)])
def test_how_changes_grow_is_seen(level, power):
    """Changes that do not grow at all are no exception: a model may answer all deletions alike."""
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(4000, 1, generator=generator, dtype=torch.float64)
    rows = (torch.rand(4000, 40, generator=generator, dtype=torch.float64) < kept).double()
    rows = rows[rows.sum(dim=1) < 40]
    deleted = 40 - rows.sum(dim=1, keepdim=True)
    spread = torch.exp((level + power * ((deleted + 1) / 41).log()) / 2)
    noise = torch.randn(spread.shape, generator=generator, dtype=torch.float64)
    assert _growth(rows, spread * noise) == pytest.approx((level, power), abs=0.15)
