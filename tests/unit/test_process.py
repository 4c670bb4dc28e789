"""Gaussian processes: the kernel, the conditioning, the search, and what they learn of games."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pair_games import WORDS, drawn, game, planted

from slalom_xai import Explainer
from slalom_xai.methods.additive import fit_additive
from slalom_xai.methods.gaussian_process import (
    PROCESS,
    Changes,
    Likelihood,
    Pull,
    compute_cholesky,
    condition,
    find_mode,
    fit_process,
    parts,
    solve_step,
    start_numbers,
)
from slalom_xai.methods.process import Kernel, Noise, pack_rows, unpack_rows


def some_kernel(units=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(2 * units + 3, generator=generator, dtype=torch.float64)
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
            expected = float(kernel.level) * product + length + added
            assert float(found[i, j]) == pytest.approx(expected)


def test_conditioning_is_that_of_all_rows_with_a_sure_whole_text():
    """The textbook's formula, with the whole text as one more row without noise."""
    kernel, rows = some_kernel(), drawn(12, 5, seed=2)[1:]
    rows = rows[rows.sum(dim=1) < 5]
    noise = Noise(torch.tensor(0.3).double(), torch.tensor(0.7).double())
    changes = torch.randn(len(rows), 2, generator=torch.Generator().manual_seed(1)).double()
    full = torch.tensor([3.0, -1.0]).double()
    scale = torch.tensor([2.0, 0.5]).double()
    found = condition(kernel, noise, Changes(rows, changes, scale), full)
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
    packed = pack_rows(rows)
    assert packed.shape == (9, -(-units // 48))
    assert torch.equal(unpack_rows(packed, units), rows)


def some_changes(units=6, rows=40, columns=2, seed=0):
    drawn_rows = drawn(rows, units, seed=seed)[1:]
    deleting = drawn_rows[drawn_rows.sum(dim=1) < units]
    return Changes.of(deleting, planted(units, 5, columns=columns).predict(deleting))


def some_numbers(changes):
    start = start_numbers(changes.rows)
    generator = torch.Generator().manual_seed(4)
    return start + 0.3 * torch.randn(len(start), generator=generator).double()


def test_the_likelihoods_slope_is_its_derivative():
    changes = some_changes()
    likelihood, at = Likelihood(changes), some_numbers(changes)
    slope = likelihood.at(at).slope
    for place in range(len(at)):
        step = torch.zeros_like(at)
        step[place] = 1e-5
        difference = float(likelihood.at(at + step).loss - likelihood.at(at - step).loss) / 2e-5
        assert float(slope[place]) == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_the_curvature_is_the_one_that_is_expected():
    """Fisher's information from its formula, with differences for derivatives of the kernel."""
    changes = some_changes()
    rows, at = changes.rows, some_numbers(changes)

    def matrix(numbers):
        kernel, noise = parts(numbers, 6)
        return kernel.anchored(rows, rows) + torch.diag(noise.of(rows))

    inverse = torch.linalg.inv(matrix(at))
    steps = 1e-5 * torch.eye(len(at)).double()
    slopes = [inverse @ (matrix(at + step) - matrix(at - step)) / 2e-5 for step in steps]
    expected = torch.tensor([[float((a * b.T).sum()) / 2 for b in slopes] for a in slopes])
    likelihood = Likelihood(changes)
    many = len(rows)
    likelihood.signs = many**0.5 * torch.eye(many).double()  # every direction once: no chance
    roots = likelihood.at(at).roots
    assert torch.allclose(roots.T @ roots, expected.double(), rtol=1e-3, atol=1e-3)


def test_a_matrix_that_is_singular_but_for_rounding_is_factored():
    bad = torch.ones(3, 3).double()
    bad[0, 0] -= 1e-9
    found = compute_cholesky(bad.clone())
    assert torch.allclose(found @ found.T, bad, atol=1e-2)


def test_the_pull_is_the_formula():
    start = torch.cat([torch.full((4,), -1.0), torch.full((4,), 2.0), torch.arange(5.0)]).double()
    pull, generator = Pull(start), torch.Generator().manual_seed(0)
    at = start + torch.randn(13, generator=generator).double()
    expected = 0.0
    for part in (slice(0, 4), slice(4, 8)):
        mean = at[part].mean()
        expected += PROCESS.pull * (at[part] - mean).pow(2).sum()
        expected += PROCESS.mean_pull * (mean - start[part][0]) ** 2
    assert float(pull.loss(at)) == pytest.approx(float(expected))
    step = 1e-3 * torch.randn(13, generator=generator).double()
    difference = float(pull.loss(at + step) - pull.loss(at - step))
    assert float(pull.slope(at) @ step) == pytest.approx(difference / 2)
    table = pull.add_to(torch.zeros(13, 13).double())
    assert torch.allclose(table @ step, pull.multiply_curvature(step))


def test_many_numbers_are_solved_for_without_a_table():
    generator = torch.Generator().manual_seed(0)
    roots, slope = (torch.randn(*size, generator=generator).double() for size in ((60, 27), (27,)))
    pull = Pull(torch.zeros(27).double())
    in_rounds = solve_step(roots, pull, slope, dense=0)
    assert torch.allclose(in_rounds, solve_step(roots, pull, slope), rtol=1e-4, atol=1e-6)


def test_the_search_finds_a_likelier_kernel_than_its_start():
    changes = some_changes(8, 150, columns=1)
    likelihood, start = Likelihood(changes), start_numbers(changes.rows)
    found = likelihood.at(find_mode(likelihood, start, PROCESS.steps)).loss
    assert found < likelihood.at(start).loss - 10


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
    rows = drawn(PROCESS.most_rows + 300, 12)
    generator = torch.Generator().manual_seed(0)
    found = fit_process(rows, truth.predict(rows), truth.full, generator)
    deleting = int((rows.sum(dim=1) < 12).sum())
    assert deleting > PROCESS.most_rows
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
